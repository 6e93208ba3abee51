package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/attempt"
	"sidestep/internal/record"
)

// What a client writes before it leaves is sent through another node if the first one cannot be reached: nothing was sent.
func TestAWriteWhoseClientHasLeftIsSentThroughAnotherNode(t *testing.T) {
	for _, request := range []string{
		"DELETE /idx/_doc/1 HTTP/1.1\r\nHost: es\r\n\r\n",
		"PATCH /_plugins/_security/api/roles HTTP/1.1\r\nHost: es\r\n\r\n",
		"POST /idx/_doc HTTP/1.1\r\nHost: es\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	} {
		var refused atomic.Bool
		dialing, left := make(chan struct{}), make(chan struct{})
		h := start(t, 2, func(o *Options) {
			o.Leg.Dial = func(ctx context.Context, network, to string) (net.Conn, error) {
				if refused.CompareAndSwap(false, true) {
					close(dialing)
					<-left
					return nil, syscall.ECONNREFUSED
				}
				return new(net.Dialer).DialContext(ctx, network, to)
			}
		})
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.front.Listener.Addr().String())
		require.NoError(t, err)
		_, err = c.Write([]byte(request))
		require.NoError(t, err)
		<-dialing
		require.NoError(t, c.Close())
		time.Sleep(50 * time.Millisecond) // until it is seen
		close(left)
		require.Eventually(t, func() bool { return len(h.seen()) == 1 }, patience, time.Millisecond, request)
	}
}

// A client may leave as the handler returns. Then nothing holds the exchange any longer.
func TestAnExchangeIsNotHeldForAClientThatLeavesAtTheEnd(t *testing.T) {
	for _, first := range []string{"leave", "done"} {
		h := start(t, 1, nil)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "/idx", http.NoBody)
		require.NoError(t, err)
		x := newExchange(h.proxy, nil, r)
		x.Method = http.MethodPut
		x.refs.Add(2) // one of the test, and one as of watch
		x.unwatch = func() bool { return false }
		steps := []func(){x.leave, x.done}
		if first == "done" {
			steps = []func(){x.done, x.leave}
		}
		for _, step := range steps {
			step()
		}
		require.Equal(t, int32(1), x.refs.Load(), first)
		require.Equal(t, first == "leave", x.parts != nil)
		x.release()
	}
}

// A client is watched from the first attempt on, also before a second one is due.
func TestAClientIsWatchedFromTheFirstAttemptOn(t *testing.T) {
	h := startHedging(t, 3)
	ctx, leave := context.WithCancel(t.Context())
	x := newExchange(h.proxy, httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/idx/_search", strings.NewReader(`{}`)))
	x.classify()
	require.True(t, x.hold())
	x.resolve()
	x.choose()
	x.rewrite()
	x.machine = attempt.New(x.rule.Rule, h.proxy.budgetOf(x))
	x.machine.Begin()
	require.True(t, x.pick(x.first, x.now))
	x.mu.Lock()
	x.sent(x.first, record.Failover, x.now)
	armed := x.armed
	x.mu.Unlock()
	x.endHedge() // which is not due, however long this takes
	x.mu.Lock()
	x.armed = armed
	x.mu.Unlock()
	require.True(t, armed)
	require.False(t, x.watch())
	leave()
	require.Eventually(t, x.watch, patience, time.Millisecond)
	x.armed = false
	x.first.unlease()
	x.done()
}
