package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
)

// admitPatience is how long a test waits for what must come.
const admitPatience = time.Minute

// gatedNodes is a harness whose nodes answer one search for each value that the test sends.
type gatedNodes struct {
	*harness
	let  chan struct{} // one answer for each
	left atomic.Int64  // searches that were given up while a node served them
}

// startGated starts it with one node, a limit of one shard query, and a queue of so many searches.
func startGated(t *testing.T, length int, change func(*Admission)) *gatedNodes {
	t.Helper()
	c := &gatedNodes{let: make(chan struct{})}
	c.harness = start(t, 1, func(o *Options) {
		o.Admission.Mode, o.Admission.Min, o.Admission.Max = admission.Auto, 1, 1
		o.Admission.Queue.Length = length
		if change != nil {
			change(&o.Admission)
		}
	})
	c.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		select {
		case <-c.let:
		case <-r.Context().Done():
			c.left.Add(1)
		}
		respond(http.StatusOK, complete)("", w, r)
	}
	c.polled(2)
	return c
}

// polled is a poll of all nodes.
func (c *gatedNodes) polled(threads int64) {
	for i := range c.nodes {
		c.proxy.UseStats(cluster.NodeStats{Node: id(i), At: time.Now(), State: cluster.PollOK, Threads: threads})
	}
}

// answered is the answer to a request that is under way.
type answered struct {
	status int
	header http.Header
	body   string
}

// send sends a request on a goroutine of its own.
func (c *gatedNodes) send(ctx context.Context, method, uri, body string, headers ...string) <-chan answered {
	out := make(chan answered, 1)
	req, err := http.NewRequestWithContext(ctx, method, c.front.URL+uri, stringBody(body))
	require.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	go func() {
		defer close(out)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		out <- answered{resp.StatusCode, resp.Header, string(text)}
	}()
	return out
}

// search sends a search, and returns once it is in flight or waits.
func (c *gatedNodes) search(headers ...string) <-chan answered {
	c.t.Helper()
	before := c.inFlight() + c.waiting()
	out := c.send(c.t.Context(), http.MethodGet, "/lone/_search", "", headers...)
	require.Eventually(c.t, func() bool { return c.inFlight()+c.waiting() > before }, admitPatience, time.Millisecond)
	return out
}

func (c *gatedNodes) waiting() int { return c.proxy.admission.waiting() }

// waiting returns how many wait.
func (a *admissions) waiting() (n int) {
	for _, class := range a.classViews() {
		n += class.Waiting
	}
	return n
}

func (c *gatedNodes) inFlight() int {
	return int(c.proxy.admission.view(id(0), time.Now()).Admitted)
}

func (c *gatedNodes) opened() (n int64) {
	c.proxy.admission.do(func(time.Time) []*admission.Ticket {
		n = c.proxy.admission.control.Opened()
		return nil
	})
	return n
}

func (c *gatedNodes) await(n int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.waiting() == n }, admitPatience, time.Millisecond)
}

func TestSearchesWaitForTheirTurn(t *testing.T) {
	c := startGated(t, 10, nil)
	first, second := c.search(), c.search()
	require.Equal(t, 1, c.waiting())
	require.Equal(t, 1, c.inFlight())
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-second).status)
	require.Len(t, c.seen(), 2)
	require.Zero(t, c.inFlight())
}

// What waits for a node that has left goes on, though no other is polled.
func TestSearchesDoNotWaitForANodeThatHasLeft(t *testing.T) {
	c := startGated(t, 10, nil)
	first, second := c.search(), c.search()
	require.Equal(t, 1, c.waiting())
	c.proxy.admission.update(&cluster.Snapshot{})
	require.Zero(t, c.waiting())
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
}

