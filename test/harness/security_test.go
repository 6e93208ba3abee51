package harness

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveTLS starts a server with a certificate of the authority and returns its port.
func serveTLS(t *testing.T, authority *Authority) int {
	t.Helper()
	pair, err := tls.X509KeyPair(authorityPair(t, authority))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := r.BasicAuth()
		_, _ = io.WriteString(w, name)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	return port
}

func authorityPair(t *testing.T, authority *Authority) (certificate, key []byte) {
	t.Helper()
	certificate, key, err := authority.Issue("node-1")
	require.NoError(t, err)
	return certificate, key
}

func newSecured(t *testing.T) *launcher {
	t.Helper()
	l := &launcher{release: release{distribution: Elasticsearch}, options: ClusterOptions{Security: &Security{
		Users: []User{{"reader", "a", []string{"read", "more"}}, {"writer", "b", []string{"more"}}}, Roles: "read: {}\n",
	}}}
	require.NoError(t, l.secure())
	l.transport = l.newTransport()
	require.Equal(t, "https", l.scheme())
	return l
}

func getThrough(t *testing.T, transport http.RoundTripper, port int) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+loopback(port), http.NoBody)
	require.NoError(t, err)
	res, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return string(body), nil
}

func TestSecuredNodesAreAskedWithCredentials(t *testing.T) {
	l := newSecured(t)
	got, err := getThrough(t, l.transport, serveTLS(t, l.authority))
	require.NoError(t, err)
	require.Equal(t, administrator().Name, got)

	other, err := NewAuthority("other")
	require.NoError(t, err)
	_, err = getThrough(t, l.transport, serveTLS(t, other))
	require.ErrorContains(t, err, "certificate signed by unknown authority")
}

func TestSecurityIsWritten(t *testing.T) {
	l := newSecured(t)
	n := &Node{Name: "node-1", dir: t.TempDir(), launch: *l}
	config := filepath.Join(n.dir, "config")
	require.NoError(t, os.Mkdir(config, 0o755))
	require.NoError(t, l.writeSecurity(n))
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(config, name))
		require.NoError(t, err)
		return string(content)
	}
	require.Equal(t, "more:reader,writer\nread:reader\nsuperuser:administrator\n", read("users_roles"))
	require.Equal(t, "read: {}\n", read("roles.yml"))
	require.Len(t, strings.Split(strings.TrimSpace(read("users")), "\n"), 3)
	require.Contains(t, read("users"), "\nreader:{PBKDF2}1000$")
	before := read("http.crt")
	require.NoError(t, n.UseHTTPCertificate(l.authority))
	require.NotEqual(t, before, read("http.crt"))
	for key, value := range l.securitySettings() {
		if strings.HasSuffix(key, ".certificate") || strings.HasSuffix(key, ".key") || strings.HasSuffix(key, "_authorities") {
			require.NotEmpty(t, read(value), key)
		}
	}
}

func TestSecurityIsOfElasticsearchAlone(t *testing.T) {
	l := launcher{release: release{distribution: OpenSearch}, options: ClusterOptions{Security: &Security{}}}
	require.Error(t, l.secure())
	l.options.Security = nil
	require.NoError(t, l.secure())
	require.Equal(t, "http", l.scheme())
}

func TestBrokenHandshakes(t *testing.T) {
	l := newSecured(t)
	f, err := newFault("test", serveTLS(t, l.authority))
	require.NoError(t, err)
	require.NoError(t, f.open())
	defer f.close()
	n := &Node{Name: "node-1", http: f}
	get := func() error {
		_, err := getThrough(t, l.transport, f.port)
		return err
	}
	require.NoError(t, get())
	require.NoError(t, n.DropHTTP())
	require.NoError(t, get())

	require.NoError(t, n.BreakHandshakes(1, false))
	require.ErrorIs(t, get(), io.ErrUnexpectedEOF)
	f.proxy.Toxics.ResetToxics(t.Context())
	require.NoError(t, get())
	require.NoError(t, n.BreakHandshakes(1, true))
	require.ErrorIs(t, get(), syscall.ECONNRESET)

	require.ErrorIs(t, new(Node).BreakHandshakes(1, true), errNotProxied)
	require.ErrorIs(t, new(Node).DropHTTP(), errNotProxied)
}
