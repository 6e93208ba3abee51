package selection

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/stats"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newTest returns a selector with n nodes named a, b, c … that all answered a poll.
func newTest(t testing.TB, n int) (*Selector, []*Node) {
	t.Helper()
	s := New(Options{Clients: 1, Seed: 1, Epoch: epoch})
	infos := make([]NodeInfo, n)
	for i := range infos {
		infos[i] = NodeInfo{ID: "id-" + string(rune('a'+i)), Name: string(rune('a' + i))}
	}
	nodes := s.Update(infos, epoch)
	for _, node := range nodes {
		s.ObservePoll(node.ID, Poll{State: Fine}, epoch)
	}
	return s, nodes
}

// infosOf returns what the selector was told of nodes.
func infosOf(nodes []*Node) []NodeInfo {
	infos := make([]NodeInfo, len(nodes))
	for i, n := range nodes {
		infos[i] = n.NodeInfo
	}
	return infos
}

// ring lays shards out so that shard i has its copies on nodes i, i+1, …
func ring(shards, copies, nodes int) [][]int {
	out := make([][]int, shards)
	for i := range out {
		for j := range copies {
			out[i] = append(out[i], (i+j)%nodes)
		}
	}
	return out
}

// newBusy returns n nodes of four CPUs each, of which each answers so many shard queries of 3 ms in a ms.
func newBusy(t testing.TB, n int, rate float64) (*Selector, []*Node) {
	t.Helper()
	s, nodes := newTest(t, n)
	setTimes(nodes, 5, 3)
	for _, n := range nodes {
		n.Processors = 4
		set(&n.rate, rate)
	}
	return s, nodes
}

// setTimes gives every node the same numbers, then node slow a response time of its own.
func setTimes(nodes []*Node, response, service float64) {
	for _, n := range nodes {
		n.response.Observe(response)
		n.service.Observe(service)
	}
}

func set(e *stats.EWMA, v float64) {
	*e = stats.EWMA{}
	e.Observe(v)
}

func choose(s *Selector, nodes []*Node, shards [][]int, now time.Time, avoid ...*Node) *Decision {
	d := &Decision{}
	s.Choose(d, Request{Nodes: nodes, Shards: shards, Avoid: avoid}, now)
	return d
}

func names(d *Decision) string {
	var out string
	for _, n := range d.Nodes {
		out += n.Name
	}
	return out
}

func TestRankIsTheTimeUntilAShardQueryIsDone(t *testing.T) {
	require.InDelta(t, 5*1, Parts{ResponseTime: 5, ServiceTime: 1, Queue: 4}.Rank(1), 1e-9)
	require.InDelta(t, 5*50, Parts{ResponseTime: 100, ServiceTime: 50, Queue: 4}.Rank(1), 1e-9)
	require.InDelta(t, 7*1, Parts{ResponseTime: 5, ServiceTime: 1, Queue: 4, Outstanding: 1}.Rank(2), 1e-9)
}

func TestRankGrowsWithEveryPart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := Parts{
			ResponseTime: r.Float64() * 1000, ServiceTime: r.Float64() * 100, Queue: r.Float64() * 50,
			Outstanding: r.Float64() * 50,
		}
		base := p.Rank(1)
		for name, grow := range map[string]func(*Parts){
			"service time": func(p *Parts) { p.ServiceTime += 1 + r.Float64()*100 },
			"queue":        func(p *Parts) { p.Queue += 1 + r.Float64()*10 },
			"outstanding":  func(p *Parts) { p.Outstanding += 1 + r.Float64()*10 },
		} {
			q := p
			grow(&q)
			require.GreaterOrEqual(t, q.Rank(1), base, "rank must not fall with %s: %+v → %+v", name, p, q)
		}
		require.Greater(t, Parts{ServiceTime: p.ServiceTime + 1, Queue: p.Queue}.Rank(1), Parts{ServiceTime: p.ServiceTime, Queue: p.Queue}.Rank(1))
	}
}

func TestSlowNodeIsKeptOutWhileShardsKeepACopy(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.eject(nodes[2], Slow, 1, "a test")
	for range 20 {
		d := choose(s, nodes, ring(5, 2, 5), epoch)
		require.Equal(t, Ranked, d.Reason)
		require.Equal(t, "abde", names(d))
		require.NotEqual(t, nodes[2], d.Coordinator)
	}
}