// A refusal has the engine's own shape, and costs the engine nothing.
func TestARefusalLooksLikeTheEngines(t *testing.T) {
	c := startGated(t, 1, nil)
	first, second := c.search(), c.search()
	third := <-c.send(t.Context(), http.MethodPost, "/lone/_search", `{"query":{"match_all":{}}}`)
	require.Equal(t, http.StatusTooManyRequests, third.status)
	require.Equal(t, "1", third.header.Get("Retry-After"))
	require.Contains(t, third.body, `"type":"rejected_execution_exception"`)
	require.Contains(t, third.body, `"status":429`)
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
	require.Len(t, c.seen(), 2)
	require.Equal(t, int64(1), c.proxy.Totals().Outcomes[string(outcomeRefused)])
}

// Nothing is counted as refused that was not: a client that leaves is dropped, and its
// place is free at once.
func TestAClientThatLeavesIsDropped(t *testing.T) {
	c := startGated(t, 1, nil)
	first := c.search()
	ctx, leave := context.WithCancel(t.Context())
	c.send(ctx, http.MethodGet, "/lone/_search", "")
	c.await(1)
	leave()
	c.await(0)
	second := c.search()
	require.Equal(t, 1, c.waiting())
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
	require.Len(t, c.seen(), 2)
	require.Eventually(t, func() bool { return c.proxy.Totals().Outcomes[string(outcomeCanceled)] == 1 }, admitPatience, time.Millisecond)
	require.Zero(t, c.proxy.Totals().Outcomes[string(outcomeRefused)])
}

// A search that is given up in flight, too, returns what it held.
func TestAClientThatLeavesInFlightFreesItsShare(t *testing.T) {
	c := startGated(t, 10, nil)
	ctx, leave := context.WithCancel(t.Context())
	c.send(ctx, http.MethodGet, "/lone/_search", "")
	require.Eventually(t, func() bool { return c.inFlight() == 1 && len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	second := c.search()
	leave()
	c.await(0)
	// Until the node knows that the client has left, it may take the answer for the first search.
	require.Eventually(t, func() bool { return c.left.Load() == 1 }, admitPatience, time.Millisecond)
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-second).status)
}

