package app

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"sidestep/internal/config"
	"sidestep/internal/leg"
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

// connections says how connections to nodes, or to a relay, are made and kept. The keys at path are about TLS.
func connections(path string, t config.ClientTLS, u config.Upstream, files *rotation) (leg.Options, error) {
	o := leg.Options{
		Dial: (&net.Dialer{Timeout: u.Dial, KeepAlive: keepAlive}).DialContext,
		TLS: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			ServerName:         t.ServerName,
			InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // asked for by the operator
		},
		HandshakeTimeout: u.Dial, // a stopped process accepts connections, but shakes no hands
		MaxIdle:          u.IdleConnections,
		IdleTimeout:      idleTimeout,
		ContinueTimeout:  continueTimeout,
	}
	if t.CAFile != "" {
		pool, err := watchAuthorities(files, t.CAFile)
		if err != nil {
			return o, fmt.Errorf("%s.ca_file: %w", path, err)
		}
		o.Roots = pool.get
	}
	if t.CertFile != "" {
		pair, err := watchKeyPair(files, t.CertFile, t.KeyFile)
		if err != nil {
			return o, fmt.Errorf("%s.cert_file: %w", path, err)
		}
		o.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return pair.get(), nil
		}
	}
	return o, nil
}

// newTransport returns a transport for sidestep's own requests, over connections as o has them. Environment variables for
// proxies are not looked at: sidestep sits beside the cluster.
func newTransport(o leg.Options) *http.Transport {
	return &http.Transport{
		DialContext: o.Dial,
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			to := o
			to.Address = address
			return leg.Dial(ctx, to)
		},
		MaxIdleConnsPerHost: o.MaxIdle,
		IdleConnTimeout:     o.IdleTimeout,
	}
}

// newPollClient returns the client of sidestep's own polls, with the account a, of hosts of which to is one. It follows no
// redirect: the account goes to the nodes that the cluster names and to no other host.
func newPollClient(a config.Auth, to *url.URL, over *http.Transport, files *rotation) (*http.Client, error) {
	client := &http.Client{
		Transport:     over,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	file, format := a.PasswordFile, func(secret string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.Username+":"+secret))
	}
	switch a.Kind() {
	case config.AuthNone:
		return client, nil
	case config.AuthAPIKey:
		file, format = a.APIKeyFile, func(secret string) string { return "ApiKey " + secret }
	case config.AuthBearer:
		file, format = a.BearerTokenFile, func(secret string) string { return "Bearer " + secret }
	}
	secret, err := watchSecret(files, file)
	if err != nil {
		return nil, err
	}
	if to.Scheme != "https" {
		files.logger.Warn("sidestep's own account is sent without encryption", "to", to.Host, "auth", a.Kind())
	}
	client.Transport = &account{over, func() string { return format(secret.get()) }}
	return client, nil
}

// account adds sidestep's own credentials to its polls.
type account struct {
	*http.Transport // http.Client closes its idle connections
	// authorization returns the value of the header.
	authorization func() string
}

// RoundTrip implements http.RoundTripper.
func (a *account) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context()) // a RoundTripper may not change its request
	r.Header.Set("Authorization", a.authorization())
	return a.Transport.RoundTrip(r)
}
