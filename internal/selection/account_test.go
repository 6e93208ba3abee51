package selection

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// accountOf decides about shards and tells of it.
func accountOf(s *Selector, nodes []*Node, shards [][]int, now time.Time, change func(*Request)) (*Decision, Account) {
	d, req := &Decision{}, Request{Nodes: nodes, Shards: shards, Outliers: true}
	if change != nil {
		change(&req)
	}
	s.Choose(d, req, now)
	return d, s.Account(d, req, 100, now)
}

// about returns what an account says of a node.
func about(t *testing.T, a Account, name string) Candidate {
	t.Helper()
	for _, c := range a.Candidates {
		if c.Node == name {
			return c
		}
	}
	require.Fail(t, "no candidate "+name)
	return Candidate{}
}

func TestAccountOfWhatIsLeftToTheEngine(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	set(&nodes[3].response, 20)
	_, a := accountOf(s, nodes, ring(5, 2, 5), epoch, nil)
	require.Equal(t, NoOutlier, a.Reason)
	require.InDelta(t, 45, *a.Limit, 1e-9)
	require.InDelta(t, 5, *a.Median, 1e-9)
	require.Equal(t, "Left to the engine's own selection: no node stands out. A node stands out from 45.0 ms on (3 × the median of 5.0 ms + 30 ms; "+
		"without the wait in its own queue), or when it is silent for that much longer than the others, fails, or does not answer probes or polls; from half of that on copies are listed. The slowest is d with 20.0 ms.", a.Summary)
	require.Len(t, a.Candidates, 5)
	for _, c := range a.Candidates {
		require.True(t, c.Listed)
		require.Equal(t, NotExcluded, c.Excluded)
		require.Empty(t, c.Why)
		require.InDelta(t, 2, c.ShardQueries, 1, c.Node)
	}
}

// What was measured stays as it was when it was decided.
func TestAccountIsOfThen(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	set(&nodes[2].response, 300)
	set(&nodes[2].queue, 1)
	d, req := &Decision{}, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}
	s.Choose(d, req, epoch)
	then := s.Account(d, req, 100, epoch)
	for _, n := range nodes {
		set(&n.response, 9000)
	}
	now := s.Account(d, req, 100, at(time.Second))
	require.Equal(t, then.Candidates[0].Parts, now.Candidates[0].Parts)
	require.Equal(t, then.Limit, now.Limit)

	c := then.Candidates[0]
	require.Equal(t, "c", c.Node, "what something speaks against comes first")
	require.False(t, c.Listed)
	require.Equal(t, OverLimit, c.Excluded)
	require.InDelta(t, 297, c.Unqueued, 1e-9)
	require.InDelta(t, 2, c.QueueEstimate, 1e-9)
	require.InDelta(t, 24, c.QueueCost, 1e-9)
	require.InDelta(t, c.Parts.Rank(1), c.Rank, 1e-9)
	require.InDelta(t, c.Parts.ResponseTime-c.Parts.ServiceTime+c.QueueCost, c.Rank, 1e-9, "the parts add up")
	require.Equal(t, "response time 300.0 ms, 297.0 ms without the wait in its queue, is above the limit of 45.0 ms", c.Why)
	require.Equal(t, "4 of 5 nodes with a copy are listed, as c is to be kept out. Left out: c: "+c.Why+".", then.Summary)
	require.Zero(t, c.ShardQueries)

	_, next := accountOf(s, nodes, ring(5, 2, 5), at(time.Millisecond), nil)
	c = about(t, next, "c")
	require.Equal(t, KeptSlow, c.Excluded)
	require.Contains(t, c.Why, "kept out (response time 297 ms")
	require.Equal(t, Bound{Out: 1, AtMost: 2, Nodes: 5}, s.Bound())
}

func TestAccountOfOneShard(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 3)
	teach(nodes, 5, 3)
	set(&nodes[1].response, 9)
	_, a := accountOf(s, nodes, [][]int{{0, 1}}, epoch, nil)
	require.Equal(t, "One shard is searched, so its best copy is named: a, rank 5.0; b has 9.0: another copy of the shard ranks better.", a.Summary)
	require.Equal(t, RanksWorse, about(t, a, "b").Excluded)
}