func TestContinuationsAndReadsByIDPass(t *testing.T) {
	c := startGated(t, 1, nil)
	first := c.search()
	waits := c.search()
	pass := []<-chan answered{
		c.send(t.Context(), http.MethodPost, "/_search/scroll", `{"scroll_id":"x"}`),
		c.send(t.Context(), http.MethodPost, "/_search", `{"pit":{"id":"x"}}`),
		c.send(t.Context(), http.MethodGet, "/lone/_doc/1", ""),
	}
	for range 5 {
		c.let <- struct{}{}
	}
	for _, one := range append(pass, first, waits) {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
}

// Reads by id are no load of the search threads: the engines have a pool of its own for them.
func TestReadsByIDTakeNoRoom(t *testing.T) {
	c := startGated(t, 1, func(a *Admission) { a.Min, a.Max = 2, 2 })
	all := []<-chan answered{
		c.send(t.Context(), http.MethodGet, "/lone/_doc/1", ""),
		c.send(t.Context(), http.MethodPost, "/lone/_mget", `{"ids":["1","2"]}`),
	}
	arrived := 0
	require.Eventually(t, func() bool { arrived += len(c.seen()); return arrived == len(all) }, admitPatience, time.Millisecond)
	for range 2 {
		all = append(all, c.search())
	}
	require.Zero(t, c.waiting())
	require.Equal(t, 2, c.inFlight())
	for range all {
		c.let <- struct{}{}
	}
	for _, one := range all {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
}

// A point in time is seen wherever it can be: in a multi-search, in the beginning of a body
// that streams, and where its operation is not steered.
func TestPointsInTimePassWhereverTheyAreSeen(t *testing.T) {
	c := startGated(t, 1, nil)
	c.proxy.o.MaxHeldBody = 2000
	c.proxy.o.Off = []string{string(es.AsyncSearch)}
	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now(), State: cluster.PollOK, Threads: 2, Queries: 1}) // it serves
	first, waits := c.search(), c.search()
	long := `{"pit":{"id":"x"},"query":{"terms":{"a":["` + strings.Repeat("b", 5000) + `"]}}}`
	pass := []<-chan answered{
		c.send(t.Context(), http.MethodPost, "/_msearch", "{}\n{\"size\":0}\n{}\n{\"pit\":{\"id\":\"x\"}}\n", "Content-Type", "application/x-ndjson"),
		c.send(t.Context(), http.MethodPost, "/_async_search", `{"pit":{"id":"x"}}`),
		c.send(t.Context(), http.MethodPost, "/_search", long),
	}
	refused := <-c.send(t.Context(), http.MethodPost, "/_search", strings.Replace(long, "pit", "bit", 1))
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	for range 5 {
		c.let <- struct{}{}
	}
	for _, one := range append(pass, first, waits) {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
}

// An msearch counts its items, as many as the engine has at a time, and is admitted as a whole.
func TestAMultiSearchCountsItsItems(t *testing.T) {
	c := startGated(t, 10, nil)
	body := strings.Repeat(`{"index":"lone"}`+"\n{}\n", 7)
	for atOnce, counts := range map[string]int{"?max_concurrent_searches=5": 5, "?max_concurrent_searches=9": 7, "": 2} {
		many := c.send(t.Context(), http.MethodPost, "/_msearch"+atOnce, body, "Content-Type", "application/x-ndjson")
		require.Eventually(t, func() bool { return c.inFlight() == counts }, admitPatience, time.Millisecond, "%q", atOnce)
		after := c.search()
		require.Equal(t, 1, c.waiting())
		c.let <- struct{}{}
		require.Equal(t, http.StatusOK, (<-many).status)
		c.let <- struct{}{}
		require.Equal(t, http.StatusOK, (<-after).status)
		require.Eventually(t, func() bool { return c.inFlight() == 0 }, admitPatience, time.Millisecond)
	}
}

// So it does if it passes, as its operation is switched off.
func TestAMultiSearchThatPassesCountsItsItems(t *testing.T) {
	c := startGated(t, 10, nil)
	c.proxy.o.Off = []string{string(es.MSearch)}
	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now(), State: cluster.PollOK, Threads: 2, Queries: 1}) // it serves
	many := c.send(t.Context(), http.MethodPost, "/_msearch?max_concurrent_searches=5", strings.Repeat(`{"index":"lone"}`+"\n{}\n", 7))
	require.Eventually(t, func() bool { return len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	require.Equal(t, 5, c.inFlight())
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-many).status)
}

// What was decided before it waited may be outdated: its nodes may be gone by then.
func TestAMultiSearchThatWaitedIsDecidedAnew(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := &gatedNodes{let: make(chan struct{})}
	c.harness = start(t, 3, func(o *Options) {
		o.Registerer = reg
		o.Admission.Mode, o.Admission.Min, o.Admission.Max = admission.Auto, 1, 1
	})
	c.slow(1)
	c.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		<-c.let
		respond(http.StatusOK, responses(found))("", w, r)
	}
	c.polled(2)
	body := `{"index":"idx"}` + "\n{}\n"
	first := c.send(t.Context(), http.MethodPost, "/_msearch", body)
	require.Eventually(t, func() bool { return len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	second := c.send(t.Context(), http.MethodPost, "/_msearch", body)
	c.await(1)
	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now(), State: cluster.PollUnreachable})
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-second).status)
	seen := c.seen()
	require.Len(t, seen, 1)
	require.Equal(t, "c", seen[0].node)
	require.Contains(t, seen[0].body, `"_prefer_nodes:id-`)
	require.NotContains(t, seen[0].body, "id-a")
	require.Equal(t, map[string]int{"ranked": 2}, counted(t, reg))
	require.Zero(t, c.inFlight())
}

