package proxy

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// good is the answer to a probe that went well.
const good = `{"took":3,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0}}`

// wire answers probes in place of a network.
type wire func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// answers makes a wire that answers everything alike.
func answers(status int, body string) wire {
	return func(r *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

// silent takes a request and says nothing.
func silent(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// probing is a proxy whose probes go to a wire: shard i of index idx is on nodes
// i and i+1 of a, b and c, and index lone on a alone.
type probing struct {
	*Proxy
	registry *prometheus.Registry
	log      bytes.Buffer
}

func newProbing(t *testing.T, w wire) *probing {
	t.Helper()
	selector := selection.New(selection.Options{Epoch: time.Now()})
	var err error
	p := &probing{registry: prometheus.NewRegistry()}
	o := options(selector, &url.URL{Scheme: "http", Host: "seed:9200"})
	o.Probes, o.Logger, o.Registerer = &http.Client{Transport: w}, slog.New(slog.NewTextHandler(&p.log, nil)), p.registry
	p.Proxy, err = New(o)
	require.NoError(t, err)
	p.UseSnapshot(placed(3, func(i int) *url.URL { return &url.URL{Scheme: "http", Host: id(i) + ":9200"} }))
	return p
}

// placed is the snapshot of a harness with nodes at these addresses.
func placed(nodes int, at func(i int) *url.URL) *cluster.Snapshot {
	c := cluster.Contents{PlacedAt: time.Now()}
	idx := cluster.Index{Name: "idx"}
	for i := range nodes {
		c.Nodes = append(c.Nodes, &cluster.Node{ID: id(i), Name: string(rune('a' + i)), Roles: []string{"data"}, URL: at(i)})
		idx.Shards = append(idx.Shards, cluster.Shard{Number: i, Copies: []cluster.Copy{
			{Node: id(i), Kind: 'p', State: cluster.Started},
			{Node: id((i + 1) % nodes), Kind: 'r', State: cluster.Started},
		}})
	}
	c.Indices = []cluster.Index{idx, {Name: "lone", Shards: []cluster.Shard{
		{Copies: []cluster.Copy{{Node: id(0), Kind: 'p', State: cluster.Started}}},
	}}}
	return cluster.NewSnapshot(c)
}

// send sends a probe of node i.
func (p *probing) send(t *testing.T, i int) selection.ProbeOutcome {
	t.Helper()
	v := p.view.Load()
	return p.probe(t.Context(), v, selection.Probe{Node: v.nodes[i]})
}

// A probe goes with sidestep's own account, through another node, to a shard that
// was searched lately.
func TestProbeOnTheWire(t *testing.T) {
	const own = "Basic own"
	h := start(t, 3, func(o *Options) {
		o.Probes = &http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", own)
			return http.DefaultTransport.RoundTrip(r)
		})}
	})
	_, _ = h.do(http.MethodGet, "/lone/_search", "", "Authorization", "Basic client", "X-Opaque-Id", "client")
	h.seen()
	h.answer = respond(http.StatusOK, good)
	v := h.proxy.view.Load()
	for range 20 {
		require.Equal(t, "answered", probeResult(h.proxy.probe(t.Context(), v, selection.Probe{Node: v.nodes[0]})))
	}
	h.proxy.probe(t.Context(), v, selection.Probe{Node: v.nodes[0], Via: v.nodes[2]})
	seen := h.seen()
	require.Len(t, seen, 21)
	for _, r := range seen {
		require.NotEqual(t, "a", r.node, "a node must not coordinate the probe of itself")
		require.Equal(t, http.MethodGet, r.method)
		require.Equal(t, "/lone/_search?preference=_shards:0%7C_only_nodes:id-a&size=0&terminate_after=1"+
			"&request_cache=false&allow_partial_search_results=false&filter_path=took,_shards", r.uri)
		require.Equal(t, []string{own}, r.header["Authorization"])
		require.Equal(t, []string{"sidestep-probe"}, r.header["X-Opaque-Id"])
		require.Empty(t, r.body)
	}
	require.Equal(t, "c", seen[20].node, "the selector named the coordinating node")
}

