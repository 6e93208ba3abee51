package selection

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	fullService = 20 * time.Millisecond // of 100 shard queries a second, on two processors
	idleService = 10 * time.Millisecond
)

// Of the copies that are listed the engine draws lots, of all copies it spares those on busy nodes.
// So no list sends more to a full node for one that takes no longer.
func TestNoListSendsMoreToFullNodesForOneThatIsAsFast(t *testing.T) {
	const same, longer = 20, 21 // ms; the others take 20
	answers := func(ms float64, change func(*Selector, *Node)) func(*Selector, *Node) {
		return func(s *Selector, n *Node) {
			change(s, n)
			n.SetResponse(ms)
		}
	}
	avoided := func(_ *Selector, n *Node) { n.health.avoid.Store(true) }
	var busy, other *Node
	eject := func(s *Selector, n *Node, as State) { s.eject(n, as, s.since(at(time.Second)), "a test") }
	slow := func(s *Selector, n *Node) { eject(s, n, Slow) }
	begins := func(s *Selector, n *Node) { s.slowStart(n, s.since(at(time.Second))) }
	probed := func(took float64) func(*Selector, *Node) {
		return func(s *Selector, n *Node) {
			avoided(s, n)
			n.probe.took.Set(took)
		}
	}
	for name, c := range map[string]struct {
		others  time.Duration
		degrade func(*Selector, *Node)
		reason  Reason
	}{
		"avoided, as fast":       {fullService, answers(same, avoided), NoOutlier},
		"avoided, slower":        {fullService, answers(longer, avoided), Ranked},
		"avoided, others idle":   {idleService, answers(same, avoided), Ranked},
		"avoided, nothing known": {fullService, avoided, Ranked},
		"ejected, as fast":       {fullService, answers(same, slow), NoOutlier},
		"ejected, slower":        {fullService, answers(longer, slow), Ranked},
		"avoided, another fails": {fullService, answers(same, func(s *Selector, n *Node) { avoided(s, n); eject(s, other, Failing) }), Ranked},
		"avoided, slower probes": {fullService, answers(same, probed(longer)), Ranked},
		"answers no probe":       {fullService, answers(same, probed(millis(ProbeTimeout))), Ranked},
		"answers no probe, others slow": {fullService, answers(same, func(s *Selector, n *Node) {
			probed(millis(ProbeTimeout))(s, n)
			busy.SetResponse(2 * millis(ProbeTimeout))
		}), Ranked},
		"is silent": {fullService, answers(same, func(s *Selector, n *Node) {
			n.asking.sentAt.Store(s.since(at(time.Second)))
			n.asking.silent.Store(true)
		}), Ranked},
		"is about to leave": {fullService, answers(same, func(s *Selector, n *Node) { s.Leave(n, at(time.Minute)) }), Ranked},
		"slow start, avoided": {fullService, answers(longer, func(s *Selector, n *Node) {
			begins(s, n)
			avoided(s, n)
		}), Ranked},
		"slow start, slower":      {fullService, answers(longer, begins), NoOutlier},
		"slow start, others idle": {idleService, answers(longer, begins), Ranked},
	} {
		t.Run(name, func(t *testing.T) {
			s, nodes := withProcessors(t, 5)
			served(s, nodes[:1], 50, idleService, time.Second)
			served(s, nodes[1:2], 100, c.others, time.Second)
			served(s, nodes[2:], 50, idleService, time.Second)
			for _, n := range nodes[1:] {
				n.SetResponse(20)
			}
			busy, other = nodes[1], nodes[3]
			c.degrade(s, nodes[0])
			d := decide(s, nodes, time.Second)
			require.Equal(t, c.reason, d.Reason)
			require.Equal(t, c.reason == NoOutlier, nodes[0].in(d.Nodes), "whoever the engine picks is among the candidates")
			for range 20 {
				require.NotSame(t, nodes[0], decide(s, nodes, time.Second).Coordinator)
			}
		})
	}
}