func TestAClassMayHaveADeadline(t *testing.T) {
	c := startGated(t, 10, func(a *Admission) {
		a.Classes = []AdmissionClass{{
			Class: admission.Class{Name: "hurried", Deadline: 10 * time.Millisecond}, OpaqueIDPrefix: "now-", User: "kim", Index: "lo*", Operation: string(es.Search),
		}}
	})
	first := c.search()
	auth := "Basic a2ltOnNlY3JldA==" // kim:secret
	refused := <-c.send(t.Context(), http.MethodGet, "/lone/_search", "", "X-Opaque-Id", "now-1", "Authorization", auth)
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	patient := c.search("X-Opaque-Id", "later-1", "Authorization", auth)
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-patient).status)
}

// Where a class says so, a search that has waited for its deadline is not refused: it is
// one of the lower class from then on.
func TestAClassMayDowngrade(t *testing.T) {
	c := startGated(t, 10, func(a *Admission) {
		a.Classes = []AdmissionClass{
			{Class: admission.Class{Name: "hurried", Deadline: 10 * time.Millisecond, Downgrade: "hesitant"}, OpaqueIDPrefix: "now-"},
			{Class: admission.Class{Name: "hesitant", Deadline: time.Second, Downgrade: "patient"}, OpaqueIDPrefix: "soon-"},
			{Class: admission.Class{Name: "patient"}, OpaqueIDPrefix: "later-"},
		}
	})
	first, hurried := c.search(), c.search("X-Opaque-Id", "now-1")
	require.Eventually(t, func() bool {
		classes := c.proxy.AdmissionClasses()
		return classes[0].Downgraded == 1 && classes[1].Downgraded == 1 && classes[2].Waiting == 1
	}, admitPatience, time.Millisecond)
	for _, one := range []<-chan answered{first, hurried} {
		c.let <- struct{}{}
		require.Equal(t, http.StatusOK, (<-one).status)
	}
	require.Zero(t, c.proxy.Totals().Outcomes[string(outcomeRefused)])
	require.Equal(t, int64(1), c.proxy.AdmissionClasses()[2].Admitted)
}

// The class of a search in flight may change at any time while nothing is held back: only
// what was told with the verdict is its class. (For the race detector.)
func TestTheClassIsToldWithTheVerdict(t *testing.T) {
	c := startGated(t, 10, func(a *Admission) {
		a.Mode = admission.Observe
		a.Classes = []AdmissionClass{
			{Class: admission.Class{Name: "hurried", Deadline: time.Nanosecond, Downgrade: "patient"}, OpaqueIDPrefix: "now-"},
			{Class: admission.Class{Name: "patient"}, OpaqueIDPrefix: "later-"},
		}
	})
	c.answer = nil
	for range 50 {
		var all []<-chan answered
		for range 8 {
			all = append(all, c.send(t.Context(), http.MethodGet, "/lone/_search", "", "X-Opaque-Id", "now-1"))
		}
		for _, one := range all {
			require.Equal(t, http.StatusOK, (<-one).status)
		}
	}
	require.Positive(t, c.proxy.AdmissionClasses()[0].Downgraded)
}

// Wherever the class of all others is listed, it is that of the others.
func TestTheDefaultClassIsThatOfTheOthers(t *testing.T) {
	c := startGated(t, 1000, func(a *Admission) {
		a.Classes = []AdmissionClass{{Class: admission.Class{Name: defaultClass}}, {Class: admission.Class{Name: "vip"}, OpaqueIDPrefix: "vip-"}}
	})
	c.answer = nil
	for _, headers := range [][]string{{"X-Opaque-Id", "vip-1"}, nil} {
		require.Equal(t, http.StatusOK, (<-c.send(t.Context(), http.MethodGet, "/lone/_search", "", headers...)).status)
	}
	classes := c.proxy.admission.control.Classes()
	require.Equal(t, []int64{1, 1}, []int64{classes[0].Admitted, classes[1].Admitted})
}

