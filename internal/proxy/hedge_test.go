package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/attempt"
	"sidestep/internal/record"
)

// startHedging starts a harness that knows when a search is overdue.
func startHedging(t *testing.T, nodes int, changes ...func(*Options)) *harness {
	t.Helper()
	h := start(t, nodes, func(o *Options) {
		o.HedgeBudget = 0.05
		for _, change := range changes {
			change(o)
		}
	})
	h.slow()
	h.timed()
	return h
}

// timed has the proxy know how long searches on idx take, and what second attempts there may be, as if there had been 100 of them. On a
// busy machine one of these might be late: its own second attempt may arrive at any time, and is missing from what there may be.
func (h *harness) timed() {
	for range 100 {
		h.proxy.hedges.Delay("idx", time.Now())
		h.proxy.hedges.Observe("idx", 2*time.Millisecond)
	}
}

// hangFirst lets the first search hang until its connection is closed, which it
// reports, and answers the others.
func hangFirst(h *harness) (closed chan string) {
	closed = make(chan string, 8)
	var n atomic.Int64
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 || !strings.Contains(r.URL.Path, "_search") {
			respond(http.StatusOK, complete)(node, w, r)
			return
		}
		<-r.Context().Done()
		closed <- node
	}
	return closed
}

func TestAnOverdueSearchIsSentASecondTime(t *testing.T) {
	for _, te := range []string{"", "trailers"} {
		t.Run(te, func(t *testing.T) { overdueIsHedged(t, te) })
	}
}

func overdueIsHedged(t *testing.T, te string) {
	t.Helper()
	h := startHedging(t, 3)
	closed := hangFirst(h)
	resp, body := h.do("POST", "/idx/_search?q=1", `{"x":1}`, explainHeader, "1", "Te", te)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)
	require.Contains(t, resp.Header.Get(decisionHeader), "attempts=2")
	seen := h.seen()
	require.Len(t, seen, 2)
	require.NotEqual(t, seen[0].node, seen[1].node, "through another coordinating node")
	require.Equal(t, seen[0].body, seen[1].body)
	select {
	case node := <-closed:
		require.Equal(t, seen[0].node, node, "the loser is cancelled")
	case <-time.After(patience):
		require.Fail(t, "the loser was not cancelled")
	}
	for _, n := range h.proxy.Nodes() {
		require.Zero(t, n.Failures, "losing is no failure")
	}
}

// The process may stand still after the timer of the hedge was set. The timer then fires before
// anything else is done, and looks at the first attempt: that must have been recorded.
func TestTheHedgeIsDueBeforeTheFirstAttemptIsSent(t *testing.T) {
	h := startHedging(t, 3)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/idx/_search", strings.NewReader(`{}`))
	x := newExchange(h.proxy, httptest.NewRecorder(), r)
	x.classify()
	require.True(t, x.hold())
	x.resolve()
	x.choose()
	x.rewrite()
	x.machine = attempt.New(x.rule.Rule, h.proxy.budgetOf(x))
	require.Equal(t, attempt.Steer, x.machine.Begin().Do)
	require.True(t, x.pick(x.first, x.now))
	before := x.armed
	x.mu.Lock()
	x.sent(x.first, record.Failover, x.now)
	armed, attempts := x.armed, len(x.Attempts)
	x.mu.Unlock()
	x.endHedge()
	x.first.unlease()
	x.done()
	require.False(t, before)
	require.True(t, armed)
	require.Equal(t, 1, attempts)
}

func TestABadHedgeDoesNotBeatTheFirstAttempt(t *testing.T) {
	h := startHedging(t, 3)
	var n atomic.Int64
	hedged := make(chan struct{})
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			respond(http.StatusServiceUnavailable, `{"status":503}`)(node, w, r)
			close(hedged)
			return
		}
		<-hedged
		time.Sleep(50 * time.Millisecond)
		respond(http.StatusOK, complete)(node, w, r)
	}
	resp, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)
	require.Len(t, h.seen(), 2)
}

