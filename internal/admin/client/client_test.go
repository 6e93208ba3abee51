package client_test

import (
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crypto/tls"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admin/client"
)

// spikesAt asks a server for spikes, the simplest of questions.
func spikesAt(t *testing.T, o client.Options) (string, error) {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	admin, err := client.New(o)
	require.NoError(t, err)
	defer admin.Close()
	var out strings.Builder
	err = client.Spikes(t.Context(), admin, &out, client.Table)
	return out.String(), err
}

func quiet(s *httptest.Server) {
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
}

func host(s *httptest.Server) string { return s.Listener.Addr().String() }

func TestErrorsSayWhatToDo(t *testing.T) {
	answers := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // HOST stands for the address
	}{
		{"not ours", answers(200, "<html>hello</html>"), "what answers on HOST is no admin listener of sidestep (--admin)"},
		{"another JSON", answers(200, `[1]`), "the answer of HOST is not understood: "},
		{"not there", answers(404, "404 page not found\n"), "HOST has no spikes: it is no admin listener, or of an older sidestep (--admin)"},
		{"refused", answers(503, `{"error":"too busy"}`), "too busy"},
		{"an engine", answers(400, `{"error":{"reason":"unrecognized parameter"},"status":400}`), "HOST answered spikes with status 400 Bad Request: is it the admin listener of sidestep? (--admin)"},
		{"without a token", answers(401, `{"error":"this needs the token"}`), "this needs the token: name its file with --token-file"},
		{"broken", answers(500, "oops"), "HOST answered spikes with status 500 Internal Server Error: is it the admin listener of sidestep? (--admin)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			_, err := spikesAt(t, client.Options{Address: host(server)})
			require.ErrorContains(t, err, strings.ReplaceAll(c.want, "HOST", host(server)))
		})
	}
}

// A token that is refused was named.
func TestAWrongToken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"this needs the token"}`)
	}))
	defer server.Close()
	admin, err := client.New(client.Options{Address: host(server), Timeout: time.Minute})
	require.NoError(t, err)
	defer admin.Close()
	err = client.Drain(t.Context(), admin, io.Discard, client.Table, client.Draining{Node: "a", Token: "old"})
	require.EqualError(t, err, "the token in --token-file is not that of the admin listener: it must be the one in admin.token_file")
	err = client.Drain(t.Context(), admin, io.Discard, client.Table, client.Draining{Node: "a"})
	require.EqualError(t, err, "this needs the token: name its file with --token-file")
}

func TestNothingListens(t *testing.T) {
	_, err := spikesAt(t, client.Options{Address: "http://127.0.0.1:1"})
	require.EqualError(t, err, "nothing listens on 127.0.0.1:1: is sidestep running there? (--admin)")
}

func TestNoAnswer(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-done:
		}
	}))
	defer server.Close()
	defer close(done)
	_, err := spikesAt(t, client.Options{Address: server.URL, Timeout: 50 * time.Millisecond})
	require.EqualError(t, err, "no answer from "+host(server)+" within 50ms (--timeout)")
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"spikes":[]}`)
	}))
	quiet(server)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))

	_, err := spikesAt(t, client.Options{Address: server.URL})
	require.EqualError(t, err, "the certificate of "+host(server)+" is signed by an authority that is not trusted (--ca-file)")
	_, err = spikesAt(t, client.Options{Address: host(server)})
	require.EqualError(t, err, host(server)+" speaks TLS: begin the address with https:// (--admin)")
	out, err := spikesAt(t, client.Options{Address: server.URL, CAFile: ca})
	require.NoError(t, err)
	require.Equal(t, "no spikes: no node has stood out since records are kept\n", out)

	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	_, err = spikesAt(t, client.Options{Address: "https://" + host(plain)})
	require.EqualError(t, err, host(plain)+" speaks no TLS: begin the address with http:// (--admin)")
}

func TestClientCertificateIsDemanded(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	quiet(server)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	_, err := spikesAt(t, client.Options{Address: server.URL, CAFile: ca})
	require.ErrorContains(t, err, host(server)+" refuses our certificate, or demands one: ")
	require.ErrorContains(t, err, "(--cert-file, --key-file)")
}

func TestOptionsThatAreWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "not.pem")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, c := range []struct {
		o    client.Options
		want string
	}{
		{client.Options{Address: "ftp://a"}, "--admin, or SIDESTEP_ADMIN, is no address such as http://127.0.0.1:9211"},
		{client.Options{Address: "http://"}, "is no address"},
		{client.Options{Address: "https://elastic:hunter%2@a:9211"}, "is no address"},
		{client.Options{Address: "a:1", CAFile: "/nowhere"}, "--ca-file: open /nowhere: no such file"},
		{client.Options{Address: "a:1", CAFile: file}, "--ca-file: " + file + " holds no certificate in PEM form"},
		{client.Options{Address: "a:1", CertFile: file}, "--cert-file and --key-file go together"},
		{client.Options{Address: "a:1", CertFile: file, KeyFile: file}, "--cert-file, --key-file: "},
	} {
		_, err := client.New(c.o)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "hunter")
	}
}