func TestLoneCopyIsChosenHoweverSlow(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	set(&nodes[0].response, 10_000)
	d := choose(s, nodes, [][]int{{0}, {1, 2}}, epoch)
	require.Contains(t, d.Nodes, nodes[0])
	require.Equal(t, Ranked, d.Reason)
	d = choose(s, nodes, [][]int{{0}, {1}}, epoch)
	require.Equal(t, NoChoice, d.Reason)
	require.Equal(t, "ab", names(d))
}

func TestEqualNodesAreAllListed(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	require.Equal(t, "abcde", names(choose(s, nodes, ring(5, 2, 5), epoch)))
}

func TestOneShardGoesToTheBestCopyExactly(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	set(&nodes[1].service, 2.9)
	for range 6 {
		d := choose(s, nodes, [][]int{{0, 1, 2}}, epoch)
		require.Equal(t, "b", names(d))
		require.Equal(t, nodes[1], d.Coordinator, "the copy itself coordinates: no hop")
	}
}

func TestOneShardTiesTakeTurns(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	counts := map[string]int{}
	for range 300 {
		counts[names(choose(s, nodes, [][]int{{0, 1, 2}}, epoch))]++
	}
	require.Equal(t, map[string]int{"a": 100, "b": 100, "c": 100}, counts)
}

func TestNodesThatServedNothingTakeTurns(t *testing.T) {
	s, nodes := newTest(t, 3)
	counts := map[string]int{}
	for range 300 {
		d := choose(s, nodes, [][]int{{0, 1, 2}}, epoch)
		require.Equal(t, NoStatistics, d.Reason)
		counts[names(d)]++
	}
	require.Equal(t, map[string]int{"a": 100, "b": 100, "c": 100}, counts)

	var d Decision
	s.Choose(&d, Request{Nodes: nodes, Shards: [][]int{{0, 1}, {1, 2}}, Outliers: true}, epoch)
	require.Equal(t, NoOutlier, d.Reason, "where lists are only made because of outliers there is none")
}

func TestNewNodeIsNeitherFloodedNorStarved(t *testing.T) {
	s, nodes := newTest(t, 4)
	for i, n := range nodes[:3] {
		set(&n.response, 100)
		set(&n.service, []float64{5, 20, 100}[i])
	}
	d := choose(s, nodes, [][]int{{0, 3}, {1, 3}, {2, 3}}, epoch)
	require.Equal(t, "abd", names(d), "the new node ranks with the median: worse than the best, better than the worst")
}

func TestUnreachableNodesAreLeftOut(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 20, 20)
	shards := [][]int{{0, 1}, {0, 2}}
	s.ObservePoll(nodes[0].ID, Poll{State: Unreachable, Message: "no answer"}, epoch)
	require.Equal(t, "bc", names(choose(s, nodes, shards, epoch)))
	require.Equal(t, "no answer", s.Figures(nodes[0], epoch).LastError.Message)
	require.Empty(t, s.Probes(nil, epoch))
	s.ObservePoll(nodes[0].ID, Poll{State: Fine}, epoch)
	require.Equal(t, "slow", nodes[0].State().String(), "it has to answer probes first")
	require.Equal(t, "was unreachable", s.Figures(nodes[0], epoch).Why)
	answerProbes(s, nodes, 0, firstHold+time.Second, answeredWell)
	require.Equal(t, "ramping", nodes[0].State().String())
	set(&nodes[0].service, 0.5)
	set(&nodes[0].response, 5)
	require.Equal(t, "a", names(choose(s, nodes, shards, at(firstHold+time.Second+SlowStart))))
}

func TestFailsOpenWhenEveryCopyIsUnreachable(t *testing.T) {
	s, nodes := newTest(t, 4)
	setTimes(nodes, 5, 3)
	for _, n := range nodes[:2] {
		s.ObservePoll(n.ID, Poll{State: Unreachable}, epoch)
	}
	d := choose(s, nodes, [][]int{{0, 1}, {2, 3}}, epoch)
	require.Equal(t, FailOpen, d.Reason)
	require.Equal(t, "abcd", names(d))
	d = choose(s, nodes, [][]int{{0, 1}}, epoch)
	require.Equal(t, FailOpen, d.Reason)
	require.Equal(t, "ab", names(d))
}