// exclusionCase is a change to five nodes, or to the request, that excludes node c.
type exclusionCase struct {
	want   Exclusion
	listed bool
	why    string
	change func(s *Selector, nodes []*Node, r *Request)
}

// moment is when they are decided about, in ns after the epoch.
const moment = int64(time.Second)

func tooSlow(n *Node) { set(&n.response, 300) }

// keptOut are of nodes that are kept out.
func keptOut() []exclusionCase {
	return []exclusionCase{
		{GoneUnreachable, false, "refused or reset (no route)", func(s *Selector, _ []*Node, _ *Request) {
			s.ObservePoll("id-c", Poll{State: Unreachable, Message: "no route"}, at(time.Second))
		}},
		{GoneUnresponsive, false, "did not answer the last poll", func(s *Selector, _ []*Node, _ *Request) {
			s.ObservePoll("id-c", Poll{State: Unresponsive}, at(time.Second))
		}},
		{FailedBefore, false, "failed this very search", func(_ *Selector, nodes []*Node, r *Request) { r.Avoid = nodes[2:3] }},
		{KeptSlow, false, "kept out (a test)", func(s *Selector, nodes []*Node, _ *Request) { s.accuse(nodes[2], Slow, moment, "a test") }},
		{KeptFailing, false, "kept out (2 failures in a row)", func(s *Selector, nodes []*Node, _ *Request) {
			s.fail(nodes[2], moment, nil)
			s.fail(nodes[2], moment, nil)
			nodes[2].health.late.Store(moment)
		}},
		{NotItsTurn, false, "its share grows within 3 s", func(_ *Selector, nodes []*Node, _ *Request) { nodes[2].startRamp(moment) }},
		{Suspected, false, "has not answered a probe", func(s *Selector, nodes []*Node, _ *Request) {
			nodes[2].probe.sent.Store(moment / 2)
			nodes[2].probe.via.Store(nodes[0])
			s.probedAt.Store(moment)
		}},
		{OverLimit, false, "above the limit of 45.0 ms; it is passed over but not kept out, as 2 of 5 nodes are already and no more than 2 may be", func(s *Selector, nodes []*Node, _ *Request) {
			s.accuse(nodes[0], Slow, moment, "a test")
			s.accuse(nodes[4], Slow, moment, "a test")
			tooSlow(nodes[2])
		}},
		{Quiet, false, "it has answered nothing for 400 ms, the others for 100 ms", func(_ *Selector, nodes []*Node, _ *Request) {
			for i, silence := range map[int]time.Duration{0: 100 * time.Millisecond, 2: 400 * time.Millisecond} {
				nodes[i].outstanding.Store(1)
				nodes[i].progressAt.Store(moment - int64(silence))
			}
		}},
	}
}

// notKeptOut are of nodes that may be listed, and of copies beside better ones.
func notKeptOut() []exclusionCase {
	return []exclusionCase{
		{Spared, true, "it is slow, but the others have 100.0 searches each in their queues", func(s *Selector, nodes []*Node, _ *Request) {
			s.accuse(nodes[2], Slow, moment, "a test")
			nodes[2].probe.answered.Store(moment)
			for _, n := range nodes {
				set(&n.queue, 100)
			}
		}},
		{Needed, true, "above the limit of 39.0 ms, but the others could not carry its load", func(_ *Selector, nodes []*Node, _ *Request) {
			tooSlow(nodes[2])
			for _, n := range nodes {
				set(&n.queue, 2)
			}
		}},
		{TooMany, true, "but so is more than a third", func(_ *Selector, nodes []*Node, r *Request) {
			tooSlow(nodes[2])
			tooSlow(nodes[3])
			r.Shards = ring(4, 2, 4)
		}},
		{OtherZone, false, "own zone", func(s *Selector, nodes []*Node, _ *Request) {
			s.zone, s.factor = "here", 1.5
			for _, n := range nodes {
				n.Zone = "here"
			}
			nodes[2].Zone = "there"
		}},
		{RanksWorse, false, "ranks better", func(_ *Selector, nodes []*Node, r *Request) {
			set(&nodes[2].response, 40)
			r.Outliers = false
		}},
		{OtherSticks, false, "affinity names another copy", func(_ *Selector, nodes []*Node, r *Request) {
			for r.Sticky = true; r.Affinity == 0 || rendezvous(r.Affinity, "id-c") > min(rendezvous(r.Affinity, "id-b"), rendezvous(r.Affinity, "id-d")); r.Affinity++ {
				continue // to a key that has c in second place
			}
		}},
	}
}

