package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched is a connection that tells what the test says.
type watched struct {
	mu     sync.Mutex
	unread bool
	settle func(bool)
	left   bool
}

// Left implements Connection.
func (w *watched) Left() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left
}

// leave has the client leave, though no context tells.
func (w *watched) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
}

// A client that leaves soon is not watched yet. Its search is sent once.
func TestNothingIsSentAgainForAClientThatHasLeft(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	w := &watched{}
	h.answer = func(_ string, rw http.ResponseWriter, _ *http.Request) {
		w.leave()
		rw.WriteHeader(http.StatusTooManyRequests)
	}
	r := httptest.NewRequestWithContext(WithConnection(t.Context(), w), http.MethodPost, "/idx/_search", strings.NewReader("{}"))
	h.proxy.ServeHTTP(httptest.NewRecorder(), r)
	require.Len(t, h.seen(), 1)
}

// Unread implements Connection.
func (w *watched) Unread() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unread
}

// Settle implements Connection.
func (w *watched) Settle(f func(bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle = f
}

// stays forgets who wants to know, as nothing happens on the connection.
func (w *watched) stays(unread bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread, w.settle = unread, nil
}

// end ends the connection.
func (w *watched) end(unread bool) {
	w.mu.Lock()
	f := w.settle
	w.settle = nil
	w.mu.Unlock()
	f(unread)
}

func TestTheEndOfAConnectionTellsWhetherAnAnswerWasRead(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	h.answer = func(node string, rw http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(rw).Flush() // it comes in chunks
		h.store(s)(node, rw, r)
	}
	w := &watched{}
	front := httptest.NewUnstartedServer(h.proxy)
	front.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return WithConnection(ctx, w) }
	front.Start()
	defer front.Close()
	post := func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/idx/_bulk", strings.NewReader(twoDocuments))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-ndjson")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Positive(t, resp.ContentLength, "who reads the JSON has read all")
		require.Eventually(t, func() bool { // after the answer
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.settle != nil
		}, patience, time.Millisecond)
	}
	stored := 0
	for _, c := range []struct {
		how    string
		before func()
		added  int
	}{
		{"the first", func() {}, 2},
		{"nothing is known", func() { w.stays(false) }, 2},
		{"it was read", func() { w.end(false) }, 2},
		{"it was not read", func() { w.end(true) }, 0},
		{"that is matched once", func() { w.end(false) }, 2},
		{"it is seen not to be read", func() { w.stays(true) }, 0},
	} {
		c.before()
		post()
		stored += c.added
		require.Len(t, s.stored(), stored, c.how)
	}
	for _, times := range s.stored() {
		require.Equal(t, 1, times)
	}
	require.Equal(t, 1, tallied(h.proxy.metrics.bulk.repeats, repeatRemembered))
	require.Equal(t, 2, tallied(h.proxy.metrics.bulk.repeats, repeatMatched))
}
