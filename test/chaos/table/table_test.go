package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sidestep/test/chaos"
	"sidestep/test/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestChooseScenarios(t *testing.T) {
	all, err := chooseScenarios("")
	require.NoError(t, err)
	require.Len(t, all, len(scenarioNames()))
	some, err := chooseScenarios("kill,healthy")
	require.NoError(t, err)
	require.Len(t, some, 2)
	require.Equal(t, "healthy", some[0].name, "the order is the table's")
	_, err = chooseScenarios("kill,storm")
	require.ErrorContains(t, err, `no scenario "storm"`)
}

func TestScenariosAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, sc := range scenarios() {
		require.False(t, seen[sc.name], sc.name)
		seen[sc.name] = true
		require.NotEmpty(t, sc.title, sc.name)
		require.Equal(t, sc.bad > 0, sc.begin != nil, sc.name)
		require.NotZero(t, sc.asks, sc.name)
		ways := options{}.loads(sc)
		require.Contains(t, ways, loadEngine, sc.name)
		require.Contains(t, ways, loadControl, sc.name)
		require.Equal(t, sc.asks.oracle > 0, sc.bad > 0 || sc.whole != nil, sc.name)
		if sc.asks.oracle > 0 {
			require.Contains(t, ways, loadOracle, sc.name)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-engine", "elasticsearch", "-scenarios", "two", "-rate", "40", "-out", "/x", "-seed", "7"})
	require.NoError(t, err)
	require.Equal(t, "8.19.4", o.Version)
	require.Equal(t, "bin/chaos -engine elasticsearch -rate 40 -scenarios two -seed 7", o.command)
	require.Empty(t, o.variants)
	o, err = parse([]string{"-scenarios", "two"})
	require.NoError(t, err)
	require.NotZero(t, o.seed)
	require.Equal(t, fmt.Sprintf("bin/chaos -scenarios two -seed %d", o.seed), o.command, "what was drawn can be drawn again")
	for _, bad := range [][]string{{"-variants", "fast"}, {"-engine", "solr"}, {"-rounds", "0"}, {"-rate", "-1"}, {"healthy"}, {"-scenarios", "x"}} {
		_, err := parse(bad)
		require.Error(t, err, bad)
	}
}

func TestTurnsAreManyAndNotTooShort(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	for _, sc := range scenarios() {
		count, length := o.turns(sc)
		require.GreaterOrEqual(t, count, 6, sc.name, "the range of fewer turns holds their median with less than 95 %")
		require.GreaterOrEqual(t, length, 2500*time.Millisecond, sc.name)
	}
	count, length := options{rounds: 6, slice: time.Second}.turns(scenario{share: 0.6, stretch: 2.5})
	require.Equal(t, 4, count)
	require.Equal(t, 2500*time.Millisecond, length)
	count, _ = options{rounds: 6}.turns(scenario{asks: nearOracle(), begin: limitCPU})
	require.Equal(t, 12, count)
	count, _ = options{rounds: 1}.turns(scenario{share: 0.1})
	require.Equal(t, 1, count)
}

func TestTheEngineHasATurnInEveryOtherRoundWhereTheOracleIsMet(t *testing.T) {
	sc, o := scenario{asks: nearOracle(), begin: limitCPU}, options{}
	require.Equal(t, []string{loadEngine, loadSidestep, loadOracle, loadControl}, o.inRound(sc, 1))
	require.Equal(t, []string{loadSidestep, loadOracle}, o.inRound(sc, 2))
	require.Len(t, o.inRound(scenario{asks: nothingWrong()}, 2), 4)
}

func TestAllOfItTakesLessThan55Minutes(t *testing.T) {
	for _, engine := range []string{"opensearch", "elasticsearch"} {
		o, err := parse([]string{"-engine", engine})
		require.NoError(t, err)
		require.Less(t, o.estimate(o.scenarios), 55*time.Minute)
	}
}

func TestEachShapeIsStartedOnce(t *testing.T) {
	seen := map[shape]bool{}
	for _, group := range byShape(scenarios()) {
		for _, sc := range group {
			require.Equal(t, group[0].shape, sc.shape)
		}
		require.False(t, seen[group[0].shape])
		seen[group[0].shape] = true
	}
	require.Contains(t, seen, shape{})
	require.Contains(t, seen, threeNodes())
	require.Contains(t, seen, managed())
}

func TestShapes(t *testing.T) {
	var o harness.ClusterOptions
	shape{}.apply(&o)
	require.Equal(t, 5, o.Nodes)
	require.Empty(t, o.NodeSettings)
	managed().apply(&o)
	require.Equal(t, 6, o.Nodes)
	const electors = `["node-4", "node-5", "node-6"]`
	require.Equal(t, map[string]string{"cluster.initial_cluster_manager_nodes": electors, "node.roles": "[data]"}, o.NodeSettings[2])
	require.Equal(t, map[string]string{"cluster.initial_cluster_manager_nodes": electors, "node.roles": "[cluster_manager]"}, o.NodeSettings[3])
	o = harness.ClusterOptions{Distribution: harness.Elasticsearch}
	managed().apply(&o)
	require.Equal(t, map[string]string{"cluster.initial_master_nodes": electors, "node.roles": "[master]"}, o.NodeSettings[5])
}

func TestCollections(t *testing.T) {
	random := options{seed: 1}.lot("collections")
	const long = 1000 * collectionEvery
	stops := collections(random, long)
	require.InDelta(t, 1000, len(stops), 100)
	require.IsIncreasing(t, stops)
	for i := 1; i < len(stops); i++ {
		require.Greater(t, stops[i]-stops[i-1], collection, "it has run in the meantime")
	}
	require.Less(t, stops[len(stops)-1], long)
}

func TestLotsAreDrawnBySeedAndPurpose(t *testing.T) {
	draw := func(seed harness.Seed, purpose string) []int { return options{seed: seed}.lot(purpose).Perm(20) }
	again := draw(1, "two")
	require.Equal(t, again, draw(1, "two"))
	require.NotEqual(t, draw(1, "two"), draw(2, "two"))
	require.NotEqual(t, draw(1, "two"), draw(1, "kill"))
}

// A variant of settings that a sidestep does not know is told of before anything is started.
func TestVariants(t *testing.T) {
	o, err := parse([]string{"-variants", "calm=routing.hedge_budget:0 old=binary:true", "-seed", "7"})
	require.NoError(t, err)
	require.Equal(t, []string{loadEngine, loadSidestep, "calm", "old", loadOracle, loadControl}, o.loads(scenario{}))
	o.Sidestep = "true"
	further, err := o.further(t.Context())
	require.NoError(t, err)
	require.Equal(t, []harness.Sidestep{
		{Name: "calm", Config: "routing:\n    hedge_budget: 0\n"}, {Name: "old", Binary: "true", Config: "{}\n"},
	}, further)
	o.Sidestep = "false"
	_, err = o.further(t.Context())
	require.ErrorContains(t, err, "variant calm: check the configuration: exit status 1")
	_, err = parse([]string{"-variants", "oracle=routing.when:always"})
	require.ErrorContains(t, err, "its name is taken")
}

func TestParseDecision(t *testing.T) {
	nodes, coordinator := parseDecision("mode=route; reason=ranked; nodes=node-1,node-3; attempts=1")
	require.Equal(t, []string{"node-1", "node-3"}, nodes)
	require.Empty(t, coordinator)
	nodes, coordinator = parseDecision("mode=off; reason=off; nodes=; coordinator=node-2; attempts=1")
	require.Empty(t, nodes)
	require.Equal(t, "node-2", coordinator)
	for _, reason := range []string{"no_outlier", "no_gain", "overloaded", "no_choice"} {
		nodes, coordinator = parseDecision("mode=route; reason=" + reason + "; nodes=node-1,node-3; attempts=1; coordinator=node-1")
		require.Empty(t, nodes, "it went out without a list")
		require.Equal(t, "node-1", coordinator)
	}
	nodes, _ = parseDecision("")
	require.Empty(t, nodes)
}

// fourNodes are nodes of which a and b share shard 0, and c and d shard 1; d is last.
func fourNodes() ([]*harness.Node, chaos.Placement) {
	return []*harness.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}},
		chaos.Placement{"a": {"0"}, "b": {"0"}, "c": {"1"}, "d": {"1"}}
}

