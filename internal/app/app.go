// Package app builds sidestep from its configuration and owns its life cycle. Two
// listeners exist all the time. Behind them is a pipeline (the view of the cluster, the
// choice of copies, the data plane), which a reload replaces. Its monitor, the view of the cluster and what was learned,
// stays if no key of it has changed.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/admin"
	"sidestep/internal/bulk"
	"sidestep/internal/config"
	"sidestep/internal/diagnosis"
	"sidestep/internal/proxy"
	"sidestep/internal/tracing"
)

// adminGrace is how long a stop waits for the admin listener's own requests.
const adminGrace = time.Second

// Options are what does not come from the configuration.
type Options struct {
	Version string
	// Commit is what was built; empty if that is not known.
	Commit string
	// Logger, nil for none.
	Logger *slog.Logger
	// Level, if set, is the level of Logger. A reload changes it.
	Level *slog.LevelVar
	// Registry receives all metrics; nil makes one.
	Registry *prometheus.Registry
	// Load reads the configuration again for [App.ReloadConfig]; nil if there is
	// nothing to read.
	Load func() (config.Config, error)
	// Sockets are used in place of the configured addresses.
	Sockets Sockets
}

// App is one running sidestep. Make it with [New].
type App struct {
	options Options
	logger  *slog.Logger
	files   *rotation
	metrics *metrics
	tracer  *tracing.Tracer
	data    *listener
	admin   *listener
	// access says what may be done on the admin listener.
	access atomic.Pointer[admin.Access]

	// mu serialises Start, Reload and Stop, and guards cfg.
	mu  sync.Mutex
	cfg config.Config

	// modeMu keeps what is changed by hand, and the replacement of the pipeline, apart. It is
	// separate from mu, as switching the mode must not wait for a reload.
	modeMu  sync.Mutex
	current atomic.Pointer[pipeline]

	recorder *diagnosis.Recorder
	logs     *requestLogs
	books    bulk.Books   // of bulks; they outlive a reload
	held     atomic.Int64 // bytes of bodies that requests hold; it outlives a reload

	requests atomic.Int64 // being served
	delay    delay
	stopping chan struct{} // closed when Stop begins
	stopOnce sync.Once
	stopErr  error
	failed   chan error
}

// New builds everything and starts nothing. The error tells every problem of
// the configuration, a line each.
func New(cfg config.Config, o Options) (*App, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	a := &App{
		options:  o,
		logger:   o.Logger,
		files:    &rotation{logger: o.Logger},
		cfg:      cfg,
		delay:    delay{ended: make(chan struct{})},
		stopping: make(chan struct{}),
		failed:   make(chan error, 2), // one for each listener
	}
	a.setLevel(cfg.Log.Level) // first, as all that follows may log
	a.warn(cfg)
	var err error
	if a.logs, err = newRequestLogs(o.Registry, o.Logger); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	a.tracer = tracing.New(o.Logger, o.Registry)
	a.recorder = diagnosis.New(diagnosis.Options{
		Enabled: cfg.Diagnosis.Enabled, Dir: cfg.Diagnosis.Dir, MaxSize: int64(cfg.Diagnosis.MaxSize),
		Logger: o.Logger, Registerer: o.Registry,
	})
	first, err := a.newPipeline(cfg, nil)
	if err != nil {
		return nil, err
	}
	a.use(first)
	if a.metrics, err = newMetrics(a); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	access, err := newAccess(cfg.Admin, o.Sockets.Admin, a.files)
	if err != nil {
		return nil, err
	}
	a.access.Store(access)
	if a.data, err = a.newDataListener(); err != nil {
		return nil, err
	}
	if a.admin, err = a.newAdminListener(); err != nil {
		return nil, err
	}
	return a, nil
}