func TestProbeSearchesAShardThatTheNodeServes(t *testing.T) {
	var uris []string
	p := newProbing(t, func(r *http.Request) (*http.Response, error) {
		uris = append(uris, r.URL.RequestURI())
		return answers(http.StatusOK, good)(r)
	})
	for range 20 { // nothing was searched yet: any shard of the node will do
		require.False(t, p.send(t, 1).Unfit)
	}
	plan, _ := p.view.Load().snapshot.Resolve("idx", "")
	p.probes.recent.add(plan, time.Now())
	for range 20 {
		require.False(t, p.send(t, 1).Unfit)
	}
	for _, uri := range uris {
		require.Regexp(t, `^/idx/_search\?preference=_shards:[01]%7C_only_nodes:id-b&`, uri)
	}
	lone := cluster.NewSnapshot(cluster.Contents{Indices: []cluster.Index{}, Nodes: p.view.Load().snapshot.Nodes, PlacedAt: time.Now()})
	p.UseSnapshot(lone)
	require.True(t, p.send(t, 1).Unfit, "no shard left on the node")
	require.Len(t, uris, 40)
}

func TestProbeOutcomes(t *testing.T) {
	failed := func(r *http.Request) (*http.Response, error) { return nil, net.ErrClosed }
	unconnected := func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }
	cut := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"took":`), brokenReader{}))}, nil
	}
	for name, tc := range map[string]struct {
		wire wire
		want string
		took time.Duration
	}{
		"answered":             {answers(http.StatusOK, good), probeAnswered, 0},
		"rejected":             {answers(http.StatusTooManyRequests, `{"error":{},"status":429}`), probeFailed, 0},
		"engine error":         {answers(http.StatusServiceUnavailable, `{"error":{},"status":503}`), probeFailed, 0},
		"partial":              {answers(http.StatusOK, `{"took":1,"_shards":{"total":1,"successful":0,"skipped":0,"failed":1}}`), probeFailed, 0},
		"silent":               {silent, probeFailed, selection.ProbeTimeout},
		"coordinator silent":   {unconnected, probeUnfit, 0},
		"coordinator down":     {failed, probeUnfit, 0},
		"answer cut off":       {cut, probeUnfit, 0},
		"not found":            {answers(http.StatusNotFound, `{"error":{},"status":404}`), probeUnfit, 0},
		"copy elsewhere":       {answers(http.StatusBadRequest, `{"error":{},"status":400}`), probeUnfit, 0},
		"redirected":           {answers(http.StatusFound, ``), probeUnfit, 0},
		"not an engine":        {answers(http.StatusOK, `<html>`), probeUnfit, 0},
		"no shard":             {answers(http.StatusOK, `{"took":0,"_shards":{"total":0,"successful":0,"skipped":0,"failed":0}}`), probeUnfit, 0},
		"account unknown":      {answers(http.StatusUnauthorized, `{"error":{},"status":401}`), probeUnfit, 0},
		"permission is absent": {answers(http.StatusForbidden, `{"error":{},"status":403}`), probeUnfit, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newProbing(t, tc.wire).send(t, 1)
				require.Equal(t, tc.want, probeResult(o), o.Message)
				require.Equal(t, tc.took, o.Took)
				require.Equal(t, tc.want == probeAnswered, o.Message == "", o.Message)
			})
		})
	}
}

// brokenReader is a connection that breaks.
type brokenReader struct{}

// Read implements io.Reader.
func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// The way to the coordinating node is not held against the node probed.
func TestProbeTimeIsTheEnginesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := func(body string) wire {
			return func(r *http.Request) (*http.Response, error) {
				time.Sleep(200 * time.Millisecond)
				return answers(http.StatusOK, body)(r)
			}
		}
		require.Equal(t, 4*time.Millisecond, newProbing(t, far(good)).send(t, 1).Took)
		require.Equal(t, 200*time.Millisecond, newProbing(t, far(`{"_shards":{"total":1,"successful":1,"failed":0}}`)).send(t, 1).Took)
		slow := strings.Replace(good, `"took":3`, `"took":450`, 1)
		require.Equal(t, 200*time.Millisecond, newProbing(t, far(slow)).send(t, 1).Took)
	})
}

func TestProbeGoesThroughALivingNode(t *testing.T) {
	var hosts []string
	p := newProbing(t, func(r *http.Request) (*http.Response, error) {
		hosts = append(hosts, r.URL.Host)
		return answers(http.StatusOK, good)(r)
	})
	v, now := p.view.Load(), time.Now()
	p.o.Selector.MarkUnreachable(v.nodes[2], "gone", now)
	require.False(t, p.probe(t.Context(), v, selection.Probe{Node: v.nodes[0], Via: v.nodes[2]}).Unfit)
	require.Equal(t, []string{"id-b:9200"}, hosts)
	p.o.Selector.MarkUnreachable(v.nodes[1], "gone", now)
	require.True(t, p.send(t, 0).Unfit, "only the node itself is left")

	p.UseSnapshot(placed(3, func(int) *url.URL { return nil })) // static discovery
	hosts = nil
	require.False(t, p.send(t, 0).Unfit)
	require.Equal(t, []string{"seed:9200"}, hosts)
}

func TestProbesThatAreNotPermitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status, sent := http.StatusForbidden, 0
		p := newProbing(t, func(r *http.Request) (*http.Response, error) {
			sent++
			if status == http.StatusOK {
				return answers(status, good)(r)
			}
			return answers(status, `{"error":{"type":"security_exception","reason":"no permissions for [indices:data/read/search]"},"status":403}`)(r)
		})
		for range 5 { // minutes
			for range 3 {
				require.True(t, p.send(t, 1).Unfit)
			}
			time.Sleep(refusedFor)
		}
		require.Equal(t, 5, sent, "one a minute")
		require.Equal(t, 1, strings.Count(p.log.String(), "probing is not permitted"), p.log.String())
		require.Nil(t, p.suspended.until.Load(), "searches are steered all the same")
		status = http.StatusOK
		require.False(t, p.send(t, 1).Unfit)
		require.False(t, p.send(t, 1).Unfit)
		require.Equal(t, 1, strings.Count(p.log.String(), "probing is permitted again"), p.log.String())
		status = http.StatusUnauthorized
		require.True(t, p.send(t, 1).Unfit)
		require.Equal(t, 2, strings.Count(p.log.String(), "probing is not permitted"), p.log.String())
	})
}

// Weighted routing forbids probes as it forbids lists: both rest, but for one probe
// now and then, which finds out when they are allowed again.
func TestProbesUnderWeightedRouting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, weights := 0, true
		p := newProbing(t, func(r *http.Request) (*http.Response, error) {
			sent++
			if !weights {
				return answers(http.StatusOK, good)(r)
			}
			return answers(http.StatusForbidden, strictWeights)(r)
		})
		for range 3 {
			require.True(t, p.send(t, 1).Unfit)
		}
		require.Equal(t, 1, sent)
		require.NotContains(t, p.log.String(), "not permitted")
		for range 100 { // longer than a search would rest
			time.Sleep(askAgain)
			require.True(t, p.send(t, 1).Unfit)
			require.True(t, p.send(t, 2).Unfit)
			require.True(t, p.suspended.holds(time.Now()), "the probe asks in the place of searches")
		}
		require.Equal(t, 101, sent)
		require.Equal(t, 1, strings.Count(p.log.String(), "forbids node preferences"), p.log.String())
		weights = false
		time.Sleep(askAgain)
		require.False(t, p.send(t, 1).Unfit)
		require.False(t, p.suspended.holds(time.Now()))
		require.Equal(t, 1, strings.Count(p.log.String(), "allows node preferences again"), p.log.String())
	})
}

// once hands out n probes of node b of p and notes how they end.
type once struct {
	p     *Proxy
	mu    sync.Mutex
	n     int
	asked int
	ended []selection.ProbeOutcome
}

// Probes implements prober.
func (o *once) Probes(dst []selection.Probe, _ time.Time) []selection.Probe {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	for range o.n {
		dst = append(dst, selection.Probe{Node: o.p.view.Load().nodes[1]})
	}
	o.n = 0
	return dst
}

// ObserveProbe implements prober.
func (o *once) ObserveProbe(_ selection.Probe, outcome selection.ProbeOutcome, _ time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, outcome)
}

// refill makes n more probes due.
func (o *once) refill(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n = n
}

// results counts how the probes ended.
func (o *once) results() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := map[string]int{}
	for _, outcome := range o.ended {
		count[probeResult(outcome)]++
	}
	return count
}

// counted returns sidestep_probes_total by result.
func (p *probing) counted(t *testing.T) map[string]int {
	t.Helper()
	families, err := p.registry.Gather()
	require.NoError(t, err)
	count := map[string]int{}
	for _, f := range families {
		if f.GetName() != "sidestep_probes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			count[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return count
}

func TestProbesAreBoundedAndEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbing(t, silent)
		from := &once{p: p.Proxy, n: maxProbes + 4}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.sendProbes(ctx, from) }()
		time.Sleep(probeInterval)
		synctest.Wait()
		require.Equal(t, map[string]int{probeUnfit: 4}, from.results(), "what is too much is handed back at once")
		time.Sleep(selection.ProbeTimeout)
		synctest.Wait()
		require.Equal(t, map[string]int{probeUnfit: 4, probeFailed: maxProbes}, from.results())

		from.refill(3)
		time.Sleep(2 * probeInterval)
		cancel()
		<-done
		require.Equal(t, map[string]int{probeUnfit: 7, probeFailed: maxProbes}, from.results(), "what was under way is handed back")
		require.Equal(t, map[string]int{probeUnfit: 7, probeFailed: maxProbes, probeAnswered: 0}, p.counted(t))
	})
}

func TestNoProbesInModeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbing(t, answers(http.StatusOK, good))
		from := &once{p: p.Proxy, n: 1}
		require.NoError(t, p.SetMode(ModeOff))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.sendProbes(ctx, from) }()
		time.Sleep(20 * probeInterval)
		synctest.Wait()
		require.Zero(t, from.asked)
		require.NoError(t, p.SetMode(ModeObserve))
		time.Sleep(2 * probeInterval)
		synctest.Wait()
		require.Equal(t, map[string]int{probeAnswered: 1}, from.results())
		cancel()
		<-done
	})
}

func TestWithoutAClientNoProbeIsSent(t *testing.T) {
	p := newProbing(t, func(*http.Request) (*http.Response, error) { panic("sent") })
	p.o.Probes = nil
	require.True(t, p.send(t, 1).Unfit)
}

// A node that failed searches is found well again by probes alone.
func TestProbesLetANodeInAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		p := newProbing(t, func(r *http.Request) (*http.Response, error) {
			if broken.Load() {
				return answers(http.StatusTooManyRequests, `{}`)(r)
			}
			return answers(http.StatusOK, good)(r)
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Probe(ctx) }()
		b := p.view.Load().nodes[1]
		p.UseStats(cluster.NodeStats{Node: b.ID, At: time.Now(), State: cluster.PollOK})
		plan, _ := p.view.Load().snapshot.Resolve("idx", "")
		for range 5 {
			var d selection.Decision
			p.o.Selector.Choose(&d, selection.Request{Nodes: p.view.Load().nodes, Shards: plan.Shards}, time.Now())
			p.o.Selector.Acquire(&d, 1, time.Now())
			p.o.Selector.Blame([]*selection.Node{b}, "", time.Now())
			d.Release()
		}
		require.Equal(t, selection.Failing, b.State())
		time.Sleep(30 * time.Second)
		require.Equal(t, selection.Failing, b.State(), "its probes fail")
		require.Greater(t, p.counted(t)[probeFailed], 30)
		broken.Store(false)
		time.Sleep(10 * time.Second)
		require.Equal(t, selection.Fine, b.State())
		sent := p.counted(t)
		time.Sleep(time.Minute)
		require.Equal(t, sent, p.counted(t), "no probes while all is well")
		cancel()
		<-done
	})
}

func TestRecentPlansAreBoundedAndSpaced(t *testing.T) {
	var r recentPlans
	now := time.Unix(1, 0)
	first := &cluster.Plan{}
	r.add(first, now)
	r.add(&cluster.Plan{}, now.Add(rememberEvery-1))
	r.add(first, now.Add(rememberEvery))
	held := func() (n int) {
		for i := range r.plans {
			if r.plans[i].Load() != nil {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, held())
	for i := range 100 {
		r.add(&cluster.Plan{}, now.Add(time.Duration(i+2)*rememberEvery))
	}
	require.Equal(t, len(r.plans), held())
}

// A connection that is refused is the coordinating node's trouble.
func TestProbeThroughANodeThatRefuses(t *testing.T) {
	// The port of a server that has ended may be another test's by now; this one is nobody's.
	u := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	p := newProbing(t, nil)
	p.o.Probes = &http.Client{Transport: &http.Transport{}}
	p.UseSnapshot(placed(3, func(int) *url.URL { return u }))
	o := p.send(t, 1)
	require.True(t, o.Unfit)
	require.Contains(t, o.Message, "connection refused")
	v := p.view.Load()
	o = p.probe(t.Context(), v, selection.Probe{Node: v.nodes[1], Via: v.nodes[1]})
	require.Equal(t, probeFailed, probeResult(o), "its own trouble if it is to coordinate, too")
}

// Probers implements prober.
func (o *once) Probers(int) {}

// Whether lists are allowed again is found out by probes. They were sent while there were decisions, of which there are none
// until it is known: it took a minute.
func TestSearchesThatPassAsListsAreForbiddenHaveNodesProbed(t *testing.T) {
	h := start(t, 3, nil)
	h.proxy.suspend()
	now := time.Now()
	h.selector.Probes(nil, now)
	h.do("POST", "/idx/_search", `{}`)
	require.NotEmpty(t, h.selector.Probes(nil, now.Add(2*selection.ProbeTimeout)))
}