func TestChooseVictims(t *testing.T) {
	order, where := fourNodes()
	one, err := chooseVictims(order, where, 1)
	require.NoError(t, err)
	require.Equal(t, order[:1], one)
	two, err := chooseVictims(order, where, 2)
	require.NoError(t, err)
	require.Equal(t, []*harness.Node{order[0], order[2]}, two, "no shard loses both copies")
	delete(where, "a")
	one, err = chooseVictims(order, where, 1)
	require.NoError(t, err)
	require.Equal(t, order[1:2], one, "a node without copies is no victim")
	_, err = chooseVictims(order[:2], where, 2)
	require.Error(t, err)
}

func TestCountsAdd(t *testing.T) {
	c := counts{"a": 1}
	c.add(counts{"a": 10, "b": 50, "d": 5}, counts{"a": 15, "b": 7, "c": 9})
	require.Equal(t, counts{"a": 6, "b": 7}, c, "b began anew, c and d did not tell twice")
}

func TestAlternateEndsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []string
		enter := func(name string) func() error {
			return func() error { states = append(states, name); return nil }
		}
		ctx, cancel := context.WithCancel(t.Context())
		end := alternate(ctx, phase{3 * time.Second, enter("on")}, phase{time.Second, enter("off")})
		time.Sleep(4500 * time.Millisecond)
		require.NoError(t, end(ctx))
		require.Equal(t, []string{"on", "off", "on", "off"}, states)

		broken := errors.New("broken")
		end = alternate(ctx, phase{time.Second, func() error { return broken }}, phase{time.Second, enter("off")})
		synctest.Wait()
		cancel()
		require.ErrorIs(t, end(ctx), broken)
		require.Equal(t, "off", states[len(states)-1])
	})
}

