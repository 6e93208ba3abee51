package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where the process has no descriptor for a connection to one node it has none for the others: a write, which goes on
// although its client has left, is not tried with each of them before it is seen that it has.
func TestForWantOfADescriptorOneNodeIsTriedAtATime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var dials atomic.Int64
	h := start(t, 3, func(o *Options) {
		o.Transport.DisableKeepAlives = true
		o.Transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			cancel()
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
	})
	require.Panics(t, func() {
		h.proxy.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/idx/_delete_by_query", strings.NewReader(`{}`)))
	}, "there is nobody to answer")
	require.EqualValues(t, 1, dials.Load())
}
