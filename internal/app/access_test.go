package app_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/app"
	"sidestep/internal/config"
)

// admin makes one request to the admin listener; line is its method and path.
func (s *sidestep) admin(line, body string, headers ...string) answer {
	s.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	got, err := ask(s.t, s.client, method+" "+s.adminURL(path), body, headers...)
	require.NoError(s.t, err)
	return got
}

const off = `{"mode":"off"}`

func TestAdminOnLoopbackNeedsNoToken(t *testing.T) {
	s := start(t, settings("http://127.0.0.1:1"), nil)
	require.Equal(t, http.StatusOK, s.admin("PUT /-/routing", off).status)
	require.NotContains(t, s.log.String(), "admin.token_file")
	refused := s.admin("PUT /-/routing", off, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, refused.status)
}

func TestAdminBeyondLoopbackNeedsAToken(t *testing.T) {
	dir := t.TempDir()
	cfg := settings("http://127.0.0.1:1")
	cfg.Admin.Listen = "0.0.0.0:0"
	next := cfg
	s := start(t, cfg, func() (config.Config, error) { return next, nil })
	require.Equal(t, 1, strings.Count(s.log.String(), "it refuses to switch the mode and to reload; set admin.token_file"), s.log)
	for _, line := range []string{"PUT /-/routing", "POST /-/reload"} {
		refused := s.admin(line, off)
		require.Equal(t, http.StatusForbidden, refused.status)
		require.Contains(t, refused.body, "set admin.token_file")
	}
	require.Equal(t, http.StatusOK, s.admin("GET /metrics", "").status)

	next.Admin.TokenFile = write(t, dir, "token", []byte("opensesame\n"))
	require.NoError(t, s.ReloadConfig(), "as SIGHUP does")
	require.Equal(t, http.StatusUnauthorized, s.admin("PUT /-/routing", off).status)
	require.Equal(t, http.StatusOK, s.admin("PUT /-/routing", off, "Authorization", "Bearer opensesame").status)
	require.Equal(t, http.StatusOK, s.admin("POST /-/reload", "", "Authorization", "Bearer opensesame").status)

	write(t, dir, "token", []byte("changed again"))
	require.Equal(t, http.StatusUnauthorized, s.admin("PUT /-/routing", off, "Authorization", "Bearer opensesame").status)
	require.Equal(t, http.StatusOK, s.admin("PUT /-/routing", off, "Authorization", "Bearer changed again").status)
	require.NoError(t, os.Remove(next.Admin.TokenFile))
	require.Equal(t, http.StatusOK, s.admin("PUT /-/routing", off, "Authorization", "Bearer changed again").status, "it stays in force")
	require.ErrorContains(t, s.ReloadConfig(), "admin.token_file")
	for _, secret := range []string{"opensesame", "changed again"} {
		require.NotContains(t, s.log.String(), secret)
		require.NotContains(t, s.admin("GET /metrics", "").body, secret)
	}
}

// An inherited socket takes the place of admin.listen, so its address counts.
func TestInheritedAdminSocketDecidesWhetherATokenIsNeeded(t *testing.T) {
	for _, c := range []struct {
		network, address, configured string
		want                         int
	}{
		{"tcp", "0.0.0.0:0", "127.0.0.1:0", http.StatusForbidden},
		{"tcp", "127.0.0.1:0", "0.0.0.0:0", http.StatusOK},
		{"unix", filepath.Join(t.TempDir(), "admin"), "0.0.0.0:0", http.StatusOK},
	} {
		t.Run(c.network+" "+c.address, func(t *testing.T) {
			socket, err := new(net.ListenConfig).Listen(t.Context(), c.network, c.address)
			require.NoError(t, err)
			cfg := settings("http://127.0.0.1:1")
			cfg.Admin.Listen = c.configured
			s := startOn(t, app.Sockets{Admin: socket}, cfg, nil)
			s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, c.network, socket.Addr().String())
			}}
			switched := func() int {
				got, err := ask(t, s.client, "PUT http://127.0.0.1/-/routing", off)
				require.NoError(t, err)
				return got.status
			}
			require.Equal(t, c.want, switched())
			require.Equal(t, c.want != http.StatusOK, strings.Contains(s.log.String(), "set admin.token_file"), s.log)
			cfg.Admin.Profiles = true
			require.NoError(t, s.Reload(cfg))
			require.Equal(t, c.want, switched(), "after a reload")
		})
	}
}

func TestAdminCertificatesNeedNoToken(t *testing.T) {
	trusted, dir := newAuthority(t), t.TempDir()
	cfg := settings("http://127.0.0.1:1")
	cfg.Admin.Listen = "0.0.0.0:0"
	cfg.Admin.TLS.CertFile, cfg.Admin.TLS.KeyFile = trusted.files(dir, "admin")
	cfg.Admin.TLS.ClientCAFile = write(t, dir, "clients.pem", trusted.pem)
	s := start(t, cfg, nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.AdminAddr().String(), "[::]"), ":")
	got, err := ask(t, tlsClient(t, trusted, trusted.pair("operator")), "PUT https://127.0.0.1:"+port+"/-/routing", off)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
	require.NotContains(t, s.log.String(), "admin.token_file")
}

func TestAdminIsAskedByItsOwnNames(t *testing.T) {
	machine, err := os.Hostname()
	require.NoError(t, err)
	cfg := settings("http://127.0.0.1:1")
	cfg.Admin.Listen = "localhost:0"
	cfg.Admin.AllowedHosts = []string{"sidestep.monitoring.svc"}
	s := start(t, cfg, nil)
	_, port, _ := strings.Cut(s.AdminAddr().String(), ":")
	status := func(host string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.adminURL("/metrics"), http.NoBody)
		require.NoError(t, err)
		r.Host = host + ":" + port
		response, err := s.client.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for _, host := range []string{"127.0.0.1", "[::1]", "localhost", machine, "sidestep.monitoring.svc"} {
		require.Equal(t, http.StatusOK, status(host), host)
	}
	require.Equal(t, http.StatusMisdirectedRequest, status("evil.example"))
	require.Contains(t, s.log.String(), "admin.allowed_hosts")

	cfg.Admin.AllowedHosts = []string{"*"}
	require.NoError(t, s.Reload(cfg))
	require.Equal(t, http.StatusOK, status("evil.example"))
}

func TestProfilesAreSwitchedByAReload(t *testing.T) {
	cfg := settings("http://127.0.0.1:1")
	s := start(t, cfg, nil)
	require.Equal(t, http.StatusForbidden, s.admin("GET /debug/pprof/heap", "").status)
	cfg.Admin.Profiles = true
	require.NoError(t, s.Reload(cfg))
	require.Equal(t, http.StatusOK, s.admin("GET /debug/pprof/heap", "").status)
}

func TestAdminTokenThatCannotBeRead(t *testing.T) {
	cfg := settings("http://127.0.0.1:1")
	cfg.Admin.TokenFile = write(t, t.TempDir(), "token", []byte("one\ntwo\n"))
	_, err := app.New(cfg, app.Options{})
	require.ErrorContains(t, err, "admin.token_file: ")
	require.ErrorContains(t, err, "holds more than one line")
}
