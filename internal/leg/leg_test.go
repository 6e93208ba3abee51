package leg

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConnectionIsUsedAgain(t *testing.T) {
	for _, start := range []func(http.Handler) *httptest.Server{httptest.NewServer, httptest.NewTLSServer} {
		server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.RemoteAddr+" "+string(b))
		}))
		defer server.Close()
		o := Options{Address: server.Listener.Addr().String(), MaxIdle: 2}
		if server.TLS != nil {
			o.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
		}
		p := New(o)
		defer p.Close()
		var first string
		for range 3 {
			resp, err := p.Do(t.Context(), &Message{Method: "POST", Head: []byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"), Body: []byte("{}")})
			require.NoError(t, err)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 200, resp.StatusCode)
			if first == "" {
				first = string(b)
			}
			require.Equal(t, first, string(b))
			require.Equal(t, 1, p.Idle())
		}
	}
}