// seen makes ten searches in each bucket of a second per entry; the entry says how
// many of the ten use the node "bad". All use "good".
func seen(zero time.Time, from time.Duration, perSecond ...int) []sample {
	var out []sample
	for i, uses := range perSecond {
		for bucket := range 10 {
			at := zero.Add(from + time.Duration(i)*time.Second + time.Duration(bucket)*bucketLength)
			for n := range 10 {
				s := sample{at: at, answered: true, nodes: []string{"good"}}
				if n < uses {
					s.nodes = append(s.nodes, "bad")
				}
				out = append(out, s)
			}
		}
	}
	return out
}

func TestTimeToAvoidAndReturn(t *testing.T) {
	zero := time.Unix(1000, 0)
	nodes, bad := []string{"good", "bad"}, []string{"bad"}
	for name, tc := range map[string]struct {
		onset, recovery []int // from −1 s on
		avoid, back     time.Duration
	}{
		"at once":       {[]int{4, 0, 0}, []int{0, 4, 4}, 0, 0},
		"after 1 s":     {[]int{4, 4, 0, 0}, []int{0, 0, 4, 4}, time.Second, 900 * time.Millisecond},
		"trials remain": {[]int{4, 8, 1, 1}, []int{0, 2, 2}, time.Second, 0},
		"never":         {[]int{4, 4, 4}, []int{0, 1, 1}, -1, -1},
		"used before 0": {[]int{0, 4, 4}, []int{4, 0, 0}, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onset := newShares(seen(zero, -time.Second, tc.onset...),
				span{zero, -time.Second, time.Duration(len(tc.onset)-1) * time.Second}, nodes, false)
			recovery := newShares(seen(zero, -time.Second, tc.recovery...),
				span{zero, -time.Second, time.Duration(len(tc.recovery)-1) * time.Second}, nodes, false)
			require.Equal(t, tc.avoid, onset.timeToAvoid(bad))
			require.Equal(t, tc.back, recovery.timeToReturn(bad, onset))
		})
	}
}