// A list without a copy of some shard is followed by a preference, also if another list failed for another reason meanwhile.
func TestAListWithoutACopyBesideAHedge(t *testing.T) {
	h := startHedging(t, 3)
	second := make(chan struct{})
	var n atomic.Int64
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "_search") {
			respond(http.StatusOK, complete)(node, w, r)
			return
		}
		switch n.Add(1) {
		case 1:
			<-second
			time.Sleep(50 * time.Millisecond)
			respond(http.StatusBadRequest, noNodes)(node, w, r)
		case 2:
			respond(http.StatusServiceUnavailable, `{"status":503}`)(node, w, r)
			close(second)
		default:
			respond(http.StatusOK, complete)(node, w, r)
		}
	}
	_, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, complete, body)
	seen := h.seen()
	require.Len(t, seen, 3)
	require.Contains(t, seen[2].uri, "preference=_prefer_nodes:")
}

// Where second attempts lose there are fewer, and a search that would have had one is counted, once. They are
// made again when they win.
func TestASearchWhoseSecondAttemptIsUnlikelyToWin(t *testing.T) {
	h := startHedging(t, 3)
	ended := func(won bool) {
		for range 20 {
			h.proxy.hedges.Ended(won)
		}
	}
	hedges := func(result string) int { return tallied(h.proxy.metrics.hedges, result) }
	// On a busy machine there were some before.
	unlikely, won, over := hedges(hedgeUnlikely), hedges(hedgeWon), hedges(hedgeOverBudget)
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		for hedges(hedgeUnlikely) == unlikely && r.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	ended(false)
	resp, _ := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, h.seen(), 1)
	require.Equal(t, unlikely+1, hedges(hedgeUnlikely))
	require.Equal(t, over, hedges(hedgeOverBudget))

	ended(true)
	hangFirst(h)
	resp, _ = h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, h.seen(), 2)
	require.Equal(t, unlikely+1, hedges(hedgeUnlikely))
	require.Equal(t, won+1, hedges(hedgeWon))
}

func TestTwoBadAttemptsAreFollowedByTheClientsOwnRequest(t *testing.T) {
	h := startHedging(t, 3)
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.RequestURI, "preference") {
			time.Sleep(50 * time.Millisecond)
			respond(http.StatusServiceUnavailable, `{"status":503}`)(node, w, r)
			return
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	resp, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)
}

func TestWhatMustNotBeSentTwice(t *testing.T) {
	t.Parallel()
	for uri, header := range map[string][]string{
		"/idx/_search?scroll=1m":        nil,
		"/idx/_search?filter_path=hits": nil,
	} {
		h := startHedging(t, 3)
		var n atomic.Int64
		h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "_search") && n.Add(1) == 1 {
				time.Sleep(time.Second) // others are sent a second time by then
			}
			respond(http.StatusOK, complete)(node, w, r)
		}
		h.do("POST", uri, `{}`, header...)
		require.Len(t, h.seen(), 1, uri)
	}
}

// A second attempt has a preference as the first one has. What is refused for that is not kept waiting for it.
func TestARefusedPreferenceDoesNotWaitForTheSecondAttempt(t *testing.T) {
	h := startHedging(t, 3)
	second, closed := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "_search") {
			respond(http.StatusOK, complete)(node, w, r)
			return
		}
		switch n.Add(1) {
		case 1:
			<-second
			respond(http.StatusBadRequest, `{"status":400}`)(node, w, r)
		case 2:
			close(second)
			<-r.Context().Done()
			close(closed)
		default:
			respond(http.StatusOK, complete)(node, w, r)
		}
	}
	_, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, complete, body)
	<-closed
	seen := h.seen()
	require.Len(t, seen, 3)
	require.NotContains(t, seen[2].uri, "preference")
}
