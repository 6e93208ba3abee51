package app_test

import (
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/app"
	"sidestep/internal/config"
)

func TestTLSOnBothListeners(t *testing.T) {
	trusted, other, dir := newAuthority(t), newAuthority(t), t.TempDir()
	cfg := settings(newUpstream(t).URL)
	cfg.ListenTLS.CertFile, cfg.ListenTLS.KeyFile = trusted.files(dir, "data")
	cfg.Admin.TLS.CertFile, cfg.Admin.TLS.KeyFile = trusted.files(dir, "admin")
	cfg.Admin.TLS.ClientCAFile = write(t, dir, "clients.pem", trusted.pem)
	s := startReady(t, cfg, nil)
	data := "GET https://" + s.DataAddr().String() + "/logs/_search"
	admin := "GET https://" + s.AdminAddr().String() + "/-/ready"

	got, err := ask(t, tlsClient(t, trusted), data, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
	_, err = ask(t, tlsClient(t, other), data, "")
	require.ErrorContains(t, err, "certificate signed by unknown authority")

	got, err = ask(t, tlsClient(t, trusted, trusted.pair("operator")), admin, "")
	require.NoError(t, err)
	require.Equal(t, "ready\n", got.body)
	_, err = ask(t, tlsClient(t, trusted), admin, "")
	require.ErrorContains(t, err, "certificate required")
	_, err = ask(t, tlsClient(t, trusted, other.pair("stranger")), admin, "")
	require.Error(t, err)
}

func TestRotatedCertificatesAreUsedAtOnce(t *testing.T) {
	old, next, dir := newAuthority(t), newAuthority(t), t.TempDir()
	cfg := settings(newUpstream(t).URL)
	cfg.ListenTLS.CertFile, cfg.ListenTLS.KeyFile = old.files(dir, "data")
	s := startReady(t, cfg, nil)
	data := "GET https://" + s.DataAddr().String() + "/logs/_search"
	_, err := ask(t, tlsClient(t, old), data, "")
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(cfg.ListenTLS.CertFile, []byte("half written"), 0o600))
	_, err = ask(t, tlsClient(t, old), data, "")
	require.NoError(t, err, "while a file is bad the old certificate serves")
	require.Contains(t, s.log.String(), "files cannot be used")

	next.files(dir, "data")
	_, err = ask(t, tlsClient(t, next), data, "")
	require.NoError(t, err)
}

// secureUpstream is an upstream that speaks TLS and demands a client certificate.
func secureUpstream(t *testing.T, trusted *authority) *upstream {
	t.Helper()
	u := prepareUpstream(t)
	u.TLS = &tls.Config{
		Certificates: []tls.Certificate{trusted.pair("es")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: trusted.pool(),
		MinVersion: tls.VersionTLS12,
	}
	u.StartTLS()
	return u
}

func TestUpstreamTLSWithClientCertificate(t *testing.T) {
	trusted, dir := newAuthority(t), t.TempDir()
	u := secureUpstream(t, trusted)
	cfg := settings(u.URL)
	cfg.Upstream.TLS.CAFile = write(t, dir, "ca.pem", trusted.pem)
	cfg.Upstream.TLS.CertFile, cfg.Upstream.TLS.KeyFile = trusted.files(dir, "sidestep")
	s := startReady(t, cfg, nil)
	require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search")).status)
}

func TestUpstreamThatIsNotTrusted(t *testing.T) {
	trusted, dir := newAuthority(t), t.TempDir()
	cfg := settings(secureUpstream(t, trusted).URL)
	cfg.Upstream.TLS.CAFile = write(t, dir, "ca.pem", newAuthority(t).pem)
	cfg.Upstream.TLS.CertFile, cfg.Upstream.TLS.KeyFile = trusted.files(dir, "sidestep")
	cfg.Upstream.Auth.APIKeyFile = write(t, dir, "key", []byte("topsecret"))
	s := start(t, cfg, nil)
	require.Eventually(t, func() bool {
		return s.Ready() != nil && s.get(s.dataURL("/logs/_search")).status >= http.StatusBadGateway
	}, patience, 5*time.Millisecond)
	require.NotContains(t, s.log.String(), "topsecret")
}

func TestRotatedUpstreamAuthoritiesAreUsedAtOnce(t *testing.T) {
	trusted, dir := newAuthority(t), t.TempDir()
	u := secureUpstream(t, trusted)
	cfg := settings(u.URL)
	cfg.Limits.HeldBody = 1
	cfg.Upstream.TLS.CAFile = write(t, dir, "ca.pem", newAuthority(t).pem)
	cfg.Upstream.TLS.CertFile, cfg.Upstream.TLS.KeyFile = trusted.files(dir, "sidestep")
	s := start(t, cfg, nil)
	require.Equal(t, http.StatusServiceUnavailable, s.get(s.dataURL("/logs/_search")).status)
	require.Error(t, s.Ready())
	statuses := func() (held, streamed int) {
		got, err := ask(t, s.client, "POST "+s.dataURL("/logs/_search"), `{"size": 1}`)
		require.NoError(t, err)
		return s.get(s.dataURL("/logs/_search")).status, got.status
	}

	write(t, dir, "ca.pem", trusted.pem)
	s.awaitReady()
	held, streamed := statuses()
	require.Equal(t, http.StatusOK, held)
	require.Equal(t, http.StatusOK, streamed)

	write(t, dir, "ca.pem", newAuthority(t).pem)
	require.Eventually(t, func() bool { // a connection that was being made by then is as good as one that was there before
		u.CloseClientConnections()
		held, streamed = statuses()
		return held == http.StatusServiceUnavailable && streamed == held
	}, patience, 5*time.Millisecond, "the old authority is not trusted any more")
}

// With authorities of one's own the name in the certificate counts as ever, for polls and for clients' requests.
func TestUpstreamOfAnotherName(t *testing.T) {
	trusted, dir := newAuthority(t), t.TempDir()
	u := secureUpstream(t, trusted)
	for name, change := range map[string]func(cfg *config.Config){
		"address": func(cfg *config.Config) {
			cfg.Upstream.URLs = []string{strings.Replace(u.URL, "127.0.0.1", "localhost", 1)}
		},
		"server_name": func(cfg *config.Config) { cfg.Upstream.TLS.ServerName = "other.test" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := settings(u.URL)
			cfg.Upstream.TLS.CAFile = write(t, dir, "ca.pem", trusted.pem)
			cfg.Upstream.TLS.CertFile, cfg.Upstream.TLS.KeyFile = trusted.files(dir, "sidestep")
			change(&cfg)
			s := start(t, cfg, nil)
			require.Equal(t, http.StatusServiceUnavailable, s.get(s.dataURL("/logs/_search")).status)
			require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "x509: certificate is not valid for any names") },
				patience, 5*time.Millisecond)
			require.Error(t, s.Ready())
		})
	}
}

