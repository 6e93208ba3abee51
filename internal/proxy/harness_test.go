package proxy

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/leg"
	"sidestep/internal/selection"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// complete is the answer of a search that went well.
const complete = `{"took":3,"timed_out":false,"_shards":{"total":3,"successful":3,"skipped":0,"failed":0},"hits":{"total":{"value":0,"relation":"eq"},"hits":[]}}`

// recorded is a request as a node got it.
type recorded struct {
	node, method, uri, body string
	header                  http.Header
}

// harness is a proxy in front of fake nodes: node i is called a, b, c …, and
// shard i of index "idx" has its copies on nodes i and i+1.
type harness struct {
	t        testing.TB
	proxy    *Proxy
	front    *httptest.Server
	nodes    []*httptest.Server
	selector *selection.Selector

	mu       sync.Mutex
	requests []recorded
	learned  []string
	// answer is called with the node's name; nil answers complete.
	answer func(node string, w http.ResponseWriter, r *http.Request)
}

// options are those of a proxy that is told of nothing.
func options(s *selection.Selector, seeds ...*url.URL) Options {
	return Options{
		Seeds:    seeds,
		Leg:      leg.Options{Dial: new(net.Dialer).DialContext, MaxIdle: 2},
		Selector: s,
		Learn:    func(string, string) {}, Refresh: func() {}, Touch: func() {}, Use: func(*cluster.Plan) {},
		Mode:        ModeRoute,
		MaxHeldBody: 1 << 20, MaxHeldBodies: 64 << 20, MaxPlacementAge: time.Minute,
		Explain: ExplainOn, Open: func() bool { return false },
		Probers: func() int { return 1 }, OnProbe: func(string, time.Duration) {},
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
}

func start(t testing.TB, nodes int, change func(*Options)) *harness {
	t.Helper()
	h := &harness{t: t}
	for i := range nodes {
		name := string(rune('a' + i))
		h.nodes = append(h.nodes, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.serve(name, w, r)
		})))
	}
	var err error
	h.selector = selection.New(selection.Options{Epoch: time.Now().Add(-time.Minute), OnChange: func(c selection.Change) { h.proxy.NodeChanged(c) }})
	seed, err := url.Parse(h.nodes[0].URL)
	require.NoError(t, err)
	o := options(h.selector, seed)
	o.Learn = func(target, routing string) { h.record(&h.learned, target+"|"+routing) }
	o.LearnLayout = func(index string) { h.record(&h.learned, "layout of "+index) }
	if change != nil {
		change(&o)
	}
	h.proxy, err = New(o)
	require.NoError(t, err)
	h.proxy.UseSnapshot(h.snapshot())
	h.front = httptest.NewServer(h.proxy)
	t.Cleanup(h.close)
	return h
}

