package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
)

// startAsking is startHedging with nodes that are asked whether they answer. Those that stand
// still take requests and answer none, and nor does a search that may use their copies, until
// goOn is called.
func startAsking(t *testing.T, still ...string) (h *harness, goOn func()) {
	t.Helper()
	own := &http.Transport{}
	h = startHedging(t, 3, func(o *Options) { o.Probes = &http.Client{Transport: own} })
	running := make(chan struct{})
	goOn = sync.OnceFunc(func() { close(running) })
	h.mu.Lock()
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		search := strings.Contains(r.RequestURI, "/idx/_search") && r.Header.Get("X-Opaque-Id") != probeID
		for _, s := range still {
			if node == s || search && (!strings.Contains(r.RequestURI, "preference") || strings.Contains(r.RequestURI, "id-"+s)) {
				<-running
			}
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	probing := make(chan struct{})
	go func() { defer close(probing); h.proxy.Probe(ctx) }()
	t.Cleanup(func() {
		goOn()
		cancel()
		<-probing
		own.CloseIdleConnections()
	})
	return h, goOn
}

// split returns the client's searches among requests, and how often each node was asked.
func split(t *testing.T, all []recorded) (searches []recorded, asked map[string]int) {
	t.Helper()
	asked = map[string]int{}
	for _, r := range all {
		switch {
		case r.method == http.MethodHead:
			require.Equal(t, "/", r.uri)
			require.Equal(t, []string{probeID}, r.header["X-Opaque-Id"])
			asked[r.node]++
		case r.header.Get("X-Opaque-Id") != probeID:
			searches = append(searches, r)
		}
	}
	return searches, asked
}

// The nodes of a late search are asked directly. It is sent again past the one that stands
// still, whether that coordinates or only serves, and so are the searches after it.
func TestASearchIsSentPastANodeThatStandsStill(t *testing.T) {
	h, _ := startAsking(t, "b")
	for range 4 {
		resp, body := h.do("POST", "/idx/_search", `{}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, complete, body)
		searches, _ := split(t, h.seen())
		last := searches[len(searches)-1]
		require.NotEqual(t, "b", last.node)
		require.NotContains(t, last.uri, "id-b")
		require.Contains(t, last.uri, "preference=_only_nodes")
	}
}

// heads returns how often nodes were asked whether they answer.
func (h *harness) heads() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.requests {
		if r.method == http.MethodHead {
			n++
		}
	}
	return n
}

func TestNothingIsSentPastNodesThatAllStandStill(t *testing.T) {
	h, goOn := startAsking(t, "a", "b", "c")
	go func() {
		defer goOn()
		for end := time.Now().Add(patience); h.heads() < 3 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond) // for what would be sent, or asked, once more
	}()
	resp, _ := h.do("POST", "/idx/_search", `{}`, explainHeader, "1")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	searches, asked := split(t, h.seen())
	for _, s := range searches {
		for _, node := range []string{"id-a", "id-b", "id-c"} {
			require.Contains(t, s.uri, node)
		}
	}
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, asked)
}

// What is asked is bounded by the searches that there were: five in a hundred.
func TestNodesAreAskedWithinABudget(t *testing.T) {
	h, _ := startAsking(t)
	h.mu.Lock()
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.RequestURI, "/idx/_search") && r.Header.Get("X-Opaque-Id") != probeID {
			time.Sleep(40 * time.Millisecond)
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	h.mu.Unlock()
	for range 60 {
		h.do("POST", "/idx/_search", `{}`)
	}
	searches, asked := split(t, h.seen())
	require.Len(t, searches, 60)
	require.NotEmpty(t, asked)
	for node, times := range asked {
		require.LessOrEqual(t, times, 8, node)
	}
}

// A client that left while the nodes were asked gets no second attempt when they have answered.
func TestNothingIsSentAgainForAClientThatLeftWhileNodesWereAsked(t *testing.T) {
	h, _ := startAsking(t, "b")
	left := make(chan struct{})
	h.mu.Lock()
	stopped := h.answer
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && node != "b" {
			<-left
		}
		stopped(node, w, r)
	}
	h.mu.Unlock()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.front.URL+"/idx/_search", strings.NewReader(`{}`))
	require.NoError(t, err)
	go func() {
		defer close(left)
		if resp, err := http.DefaultTransport.RoundTrip(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	var all []recorded
	require.Eventually(t, func() bool {
		all = append(all, h.seen()...)
		_, asked := split(t, all)
		return len(asked) == 3
	}, patience, time.Millisecond)
	leave()
	<-left
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(h.proxy.view.Load().nodes, func(n *selection.Node) bool { return n.Outstanding() > 0 })
	}, patience, time.Millisecond, "its lease is returned")
	resp, _ := h.do("POST", "/idx/_search?q=next", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	searches, _ := split(t, append(all, h.seen()...))
	searches = slices.DeleteFunc(searches, func(r recorded) bool { return strings.Contains(r.uri, "next") })
	require.Len(t, searches, 1)
}