func TestSharesOfOddSamples(t *testing.T) {
	zero := time.Unix(1000, 0)
	over := span{zero, 0, time.Second}
	samples := []sample{
		{at: zero.Add(-time.Second), answered: true, nodes: []string{"a"}}, // too early
		{at: zero.Add(time.Second), answered: true, nodes: []string{"a"}},  // too late
		{at: zero, answered: true}, // passed: anybody
		{at: zero},                 // never answered: blamed on all
		{at: zero, answered: true, nodes: []string{"b", "gone"}, coordinator: "b"},
	}
	s := newShares(samples, over, []string{"a", "b"}, false)
	share, ok := s.share("a", 0, 1)
	require.True(t, ok)
	require.InDelta(t, 2.0/3, share, 1e-9)
	share, _ = s.share("b", 0, 10)
	require.InDelta(t, 1, share, 1e-9)
	_, ok = s.share("a", 1, 9)
	require.False(t, ok, "no searches, no share")

	s = newShares(samples[4:], over, []string{"a", "b"}, true)
	require.False(t, s.blind)
	share, _ = s.share("b", 0, 1)
	require.InDelta(t, 1, share, 1e-9)
	s = newShares(samples[:4], over, []string{"a", "b"}, true)
	require.True(t, s.blind, "sidestep does not tell its coordinating nodes")
	require.Negative(t, s.timeToAvoid([]string{"a"}))
}

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOracleTouchesGoodNodesAlone(t *testing.T) {
	good := []*harness.Node{{ID: "a", HTTPURL: "http://h1:1"}, {ID: "c", HTTPURL: "http://h3:3"}}
	var list atomic.Pointer[[]*harness.Node]
	list.Store(&good)
	hosts := map[string]int{}
	o := &oracle{good: &list, base: answers(func(r *http.Request) (*http.Response, error) {
		require.Equal(t, "preference=_only_nodes:a,c", r.URL.RawQuery)
		hosts[r.URL.Host]++
		return &http.Response{Body: http.NoBody}, nil
	})}
	for range 4 {
		res, err := o.RoundTrip(harness.Search(index, 1))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	require.Equal(t, map[string]int{"h1:1": 2, "h3:3": 2}, hosts)
}

func TestWitness(t *testing.T) {
	began := time.Now().Add(-time.Second)
	w := &witness{schedule: func(i int) time.Time { return began.Add(time.Duration(i) * time.Second) }, base: answers(func(r *http.Request) (*http.Response, error) {
		require.Equal(t, "1", r.Header.Get("X-Sidestep-Explain"))
		if r.URL.RawQuery == "fail" {
			return nil, errors.New("no")
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{"X-Sidestep-Decision": {"nodes=a"}}}, nil
	})}
	r := harness.Search(index, 1)
	r.Body = numbered{r.Body, 0}
	res, err := w.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Empty(t, r.Header.Get("X-Sidestep-Explain"), "the request is not ours")
	r.URL.RawQuery = "fail"
	_, err = w.RoundTrip(r)
	require.Error(t, err)
	require.Len(t, w.samples, 2)
	one := w.samples[0]
	require.Equal(t, []string{"a"}, one.nodes)
	require.Equal(t, "nodes=a", one.decision)
	require.Equal(t, 200, one.status)
	require.Equal(t, began, one.due)
	require.GreaterOrEqual(t, one.latency, time.Second, "from when it was due")
	require.False(t, w.samples[1].answered)
	require.Equal(t, "no", w.samples[1].decision)
}

func TestLinesOfLoads(t *testing.T) {
	s := &stage{
		options: options{rate: 80},
		shape:   shape{data: 1, managers: 1},
		Stage: harness.Stage{
			Cluster: &harness.Cluster{Nodes: []*harness.Node{{HTTPURL: "http://n:1"}, {HTTPURL: "http://manager:1"}}},
			Fronts:  []*harness.Front{{Name: loadSidestep, URL: "http://s:1"}, {Name: "calm", URL: "http://c:1"}},
		},
	}
	s.variants = []harness.Variant{{Name: "calm"}}
	require.Equal(t, []string{loadEngine, loadSidestep, "calm", loadOracle, loadControl}, s.loads(scenario{}))
	require.Equal(t, []string{loadEngine, loadSidestep, "calm", loadControl}, s.loads(scenario{ways: withoutOracle()}))
	for load, target := range map[string]string{loadControl: "http://n:1", loadEngine: "http://n:1", loadSidestep: "http://s:1", "calm": "http://c:1", loadOracle: "http://n:1"} {
		l := s.line(scenario{}, shot{load: load, lead: time.Second, duration: 2 * time.Second, first: 7})
		t.Cleanup(l.done)
		require.Equal(t, []string{target}, l.Targets)
		require.Equal(t, time.Second, l.lead.Duration)
		require.Equal(t, 2*time.Second, l.Duration)
		require.Equal(t, 80.0, l.lead.Rate)
		body, err := io.ReadAll(l.Request(3).Body)
		require.NoError(t, err)
		want, err := io.ReadAll(harness.Search(index, 10).Body)
		require.NoError(t, err)
		require.Equal(t, string(want), string(body))
		require.Equal(t, load == loadSidestep || load == "calm", l.seen != nil)
		began := time.Unix(5, 0)
		l.follow(began)
		if l.seen != nil {
			require.Equal(t, began.Add(500*time.Millisecond), l.seen.schedule(40))
			_, told := l.lead.Transport.(*witness)
			require.False(t, told, "lead-ins are not told of")
		}
	}
}

func TestKeepSlowest(t *testing.T) {
	zero := time.Unix(100, 0)
	var samples []sample
	for i := range 30 {
		samples = append(samples, sample{due: zero.Add(time.Duration(i) * time.Second), latency: time.Duration(i) * time.Millisecond})
	}
	var one tally
	one.keepSlowest(samples[:15], 1, zero)
	one.keepSlowest(samples[15:], 2, zero.Add(20*time.Second))
	require.Len(t, one.slowest, kept)
	require.Equal(t, 29*time.Millisecond, one.slowest[0].latency)
	require.Equal(t, 9*time.Second, one.slowest[0].offset)
	require.Equal(t, 2, one.slowest[0].round)
	last := one.slowest[kept-1]
	require.Equal(t, 10*time.Millisecond, last.latency)
	require.Equal(t, 1, last.round)
}

func TestEjections(t *testing.T) {
	at := time.Date(2026, 11, 20, 19, 33, 49, 182e6, time.UTC)
	all := []harness.StateChange{
		{At: at, Node: "node-1", Is: "unresponsive", Was: "fine", Why: "poll stats: too late"},
		{At: at, Node: "node-1", Is: "ramping", Was: "slow"},
		{At: at, Node: "node-2", Is: "slow", Was: "fine", Why: "response time 9 ms"},
	}
	require.Equal(t, "19:33:49.182  node-1 unresponsive, was fine: poll stats: too late", told(all[0]))
	require.Equal(t, "19:33:49.182  node-1 ramping, was slow", told(all[1]))
	ejected, changes := ejections(all)
	require.Equal(t, 1, ejected, "one that answers no polls still gets searches")
	require.Equal(t, 3, changes)
	ejected, _ = ejections([]harness.StateChange{{Is: "failing", Was: "slow"}, {Is: "unreachable", Was: "fine"}})
	require.Equal(t, 1, ejected, "for another reason, but still ejected")
}

func TestHeavySearches(t *testing.T) {
	s := &stage{shape: shape{data: 1}, Stage: harness.Stage{Cluster: &harness.Cluster{Nodes: []*harness.Node{{HTTPURL: "http://n:1"}}}}}
	l := s.line(scenario{connections: 9, second: heavy()}, shot{load: loadEngine, tenant: heavy(), duration: time.Second})
	t.Cleanup(l.done)
	require.Equal(t, heavyRate, l.Rate)
	require.Zero(t, l.Connections)
	r := l.Request(3)
	require.Equal(t, "/"+heavyIndex+"/_search", r.URL.Path)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Len(t, body, int(r.ContentLength))
	require.True(t, json.Valid(body))
	require.Equal(t, lightRate, s.line(scenario{rate: lightRate}, shot{load: loadEngine, duration: time.Second}).Rate)
}

func TestSearchesThroughManagers(t *testing.T) {
	through, untold := throughNodes([]sample{{coordinator: "node-1"}, {coordinator: "node-4"}, {}}, []string{"node-4", "node-5"})
	require.Equal(t, 1, through)
	require.Equal(t, 1, untold)
}

func TestHowASearchMetBadNodes(t *testing.T) {
	bad := []string{"x"}
	for want, s := range map[string]sample{
		"?":                     {},
		"unlisted":              {answered: true, coordinator: "a"},
		"unlisted, coordinator": {answered: true, coordinator: "x"},
		"listed":                {answered: true, nodes: []string{"a", "x"}, coordinator: "a"},
		"listed, coordinator":   {answered: true, nodes: []string{"x"}, coordinator: "x"},
		"coordinator":           {answered: true, nodes: []string{"a"}, coordinator: "x"},
		"-":                     {answered: true, nodes: []string{"a"}, coordinator: "a"},
	} {
		require.Equal(t, want, (&slow{sample: s}).touches(bad))
	}
}

func TestAttemptsAreThoseThatWereSent(t *testing.T) {
	did := func(times float64) harness.Doing {
		d := harness.Doing{}
		d.Add(harness.Doing{
			harness.DoesHedges:    {"won": 1, "lost": 2, "over_budget": 50},
			harness.DoesFailovers: {"partial": 7, "unreachable": 100},
		}, times)
		return d
	}
	m := &measurement{stage: &stage{}}
	m.Cluster = &harness.Cluster{}
	all := m.count(map[string]counters{"a": {searches: 100, did: did(1), records: 1}}, map[string]counters{"a": {searches: 200, did: did(3), records: 4}})
	require.Equal(t, map[string]counted{"a": {attempts: 1.2, records: 3}}, all, "to an unreachable node nothing was sent")
}