func TestEveryExclusionIsAccountedFor(t *testing.T) {
	covered := map[Exclusion]bool{}
	for _, c := range append(keptOut(), notKeptOut()...) {
		covered[c.want] = true
		t.Run(c.want.String(), func(t *testing.T) {
			s, nodes := newTest(t, "adaptive", 5)
			teach(nodes, 5, 3)
			_, a := accountOf(s, nodes, ring(5, 2, 5), at(time.Second), func(r *Request) { c.change(s, nodes, r) })
			got := about(t, a, "c")
			require.Equal(t, c.want, got.Excluded, "%+v", a)
			require.Contains(t, got.Why, c.why)
			require.Equal(t, c.listed, got.Listed)
			require.NotEmpty(t, a.Summary)
			text, err := json.Marshal(a)
			require.NoError(t, err)
			require.Contains(t, string(text), `"excluded":"`+c.want.String()+`"`)
		})
	}
	for _, e := range Exclusions() {
		require.True(t, covered[e], e.String())
	}
}

func TestAccountOfFailingOpen(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	s.accuse(nodes[2], Slow, 1, "a test")
	_, a := accountOf(s, nodes, [][]int{{0, 1}, {2}, {3, 4}}, at(time.Millisecond), nil)
	c := about(t, a, "c")
	require.True(t, c.Listed)
	require.Equal(t, KeptSlow, c.Excluded)
	require.Contains(t, c.Why, "kept out (a test); listed all the same")
	for _, id := range []string{"id-a", "id-b"} {
		s.ObservePoll(id, Poll{State: Unreachable, Message: "gone"}, at(time.Millisecond))
	}
	_, a = accountOf(s, nodes, ring(5, 2, 5), at(time.Millisecond), nil)
	require.Equal(t, FailOpen, a.Reason)
	require.Contains(t, a.Summary, "so all its copies are listed")
}

// Every policy can be accounted for, with and without statistics.
func TestAccountOfEveryPolicy(t *testing.T) {
	for _, policy := range Policies() {
		s, nodes := newTest(t, policy, 3)
		for range 2 {
			d, a := accountOf(s, nodes, ring(3, 2, 3), epoch, nil)
			require.Equal(t, d.Reason, a.Reason)
			require.NotEmpty(t, a.Summary)
			require.Equal(t, policy == "adaptive" && a.Candidates[0].Measured, a.Limit != nil, policy)
			_, err := json.Marshal(a)
			require.NoError(t, err, policy)
			teach(nodes, 5, 3)
		}
	}
}

func TestAccountIsBounded(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 20)
	teach(nodes, 5, 3)
	set(&nodes[19].response, 300)
	d, req := &Decision{}, Request{Nodes: nodes, Shards: ring(20, 2, 20)}
	s.Choose(d, req, epoch)
	a := s.Account(d, req, 4, epoch)
	require.Len(t, a.Candidates, 4)
	require.Equal(t, 16, a.Omitted)
	require.Equal(t, nodes[19].Name, a.Candidates[0].Node)
}

// What an account needs is kept without an allocation.
func TestChoosingAllocatesNothing(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 10)
	teach(nodes, 5, 3)
	var d Decision
	req := Request{Nodes: nodes, Shards: ring(20, 3, 10), Outliers: true}
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Choose(&d, req, epoch) }))
}