// Start binds both listeners and starts polling the cluster. ctx bounds the binding
// alone. Requests are served at once; they pass until the cluster is known. An error
// names the key and the address that cannot be bound, or the log that cannot be opened;
// then nothing has been started.
func (a *App) Start(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	logs, err := a.logs.open(a.cfg.Logs)
	if err != nil {
		return err
	}
	for _, l := range []*listener{a.data, a.admin} {
		if l.bound != nil {
			a.logger.Info("an inherited socket is used in place of the configured address",
				"key", l.key, "address", l.bound.Addr().String(), "configured", l.address)
		}
	}
	if err = errors.Join(a.data.bind(ctx), a.admin.bind(ctx)); err == nil {
		err = a.useTracing(a.cfg)
	}
	if err != nil {
		a.data.close()
		a.admin.close()
		a.logs.drop(logs)
		return err
	}
	a.logs.use(a.cfg.Logs, logs)
	a.current.Load().start(ctx)
	a.recorder.Start(context.WithoutCancel(ctx))
	a.data.serve(a.failed)
	a.admin.serve(a.failed)
	a.logger.Info("sidestep started", "version", a.options.Version,
		"data", a.data.addr().String(), "admin", a.admin.addr().String(), "config", a.cfg)
	return nil
}

// Failed receives the error of a listener that failed after Start: the process cannot
// serve and should stop.
func (a *App) Failed() <-chan error { return a.failed }

// DataAddr returns the address for clients; nil before Start, unless its socket was inherited.
func (a *App) DataAddr() net.Addr { return a.data.addr() }

// AdminAddr returns the address of the admin pages; nil before Start, unless its socket was inherited.
func (a *App) AdminAddr() net.Addr { return a.admin.addr() }

// Ready returns nil if searches can be steered, otherwise what is missing.
func (a *App) Ready() error {
	if !a.Serving() {
		return errors.New("stopping: requests in flight are being finished")
	}
	return a.current.Load().poller.Ready()
}

// Serving reports whether the process has not begun to stop.
func (a *App) Serving() bool {
	select {
	case <-a.stopping:
		return false
	default:
		return true
	}
}

// Mode returns the current mode of routing.
func (a *App) Mode() proxy.Mode { return a.current.Load().proxy.Mode() }

// SetMode switches the mode of routing, until it is switched again or a reload changes
// routing.mode.
func (a *App) SetMode(mode proxy.Mode) error {
	return a.change(func(p *proxy.Proxy) error { return p.SetMode(mode) })
}

// change changes the data plane in use. A reload takes over what was changed.
func (a *App) change(change func(*proxy.Proxy) error) error {
	a.modeMu.Lock()
	defer a.modeMu.Unlock()
	return change(a.current.Load().proxy)
}

// Stop drains: sidestep is not ready any more, and answers close their connections. After
// limits.drain_delay (see [App.SkipDrain]) it accepts no new connection, closes idle
// ones, and waits for the requests in flight for at most limits.shutdown_grace. Then it
// aborts the rest, which is the error. It does so at once when ctx ends. Later calls
// return the same.
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() {
		close(a.stopping) // a reload that is waiting ends
		a.mu.Lock()
		defer a.mu.Unlock()
		a.stopErr = a.stop(ctx)
	})
	return a.stopErr
}

func (a *App) stop(ctx context.Context) error {
	limits := a.cfg.Limits
	a.logger.Info("stopping", "delay", limits.DrainDelay, "grace", limits.ShutdownGrace)
	if a.data.clients != nil && a.delay.wait(ctx, limits.DrainDelay) {
		a.data.clients.drain(ctx)
	}
	graced, cancel := context.WithTimeout(ctx, limits.ShutdownGrace)
	defer cancel()
	err := a.data.shutdown(graced)
	if err != nil {
		a.awaitRequests()
	}
	a.logs.close()
	a.stopRecorder()
	a.current.Load().stop(nil)
	a.tracer.Close(context.WithoutCancel(ctx))

	// The admin listener is closed last, so that the drain can be observed.
	soon, cancelAdmin := context.WithTimeout(context.WithoutCancel(ctx), adminGrace)
	defer cancelAdmin()
	if adminErr := a.admin.shutdown(soon); adminErr != nil {
		a.logger.Info("admin requests were cut off", "err", adminErr)
	}
	a.logger.Info("stopped")
	return err
}

// setLevel sets the level of the log, which is one that there is.
func (a *App) setLevel(name string) {
	var level slog.Level
	if a.options.Level != nil && level.UnmarshalText([]byte(name)) == nil {
		a.options.Level.Set(level)
	}
}