// What the engine chooses copies for is coordinated by roundSize usable nodes of the own zone, in
// turn, the same ones each time, those with copies among them. What sidestep chose copies for, and
// one shard, is coordinated by those with a copy.
func TestOthersCoordinateWhatTheEngineChoosesCopiesFor(t *testing.T) {
	for _, c := range []struct{ count, local, want int }{
		{5 * roundSize, 5 * roundSize, roundSize}, {5 * roundSize, 2 * roundSize, roundSize}, {12, 12, 11}, {12, 10, 9}, {4, 4, 3},
	} {
		s, err := New(Options{Policy: "adaptive", Epoch: epoch, Zone: "own", ZoneFactor: 2})
		require.NoError(t, err)
		infos := []NodeInfo{{ID: "0 manager", Zone: "own", NoData: true}}
		for i := range c.count {
			infos = append(infos, NodeInfo{ID: fmt.Sprintf("1 %03d", i), Zone: map[bool]string{true: "own", false: "other"}[i < c.local]})
		}
		nodes := s.Update(infos)
		setTimes(nodes, 5, 3)
		for _, n := range nodes {
			n.SetRate(1)
		}
		left, others, steered := map[int]int{}, map[int]int{}, map[int]int{}
		another, err := New(Options{Policy: "adaptive", Epoch: epoch, Zone: "own", ZoneFactor: 2, Seed: 17})
		require.NoError(t, err)
		again := another.Update(infos)
		setTimes(again, 5, 3)
		for _, all := range [][]*Node{nodes, again} {
			all[4].health.avoid.Store(true)
		}
		for range 100 * c.want {
			d := &Decision{}
			s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{1, 2}, {2, 3}}, Outliers: true}, at(time.Second))
			require.Equal(t, NoOutlier, d.Reason)
			left[slices.Index(nodes, d.Coordinator)]++
			another.Choose(d, Request{Nodes: again, Shards: [][]int{{1, 2}, {2, 3}}, Outliers: true}, at(time.Second))
			others[slices.Index(again, d.Coordinator)]++
		}
		require.Len(t, left, c.want)
		require.Equal(t, slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(others)), "every client sends through the same nodes")
		require.Subset(t, slices.Collect(maps.Keys(left)), []int{1, 2, 3})
		for i, n := range left {
			require.InDelta(t, 100, n, 1, "node %d of %v", i, left)
			require.Equal(t, "own", nodes[i].Zone)
		}
		for range 100 {
			steered[slices.Index(nodes, choose(s, nodes, [][]int{{1, 2}, {2, 3}}, at(time.Second)).Coordinator)]++
			d := &Decision{}
			s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{1, 2}}, Outliers: true}, at(time.Second))
			require.Equal(t, NoOutlier, d.Reason, "others send more")
			steered[slices.Index(nodes, d.Coordinator)]++
		}
		require.Subset(t, []int{1, 2, 3}, slices.Sorted(maps.Keys(steered)))
	}
}

// No second attempt goes to a full node, unless one of the first was ejected meanwhile.
func TestNoSecondAttemptGoesToAFullNodeWithoutAnEjection(t *testing.T) {
	speaks := map[string]func(*Selector, *Node){
		"avoided":          func(_ *Selector, n *Node) { n.health.avoid.Store(true) },
		"answers no probe": func(_ *Selector, n *Node) { n.health.avoid.Store(true); n.probe.took.Set(millis(ProbeTimeout)) },
		"ejected":          func(s *Selector, n *Node) { s.eject(n, Slow, s.since(at(2*time.Second)), "a test") },
	}
	for service, full := range map[time.Duration]bool{idleService: false, fullService: true} {
		for name, speak := range speaks {
			s, nodes := withProcessors(t, 4)
			served(s, nodes[:1], 50, idleService, time.Second)
			served(s, nodes[1:2], 100, service, time.Second)
			served(s, nodes[2:], 50, idleService, time.Second)
			first := choose(s, nodes, [][]int{{0}, {1}, {2}, {3}}, at(time.Second))
			s.Acquire(first, at(time.Second))
			second := choose(s, nodes, [][]int{{1}, {2}, {3}}, at(2*time.Second))
			require.False(t, s.Worthwhile(first, second, at(2*time.Second)), "nothing speaks against the first")
			speak(s, nodes[0])
			require.Equal(t, !full || name == "ejected", s.Worthwhile(first, second, at(2*time.Second)), "%s, full: %t", name, full)
		}
	}
}