func TestAvoidedNodesAreLeftOutWhilePossible(t *testing.T) {
	s, nodes := newTest(t, 3)
	setTimes(nodes, 5, 3)
	require.Equal(t, "bc", names(choose(s, nodes, [][]int{{0, 1}, {0, 2}}, epoch, nodes[0])))
	require.Equal(t, "abc", names(choose(s, nodes, [][]int{{0}, {0, 1}, {1, 2}}, epoch, nodes[0])))
}

func TestPreviewChangesNothing(t *testing.T) {
	s, nodes := newTest(t, 2)
	setTimes(nodes, 5, 3)
	set(&nodes[0].response, 300)
	s.eject(nodes[0], Slow, 1, "a test")
	for _, n := range nodes {
		n.Processors = 1
		set(&n.rate, 1)
	}
	for range 100 {
		s.Preview(&Decision{}, Request{Nodes: nodes, Shards: [][]int{{0, 1}, {0, 1}}}, epoch.Add(time.Minute))
	}
	r, _ := nodes[0].response.Value()
	require.InDelta(t, 300, r, 1e-9)
	require.Zero(t, s.turn.Load())
	require.Zero(t, nodes[0].neededAt.Load())
	require.False(t, nodes[0].slowEverywhere.Load())
}

// A manager holds no copies and coordinates no search, however slow the other nodes are.
func TestManagersCoordinateNoSearch(t *testing.T) {
	s, nodes := withManagers(t, 2, 1)
	setTimes(nodes[:2], 5, 3)
	for range 20 {
		for _, n := range nodes[:2] {
			s.ObservePoll(n.ID, Poll{State: Fine, Took: 400 * time.Millisecond}, at(time.Second))
		}
		s.ObservePoll(nodes[2].ID, Poll{State: Fine, Took: time.Millisecond}, at(time.Second))
		require.False(t, choose(s, nodes, [][]int{{0, 1}, {0, 1}}, at(time.Second)).Coordinator.NoData)
	}
}

func TestCoordinatorsHTTPSideIsPolled(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	polls := func(slow time.Duration, n int) {
		for range n {
			for i, node := range nodes {
				took := 4 * time.Millisecond
				if i == 2 {
					took = slow
				}
				s.ObservePoll(node.ID, Poll{State: Fine, Took: took}, epoch)
			}
		}
	}
	share := func() (n int) {
		for range 100 {
			if choose(s, nodes, ring(5, 2, 5), epoch).Coordinator == nodes[2] {
				n++
			}
		}
		return n
	}
	polls(4*time.Millisecond, 1)
	require.InDelta(t, 20, share(), 10)
	polls(300*time.Millisecond, 1)
	require.Zero(t, share(), "slow HTTP: listed, but not coordinating")
	require.Contains(t, choose(s, nodes, ring(5, 2, 5), epoch).Nodes, nodes[2])
	polls(4*time.Millisecond, 20)
	require.InDelta(t, 20, share(), 10, "well again, found by polls alone")
}

// A list names the best copy of each shard, and those that are worse by 5 ms at most. Of the copies listed the engine draws lots, so
// one that takes longer would get as much as the best. All shards share the list.
func TestAListNamesTheBestCopiesAndThoseNearThem(t *testing.T) {
	for _, c := range []struct {
		ranks  [4]float64 // ms
		shards [][]int
		want   string
	}{
		{[4]float64{10, 14.9, 15.1, 100}, [][]int{{0, 1, 2}, {0, 1, 2}}, "ab"},
		{[4]float64{100, 250, 90, 400}, [][]int{{0, 1}, {2, 3}}, "ac"},
		{[4]float64{0.5, 5, 6, 6}, [][]int{{0, 1}, {0, 2}}, "ab"},
		{[4]float64{10, 100, 200, 200}, [][]int{{0, 1}, {1, 2}}, "ab"},
	} {
		for _, summed := range []bool{false, true} {
			s, nodes := newTest(t, len(c.ranks))
			for i, rank := range c.ranks {
				set(&nodes[i].service, rank)
			}
			req := Request{Nodes: nodes, Shards: c.shards}
			if summed {
				req = outlined(req)
			}
			d := &Decision{}
			s.Choose(d, req, epoch)
			require.Equal(t, c.want, names(d), "%v, summed up %v", c.ranks, summed)
		}
	}
}
