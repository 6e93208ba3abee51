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
		o.Leg.MaxIdle = 0
		o.Leg.Dial = func(context.Context, string, string) (net.Conn, error) {
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

// A node to which there is a connection needs no descriptor: what cannot be sent to another one goes there.
func TestForWantOfADescriptorIdleConnectionsAreUsed(t *testing.T) {
	var gone context.CancelFunc
	var dials atomic.Int64
	h := start(t, 3, func(o *Options) {
		dial := o.Leg.Dial
		o.Leg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				return dial(ctx, network, address)
			}
			gone()
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
	})
	const writes = 6
	for range writes {
		var ctx context.Context
		ctx, gone = context.WithCancel(t.Context())
		func() {
			defer func() { _ = recover() }() // of those that have left
			h.proxy.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/idx/_delete_by_query", strings.NewReader(`{}`)))
		}()
		gone()
	}
	require.Greater(t, dials.Load(), int64(1), "some were to go to another node first")
	require.Len(t, h.seen(), writes)
}
