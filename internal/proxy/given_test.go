package proxy

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Behind the one address that is given, as a balancer's, are several nodes. A search that waits for a node that is
// ejected meanwhile is sent there a second time.
func TestASearchIsHedgedThroughTheOneAddress(t *testing.T) {
	h := startHedging(t, 3, func(o *Options) { o.When = WhenOutlier })
	h.useAddressesGiven()
	closed := hangFirst(h)
	ended := make(chan string, 1)
	go func() {
		_, body := h.do("POST", "/idx/_search", `{}`)
		ended <- body
	}()
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.requests) == 1
	}, patience, time.Millisecond)
	h.slow(1)
	select {
	case body := <-ended:
		require.Equal(t, complete, body)
	case <-time.After(patience):
		require.Fail(t, "the search waits for the node that was ejected")
	}
	<-closed
	seen := h.seen()
	require.Len(t, seen, 2)
	require.Equal(t, "/idx/_search", seen[0].uri)
	require.Equal(t, "/idx/_search?preference=_only_nodes:id-a,id-c", seen[1].uri)
	require.Equal(t, "a", seen[1].node)
}

// What only reads is repeated there when its connection breaks, and a search that failed asks the next best copies.
func TestAttemptsThroughTheOneAddress(t *testing.T) {
	for name, c := range map[string]struct {
		bad      func(string, http.ResponseWriter, *http.Request)
		line     string
		badFor   int64
		status   int
		attempts int
	}{
		"a read that breaks":  {func(string, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "GET /_cat/shards", 2, http.StatusOK, 3},
		"a read of no node":   {func(string, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "GET /_cat/shards", 99, http.StatusBadGateway, 3},
		"a search that fails": {respond(http.StatusOK, partial(1, "id-a")), "GET /idx/_search", 1, http.StatusOK, 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, nil)
			h.useAddressesGiven()
			h.slow(1)
			var sent atomic.Int64
			h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
				if sent.Add(1) <= c.badFor {
					c.bad(node, w, r)
					return
				}
				respond(http.StatusOK, complete)(node, w, r)
			}
			method, uri, _ := strings.Cut(c.line, " ")
			resp, _ := h.do(method, uri, "")
			require.Equal(t, c.status, resp.StatusCode)
			seen := h.seen()
			require.Len(t, seen, c.attempts)
			if uri == "/idx/_search" {
				require.Contains(t, seen[1].uri, "preference=_only_nodes:")
			}
		})
	}
}