func (h *harness) close() {
	h.front.Close()
	h.proxy.Close()
	for _, n := range h.nodes {
		n.Close()
	}
	for _, n := range h.proxy.view.Load().nodes {
		// A hedge that lost returns its lease after the answer of the other one.
		require.Eventually(h.t, func() bool { return n.Outstanding() == 0 }, patience, time.Millisecond,
			"a lease of node %s was not returned", n.Name)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// end ends nodes. Their ports stay theirs: what listens there next, as of another test, would answer in their place.
func (h *harness) end(nodes ...int) {
	h.t.Helper()
	for _, i := range nodes {
		h.nodes[i].Close()
		held, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		require.NoError(h.t, err)
		h.t.Cleanup(func() { _ = syscall.Close(held) })
		address := &syscall.SockaddrInet4{Port: h.nodes[i].Listener.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
		require.NoError(h.t, syscall.SetsockoptInt(held, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)) // there were connections
		require.NoError(h.t, syscall.Bind(held, address))
		require.NoError(h.t, syscall.SetsockoptInt(held, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0))
	}
}

func TestThePortOfANodeThatHasEndedStaysItsOwn(t *testing.T) {
	h := start(t, 1, nil)
	address := h.nodes[0].Listener.Addr().String()
	h.end(0)
	_, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// useElasticsearch has the nodes be of Elasticsearch without accounts, which refuses no list of nodes.
func (h *harness) useElasticsearch() {
	c := *h.snapshot()
	c.Engine = cluster.Engine{Distribution: "elasticsearch", Major: 8}
	h.proxy.UseSnapshot(&c)
	h.proxy.o.Open = func() bool { return true }
}

// useAddressesGiven has nodes without addresses of their own, as with upstream.discovery: static. All is sent to node a.
func (h *harness) useAddressesGiven() {
	static := *h.snapshot()
	static.Nodes = slices.Clone(static.Nodes)
	for i, n := range static.Nodes {
		without := *n
		without.URL = nil
		static.Nodes[i] = &without
	}
	h.proxy.UseSnapshot(&static)
}

func (h *harness) snapshot() *cluster.Snapshot { return cluster.NewSnapshot(h.contents()) }

func (h *harness) contents() cluster.Contents {
	c := cluster.Contents{
		Engine:   cluster.Engine{Distribution: "opensearch", Version: "3.6.0", Major: 3, Minor: 6},
		PlacedAt: time.Now(),
		Targets:  map[cluster.Target][]cluster.ShardName{},
	}
	idx := cluster.Index{Name: "idx"}
	lone := cluster.Index{Name: "lone", Shards: []cluster.Shard{{Copies: []cluster.Copy{{Node: "id-a", Kind: 'p', State: cluster.Started}}}}}
	for i, n := range h.nodes {
		u, err := url.Parse(n.URL)
		require.NoError(h.t, err)
		c.Nodes = append(c.Nodes, &cluster.Node{ID: id(i), Name: string(rune('a' + i)), Roles: []string{"data"}, URL: u})
		idx.Shards = append(idx.Shards, cluster.Shard{Number: i, Copies: []cluster.Copy{
			{Node: id(i), Kind: 'p', State: cluster.Started},
			{Node: id((i + 1) % len(h.nodes)), Kind: 'r', State: cluster.Started},
		}})
	}
	for _, target := range []string{"", "logs-*"} {
		for i := range idx.Shards {
			key := cluster.Target{Expression: target}
			c.Targets[key] = append(c.Targets[key], cluster.ShardName{Index: "idx", Number: i})
		}
	}
	c.Indices = []cluster.Index{idx, lone}
	layout := es.Routing{Shards: len(idx.Shards), RoutingShards: len(idx.Shards), PartitionSize: 1}
	c.Layouts = map[string]cluster.Layout{
		"idx":   {Index: "idx", Routing: layout},
		"alias": {Index: "idx", Routing: layout},
		"lone":  {Index: "lone", Routing: es.Routing{Shards: 1, RoutingShards: 1, PartitionSize: 1}},
		"seg":   {Index: "seg", Miss: cluster.MissSegmentReplication},
	}
	return c
}

func id(i int) string { return "id-" + string(rune('a'+i)) }

func (h *harness) serve(name string, w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	answer := h.answer
	h.mu.Unlock()
	if answer == nil {
		answer = respond(http.StatusOK, complete)
	}
	if r.Header.Get("X-Stream") == "" {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.requests = append(h.requests, recorded{name, r.Method, r.RequestURI, string(body), r.Header.Clone()})
		h.mu.Unlock()
	}
	answer(name, w, r)
}

func (h *harness) record(list *[]string, s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*list = append(*list, s)
}

// respond makes an answer that is the same on every node.
func respond(status int, body string) func(string, http.ResponseWriter, *http.Request) {
	return func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// do sends a request whose request line is exactly uri and returns the answer
// read to its end.
func (h *harness) do(method, uri, body string, headers ...string) (*http.Response, string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.front.URL, stringBody(body))
	require.NoError(h.t, err)
	req.URL.Opaque = uri
	if strings.HasPrefix(uri, "//") { // net/url takes that for a host
		req.URL.Opaque, req.URL.Path = "", uri
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(h.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	return resp, string(text)
}

// seen returns the requests since the last call.
func (h *harness) seen() []recorded {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.requests
	h.requests = nil
	return out
}

// explain asks about a request that can be asked about.
func (h *harness) explain(q Question) Explanation {
	h.t.Helper()
	e, err := h.proxy.Explain(q)
	require.NoError(h.t, err)
	return e
}