func TestOwnAccountIsForPollsAlone(t *testing.T) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("monitor:topsecret"))
	for _, c := range []struct {
		name string
		auth func(file string) config.Auth
		want string
	}{
		{"basic", func(file string) config.Auth { return config.Auth{Username: "monitor", PasswordFile: file} }, basic},
		{"api_key", func(file string) config.Auth { return config.Auth{APIKeyFile: file} }, "ApiKey topsecret"},
		{"bearer", func(file string) config.Auth { return config.Auth{BearerTokenFile: file} }, "Bearer topsecret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUpstream(t)
			u.demand(c.want)
			cfg := settings(u.URL)
			cfg.Upstream.Auth = c.auth(write(t, t.TempDir(), "secret", []byte("topsecret\n")))
			cfg.Log.Level = "debug"
			s := startReady(t, cfg, nil)

			s.get(s.dataURL("/logs/_search"), "Authorization", "Basic clientsecret")
			s.get(s.dataURL("/logs/_search"))
			require.Equal(t, []string{"Basic clientsecret", ""}, u.seen("/logs"))
			for _, header := range u.seen("/_nodes") {
				require.Equal(t, c.want, header)
			}
			for _, secret := range []string{"topsecret", "clientsecret", basic[len("Basic "):]} {
				require.NotContains(t, s.log.String(), secret)
				require.NotContains(t, s.get(s.adminURL("/metrics")).body, secret)
			}
		})
	}
}

func TestRotatedSecretIsUsedAtOnce(t *testing.T) {
	u, dir := newUpstream(t), t.TempDir()
	u.demand("ApiKey old")
	cfg := settings(u.URL)
	cfg.Upstream.Auth.APIKeyFile = write(t, dir, "key", []byte("old"))
	s := startReady(t, cfg, nil)

	write(t, dir, "key", []byte("renewed"))
	u.demand("ApiKey renewed")
	require.Eventually(t, func() bool {
		seen := u.seen("/_nodes")
		return seen[len(seen)-1] == "ApiKey renewed" && s.Ready() == nil
	}, patience, 5*time.Millisecond)
	require.NoError(t, os.Remove(filepath.Join(dir, "key")))
	time.Sleep(5 * settings().Cluster.StatsInterval) // some more polls
	seen := u.seen("/_nodes")
	require.Equal(t, "ApiKey renewed", seen[len(seen)-1], "a secret that cannot be read stays in force")
}

// A reload reads secrets again, even if nothing shows that their files have changed.
func TestAReloadReadsSecretsAgain(t *testing.T) {
	u, dir := newUpstream(t), t.TempDir()
	cfg := settings(u.URL)
	cfg.Upstream.Auth.APIKeyFile = write(t, dir, "key", []byte("old"))
	s := startReady(t, cfg, nil)
	info, err := os.Stat(cfg.Upstream.Auth.APIKeyFile)
	require.NoError(t, err)
	polls := func() string { seen := u.seen("/_nodes"); return seen[len(seen)-1] }
	require.Eventually(t, func() bool { return polls() == "ApiKey old" }, patience, 5*time.Millisecond)
	write(t, dir, "key", []byte("new"))
	require.NoError(t, os.Chtimes(cfg.Upstream.Auth.APIKeyFile, time.Time{}, info.ModTime()))
	require.NoError(t, s.Reload(cfg))
	require.Eventually(t, func() bool { return polls() == "ApiKey new" }, patience, 5*time.Millisecond)
}

// A redirect must not carry the account to another host.
func TestPollsFollowNoRedirect(t *testing.T) {
	var strayed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	var polled atomic.Int64
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		polled.Add(1)
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(redirecting.Close)
	cfg := settings(redirecting.URL)
	cfg.Upstream.Auth.BearerTokenFile = write(t, t.TempDir(), "token", []byte("topsecret"))
	s := start(t, cfg, nil)
	require.Eventually(t, func() bool { return polled.Load() > 3 }, patience, time.Millisecond)
	require.Error(t, s.Ready())
	require.Zero(t, strayed.Load())
}

func TestBadSecretsAreProblems(t *testing.T) {
	cfg := settings("http://127.0.0.1:1")
	cfg.Upstream.Auth.APIKeyFile = write(t, t.TempDir(), "key", []byte("one\ntwo\n"))
	_, err := app.New(cfg, app.Options{})
	require.ErrorContains(t, err, "holds more than one line")
}
