package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"sidestep/internal/admin"
	"sidestep/internal/admission"
	"sidestep/internal/config"
	"sidestep/internal/proxy"
	"sidestep/internal/rawsocket"
)

const (
	// maxHeaderBytes is far more than the engines take (8 or 16 KiB by default): a client can have sidestep hold as much for as
	// long as its body may take. As much of a body comes over HTTP/2 before it is read.
	maxHeaderBytes   = 128 << 10
	adminIdleTimeout = 2 * time.Minute
	// adminPatience is how long a request to the admin listener may take to come, and its answer with the reading of it: longer
	// than a profile, or than a reload while cluster.poll_timeout and cluster.source.silence together are below half of it.
	adminPatience = 5 * time.Minute

	// Protocols as TLS negotiates them.
	http1 = "http/1.1"
	http2 = "h2"
)

// listener is one of the two listeners, which exist across reloads.
type listener struct {
	key     string // of its address in the configuration
	address string
	server  *http.Server // plain HTTP while its TLSConfig is nil
	// stopping ends when the server begins to shut down.
	stopping context.Context //nolint:containedctx // the life of the listener

	bound net.Listener // nil until bind, unless a supervisor has opened it, in place of address
	// patient says that clients may open connections long before they use them.
	patient bool
	clients *patientListener   // around bound, if patient
	hangups *rawsocket.Hangups // of its connections; nil: net/http watches them
	served  sync.WaitGroup
}

func (a *App) newDataListener() (*listener, error) {
	l := &listener{key: "listen", address: a.cfg.Listen, patient: true, bound: a.options.Sockets.Data}
	l.server, l.stopping = a.newServer()
	l.server.Handler = a.closing(func(w http.ResponseWriter, r *http.Request) {
		a.current.Load().proxy.ServeHTTP(w, r)
	})
	l.server.ConnContext, l.server.ConnState = withConnection, settleLast
	// The engine answers "OPTIONS *".
	l.server.DisableGeneralOptionsHandler = true
	negotiated := []string{http1}
	if streams := a.cfg.Limits.ConcurrentStreams; streams > 0 {
		negotiated = []string{http2, http1}
		l.server.Protocols.SetHTTP2(true)
		l.server.Protocols.SetUnencryptedHTTP2(true)
		// All bodies of a connection may come at a time: one that is not read, as nothing takes it, does not hold up the others.
		l.server.HTTP2 = &http.HTTP2Config{
			MaxConcurrentStreams:          streams,
			MaxReceiveBufferPerStream:     maxHeaderBytes,
			MaxReceiveBufferPerConnection: min(streams, math.MaxInt32/maxHeaderBytes) * maxHeaderBytes,
		}
	}
	// No IdleTimeout: the engines do not close idle connections either, and clients with
	// connection pools rely on it.
	var err error
	l.server.TLSConfig, err = serverTLS("listen_tls", a.cfg.ListenTLS, negotiated, a.files)
	return l, err
}

func (a *App) newAdminListener() (*listener, error) {
	l := &listener{key: "admin.listen", address: a.cfg.Admin.Listen, bound: a.options.Sockets.Admin}
	l.server, l.stopping = a.newServer()
	l.server.IdleTimeout, l.server.ReadTimeout, l.server.WriteTimeout = adminIdleTimeout, adminPatience, adminPatience
	l.server.Handler = admin.New(admin.Options{
		Service:  service{a},
		Access:   func() admin.Access { return *a.access.Load() },
		Gatherer: a.options.Registry,
		Logger:   a.logger,
		Version:  a.options.Version,
		Switches: map[string]admin.Switch{
			"routing":   newSwitch(a, proxy.Modes(), (*proxy.Proxy).Mode, (*proxy.Proxy).SetMode),
			"bulk":      newSwitch(a, proxy.Modes(), (*proxy.Proxy).BulkMode, (*proxy.Proxy).SetBulkMode),
			"admission": newSwitch(a, admission.Modes(), (*proxy.Proxy).AdmissionMode, (*proxy.Proxy).SetAdmissionMode),
		},
		Snapshots: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a.current.Load().snapshots.ServeHTTP(w, r)
		}),
		Quit: l.stopping.Done(),
	})
	var err error
	l.server.TLSConfig, err = serverTLS("admin.tls", a.cfg.Admin.TLS, []string{http1}, a.files)
	return l, err
}