func TestARateLetsGoByTheClock(t *testing.T) {
	c := startGated(t, 10, func(a *Admission) {
		a.Min, a.Max = 100, 100
		a.Classes = []AdmissionClass{{Class: admission.Class{Name: defaultClass, Rate: 20}}}
	})
	c.answer = nil
	for range 6 { // at most two at once, the others with the clock alone
		resp, _ := c.do(http.MethodGet, "/lone/_search", "")
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	require.Zero(t, c.waiting())
}

func TestSwitchingAdmissionAtRunTime(t *testing.T) {
	c := startGated(t, 10, nil)
	require.Equal(t, admission.Auto, c.proxy.AdmissionMode())
	first, second := c.search(), c.search()
	require.NoError(t, c.proxy.SetAdmissionMode(admission.Observe))
	c.await(0)
	third := c.search()
	require.Zero(t, c.waiting())
	require.Equal(t, int64(1), c.proxy.admission.control.Classes()[0].WouldWait)
	for range 3 { // all are in flight: any of them gets the next answer
		c.let <- struct{}{}
	}
	for _, one := range []<-chan answered{first, second, third} {
		<-one
	}
	require.Error(t, c.proxy.SetAdmissionMode(admission.Target), "no target response time is given")
	require.Error(t, c.proxy.SetAdmissionMode("fast"))
	require.NoError(t, c.proxy.SetAdmissionMode(admission.Auto))
	// The more careful of both switches is in force.
	require.NoError(t, c.proxy.SetMode(ModeObserve))
	require.Equal(t, admission.Observe, c.proxy.AdmissionMode())
	require.NoError(t, c.proxy.SetMode(ModeOff))
	require.Equal(t, admission.Off, c.proxy.AdmissionMode())
	require.Equal(t, admission.Auto, c.proxy.OwnAdmissionMode())
}

// A cluster that answers 503 to everything gets what its clients send, and a little more:
// the rule of repetitions covers what is admitted. Back, it is used at once.
func TestAdmissionAddsNothingWhileEverythingFails(t *testing.T) {
	c := &gatedNodes{harness: start(t, 3, func(o *Options) { o.Admission.Mode = admission.Auto })}
	c.polled(2)
	c.answer = respond(http.StatusServiceUnavailable, `{"error":{"type":"search_phase_execution_exception","reason":"all shards failed"},"status":503}`)
	const searches = 300
	for range searches / 10 {
		var burst []<-chan answered
		for range 10 {
			burst = append(burst, c.send(t.Context(), http.MethodGet, "/idx/_search", ""))
		}
		for _, one := range burst {
			require.Equal(t, http.StatusServiceUnavailable, (<-one).status)
		}
	}
	require.LessOrEqual(t, len(c.seen()), searches*11/10)
	require.Zero(t, c.waiting())
	c.mu.Lock()
	c.answer = nil
	c.mu.Unlock()
	require.Equal(t, http.StatusOK, (<-c.send(t.Context(), http.MethodGet, "/idx/_search", "")).status)
}

// No poll comes any more, as of a cluster that is cut off, and what is in flight does not end: what waits for nodes of
// which nothing is known goes on all the same.
func TestNothingWaitsForASilentCluster(t *testing.T) {
	t.Parallel()
	c := startGated(t, 10, nil)
	first, second := c.search(), c.search()
	require.Equal(t, 1, c.waiting())
	c.proxy.UseStats(cluster.NodeStats{Node: id(0), At: time.Now().Add(-14 * time.Second), State: cluster.PollOK, Threads: 2})
	c.await(0)
	require.Equal(t, 2, c.inFlight())
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
	require.EqualValues(t, 1, c.opened(), "what has waited counts, too")
}

// Two operators switch at once: admission is not on while routing is off.
func TestModesThatAreSwitchedAtOnceAgree(t *testing.T) {
	p := start(t, 1, nil).proxy
	for range 20_000 {
		require.NoError(t, p.SetMode(ModeRoute))
		var both sync.WaitGroup
		both.Go(func() { _ = p.SetMode(ModeOff) })
		both.Go(func() { _ = p.SetAdmissionMode(admission.Auto) })
		both.Wait()
		require.Equal(t, admission.Off, p.AdmissionMode())
	}
}
