package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"sidestep/internal/config"
)

const (
	// keepAlive is how often an idle connection to a node is probed.
	keepAlive = 15 * time.Second
	// idleTimeout is when an unused connection to a node is closed. Firewalls and
	// load balancers drop idle connections silently, some after a minute.
	idleTimeout = 50 * time.Second
	// continueTimeout is how long a node may take to say whether it wants the body
	// that a client announced (Expect: 100-continue); then the body is sent.
	continueTimeout = time.Second
)

// newTransport returns the template of all connections to the cluster.
// Environment variables for proxies are not looked at: sidestep sits beside the
// cluster.
func newTransport(u config.Upstream, authorities string, logger *slog.Logger) (*http.Transport, error) {
	tlsConfig, err := clientTLS("upstream.tls", u.TLS, authorities, logger)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: u.Dial, KeepAlive: keepAlive}).DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: u.Dial, // a stopped process accepts connections, but shakes no hands
		// A client's Accept-Encoding is its own, and so is the compressed answer.
		DisableCompression:    true,
		MaxIdleConnsPerHost:   u.IdleConnections,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: continueTimeout,
	}, nil
}

// clientTLS returns what the keys at path say of connections that sidestep makes.
func clientTLS(path string, t config.ClientTLS, authorities string, logger *slog.Logger) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // asked for by the operator
	}
	if authorities != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(authorities)) {
			return nil, fmt.Errorf("%s.ca_file: %s holds no certificate in PEM form", path, t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := watchKeyPair(logger, t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s.cert_file: %w", path, err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return pair.get(), nil
		}
	}
	return c, nil
}

// newPollClient returns the client of sidestep's own polls. It follows no
// redirect: the account goes to the nodes that the cluster names and to no other
// host.
func newPollClient(account http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     account,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// account adds sidestep's own credentials to its polls.
type account struct {
	next http.RoundTripper
	// authorization returns the value of the header.
	authorization func() string
	// secure says that the cluster is reached by https: then the credentials are
	// not sent in the clear to an address that a node may name.
	secure bool
}

func newAccount(u config.Upstream, next http.RoundTripper, logger *slog.Logger) (http.RoundTripper, error) {
	a := u.Auth
	file, format := a.PasswordFile, func(secret string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.Username+":"+secret))
	}
	switch a.Kind() {
	case config.AuthNone:
		return next, nil
	case config.AuthAPIKey:
		file, format = a.APIKeyFile, func(secret string) string { return "ApiKey " + secret }
	case config.AuthBearer:
		file, format = a.BearerTokenFile, func(secret string) string { return "Bearer " + secret }
	}
	secret, err := watch(logger, func() (string, error) { return readSecret(file) }, file)
	if err != nil {
		return nil, fmt.Errorf("upstream.auth: %w", err)
	}
	secure := u.Parsed()[0].Scheme == "https" // all of them are alike
	if !secure {
		logger.Warn("sidestep's own account is sent without encryption", "auth", a.Kind())
	}
	return &account{
		next:          next,
		authorization: func() string { return format(secret.get()) },
		secure:        secure,
	}, nil
}

// readSecret reads a secret that stands alone in a file. Editors and shells add
// a line end, which belongs to no secret.
func readSecret(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	secret := bytes.TrimSpace(data)
	if len(secret) == 0 {
		return "", fmt.Errorf("%s is empty", file)
	}
	if bytes.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s holds more than one line", file)
	}
	return string(secret), nil
}

var errInsecure = errors.New("sidestep's own account is not sent without encryption, as the upstreams given are https")

// RoundTrip implements http.RoundTripper.
func (a *account) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.secure && r.URL.Scheme != "https" {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errInsecure
	}
	r = r.Clone(r.Context()) // a RoundTripper may not change its request
	r.Header.Set("Authorization", a.authorization())
	return a.next.RoundTrip(r)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the transport.
func (a *account) CloseIdleConnections() {
	(&http.Client{Transport: a.next}).CloseIdleConnections()
}