// newServer returns a server for HTTP/1.1, and what ends when that begins to shut down. It has no ReadTimeout or
// WriteTimeout, as bulks are large and searches may take long.
func (a *App) newServer() (*http.Server, context.Context) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	stopping, stop := context.WithCancel(context.Background())
	server := &http.Server{
		Protocols:         protocols,
		ReadHeaderTimeout: a.cfg.Limits.ReadHeaderTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.logger.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(stop)
	return server, stopping
}

// serverTLS returns nil if t says plain HTTP. Certificates are checked for changes at
// each handshake, so that rotated ones are used at once.
func serverTLS(key string, t config.ServerTLS, protocols []string, files *rotation) (*tls.Config, error) {
	if !t.Enabled() {
		return nil, nil //nolint:nilnil // no TLS is not an error
	}
	pair, err := watchKeyPair(files, t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s.cert_file: %w", key, err)
	}
	base := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get(), nil },
	}
	if t.ClientCAFile == "" {
		return base, nil
	}
	authorities, err := watchAuthorities(files, t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("%s.client_ca_file: %w", key, err)
	}
	base.ClientAuth = tls.RequireAndVerifyClientCert
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := base.Clone()
		c.ClientCAs = authorities.get()
		return c, nil
	}
	return base, nil
}

func (l *listener) bind(ctx context.Context) error {
	if l.bound != nil {
		return nil
	}
	bound, err := new(net.ListenConfig).Listen(ctx, "tcp", l.address)
	if err != nil {
		return fmt.Errorf("%s: cannot listen on %s: %w", l.key, l.address, cause(err))
	}
	l.bound = bound
	return nil
}

// cause returns err without the address, which package net adds.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// addr returns the bound address; nil while there is none.
func (l *listener) addr() net.Addr {
	if l.bound == nil {
		return nil
	}
	return l.bound.Addr()
}

// serve accepts connections in the background until shutdown. An error before that is
// sent to failed.
func (l *listener) serve(failed chan<- error) {
	secure, from := l.server.TLSConfig != nil, l.bound
	if l.patient {
		if !secure { // with TLS net/http watches the clients, and if there is an error
			l.hangups, _ = rawsocket.NewHangups()
		}
		l.clients = &patientListener{Listener: l.bound, handshake: secure, hangups: l.hangups, stopping: l.stopping}
		from = l.clients
	}
	serve := func() error { return l.server.Serve(from) }
	if secure {
		serve = func() error { return l.server.ServeTLS(from, "", "") }
	}
	l.served.Go(func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("%s: serve on %s: %w", l.key, l.address, err)
		}
	})
}

// shutdown accepts no new connection, closes idle ones, waits for requests in flight
// until ctx ends, and aborts the rest; that is the error.
func (l *listener) shutdown(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("%s: requests were still in flight and have been cut off: %w", l.key, err)
	}
	l.close()
	l.served.Wait()
	_ = l.hangups.Close()
	return err
}

func (l *listener) close() {
	_ = l.server.Close()
	if l.bound != nil {
		_ = l.bound.Close()
	}
}

// newSwitch returns the switch of a mode as the admin listener has it. What it sets holds until it is switched again, or
// a reload changes the key of the mode.
func newSwitch[M ~string](a *App, modes []M, get func(*proxy.Proxy) M, set func(*proxy.Proxy, M) error) admin.Switch {
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	return admin.Switch{
		Modes: names,
		Get:   func() string { return string(get(a.current.Load().proxy)) },
		Set: func(mode string) error {
			err := a.change(func(p *proxy.Proxy) error { return set(p, M(mode)) })
			if errors.Is(err, proxy.ErrNoTarget) {
				return admin.Unconfigured(err.Error())
			}
			return err
		},
	}
}
