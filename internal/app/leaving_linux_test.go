package app

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While nobody reads the body of a request, as that of a write which waits for admission, nothing tells that its client has
// left. The connection does when it is looked at.
func TestAClientThatHasLeftIsFoundBeforeItsBodyIsRead(t *testing.T) {
	for _, secure := range []bool{false, true} {
		looks, end, ended := make(chan func() bool), make(chan struct{}), make(chan error)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			looks <- patientOf(r.Context().Value(connOf{}).(net.Conn)).Left
			<-end
			ended <- r.Context().Err()
		}))
		stopping, stop := context.WithCancel(t.Context())
		server.Listener = &patientListener{Listener: server.Listener, handshake: secure, stopping: stopping}
		server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(withConnection(ctx, c), connOf{}, c)
		}
		if secure {
			server.StartTLS()
		} else {
			server.Start()
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		if secure {
			config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			config.ServerName = "example.com"
			conn = tls.Client(conn, config)
		}
		_, err = io.WriteString(conn, postRequest)
		require.NoError(t, err)
		left := <-looks
		require.False(t, left())
		require.NoError(t, conn.Close())
		require.Eventually(t, left, 10*time.Second, time.Millisecond)
		end <- struct{}{}
		require.ErrorIs(t, <-ended, context.Canceled)
		stop()
		server.Close()
	}
}
