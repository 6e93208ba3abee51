package selection_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/draw"
	. "sidestep/internal/selection" //nolint:revive // the test is of this package and of what shows it
	"sidestep/internal/selection/account"
)

// accountOf decides about shards and tells of it.
func accountOf(s *Selector, nodes []*Node, shards [][]int, now time.Time, change func(*Request)) (*Decision, account.Account) {
	d, req := &Decision{}, Request{Nodes: nodes, Shards: shards, Outliers: true}
	if change != nil {
		change(&req)
	}
	s.Choose(d, req, now)
	return d, account.Of(s, d, req, 100, now)
}

// about returns what an account says of a node.
func about(t *testing.T, a account.Account, name string) account.Candidate {
	t.Helper()
	for _, c := range a.Candidates {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no candidate "+name)
	return account.Candidate{}
}

func TestAccountOfWhatIsLeftToTheEngine(t *testing.T) {
	s, nodes := NewTest(t, 5)
	SetTimes(nodes, 5, 3)
	nodes[3].SetResponse(20)
	_, a := accountOf(s, nodes, Ring(5, 2, 5), Epoch, nil)
	require.Equal(t, NoOutlier, a.Reason)
	require.InDelta(t, 25, *a.Limit, 1e-9)
	require.InDelta(t, 5, *a.Median, 1e-9)
	require.Equal(t, "Left to the engine's own selection: no node stands out. A node is suspect from 25.0 ms on (3 × the median of 5.0 ms + 10 ms; "+
		"without the wait in its own queue). The slowest is d with 20.0 ms.", a.Summary)
	require.Len(t, a.Candidates, 5)
	for _, c := range a.Candidates {
		require.True(t, c.Listed)
		require.Equal(t, NotExcluded, c.Excluded)
		require.Empty(t, c.Why)
		require.InDelta(t, 2, c.ShardQueries, 1, c.Name)
	}
}

// What was measured stays as it was when it was decided.
func TestAccountIsOfThen(t *testing.T) {
	s, nodes := NewTest(t, 5)
	SetTimes(nodes, 5, 3)
	nodes[2].SetResponse(300)
	nodes[2].SetQueue(1)
	d, then := accountOf(s, nodes, Ring(5, 2, 5), Epoch, func(r *Request) { r.Outliers = false })
	req := Request{Nodes: nodes, Shards: Ring(5, 2, 5)}
	for _, n := range nodes {
		n.SetResponse(9000)
	}
	now := account.Of(s, d, req, 100, At(time.Second))
	require.Equal(t, then.Candidates[0].Parts, now.Candidates[0].Parts)
	require.Equal(t, then.Limit, now.Limit)

	c := then.Candidates[0]
	require.Equal(t, "c", c.Name, "what something speaks against comes first")
	require.True(t, c.Listed, "suspicion changes no routing")
	require.Equal(t, OverLimit, c.Excluded)
	require.InDelta(t, 297, c.Unqueued, 1e-9)
	require.InDelta(t, 2, c.QueueEstimate, 1e-9)
	require.InDelta(t, c.Parts.Rank(1), c.Rank, 1e-9)
	require.InDelta(t, c.QueueEstimate*c.ServiceTime, c.Rank, 1e-9, "the parts multiply")
	require.Equal(t, "response time 300.0 ms, 297.0 ms without the wait in its queue, is above the limit of 25.0 ms: its probes are compared with those of its peers", c.Why)
	require.Equal(t, "5 of 5 nodes with a copy are listed, as such requests always are. No node is left out.", then.Summary)
	require.InDelta(t, 1, c.ShardQueries, 1e-9)
	require.Equal(t, Bound{AtMost: 2, Nodes: 5}, s.Bound())
	s.Eject(nodes[2], Slow, 1, "a probe took 300 ms")
	require.Equal(t, Bound{Out: 1, AtMost: 2, Nodes: 5}, s.Bound())
	_, then = accountOf(s, nodes, Ring(5, 2, 5), At(time.Second), nil)
	c = about(t, then, "c")
	require.Zero(t, c.ShardQueries)
	require.Equal(t, "kept out (a probe took 300 ms)", c.Why)
	require.Equal(t, "4 of 5 nodes with a copy are listed, as c is to be kept out. Left out: c: "+c.Why+".", then.Summary)
}

// A node that is coming back, and has its turn, was named in place of the one that is left out.
func TestAccountOfAListNamesWhatIsLeftOut(t *testing.T) {
	s, nodes := NewTest(t, 5)
	SetTimes(nodes, 5, 3)
	s.SlowStart(nodes[0], moment-int64(SlowStart)+1) // its turn in nearly every search
	s.Eject(nodes[2], Slow, moment, "a test")
	_, a := accountOf(s, nodes, Ring(5, 2, 5), At(time.Second), nil)
	require.Contains(t, a.Summary, "4 of 5 nodes with a copy are listed, as c is to be kept out.")
}

func TestAccountOfOneShard(t *testing.T) {
	s, nodes := NewTest(t, 3)
	SetTimes(nodes, 5, 3)
	nodes[1].SetService(9)
	_, a := accountOf(s, nodes, [][]int{{0, 1}}, Epoch, nil)
	require.Equal(t, "One shard is searched, so its best copy is named: a, rank 3.0; b has 9.0: another copy of the shard ranks better.", a.Summary)
	require.Equal(t, RanksWorse, about(t, a, "b").Excluded)
}

// exclusionCase is a change to five nodes, or to the request, that excludes node c.
type exclusionCase struct {
	want   Exclusion
	listed bool
	why    string
	change func(s *Selector, nodes []*Node, r *Request)
}

// moment is when they are decided about, in ns after the Epoch.
const moment = int64(time.Second)

func tooSlow(n *Node) { n.SetResponse(300) }

// keptOut are of nodes that are kept out.
func keptOut() []exclusionCase {
	return []exclusionCase{
		{GoneUnreachable, true, "refused or reset, or something else answered (no route); left to the engine all the same", func(s *Selector, _ []*Node, _ *Request) {
			s.ObservePoll("id-c", Poll{State: Unreachable, Message: "no route"}, At(time.Second))
		}},
		{FailedBefore, false, "failed this very search", func(_ *Selector, nodes []*Node, r *Request) { r.Avoid = nodes[2:3] }},
		{KeptSlow, false, "kept out (a test)", func(s *Selector, nodes []*Node, _ *Request) { s.Eject(nodes[2], Slow, moment, "a test") }},
		{KeptFailing, true, "kept out (2 failures in a row); left to the engine all the same", func(s *Selector, nodes []*Node, _ *Request) {
			s.Fail(nodes[2], moment)
			s.Fail(nodes[2], moment)
		}},
		{NotItsTurn, false, "its share grows within 3 s", func(s *Selector, nodes []*Node, _ *Request) { s.SlowStart(nodes[2], moment) }},
		{Suspected, false, "its last probe took far longer than those of its peers", func(s *Selector, nodes []*Node, _ *Request) {
			SuspectNodes(s, nodes, time.Second/2, 1, Late(300*time.Millisecond, nodes[2]))
		}},
		{KeptSlow, true, "kept out (a test); left to the engine all the same, as a list would be no better", func(s *Selector, nodes []*Node, _ *Request) {
			s.Eject(nodes[2], Slow, moment, "a test")
			s.Eject(nodes[3], Slow, moment, "a test")
		}},
		{Leaving, false, "an operator said that it is about to leave (sidestep drain), until 00:01:00 UTC", func(s *Selector, nodes []*Node, _ *Request) {
			s.Leave(nodes[2], At(time.Minute))
		}},
		{Leaving, false, "it is about to leave: the cluster excludes it from allocation", func(_ *Selector, nodes []*Node, _ *Request) { nodes[2].Announced = "excluded" }},
		{Leaving, false, "it is about to leave: the cluster decommissions its zone", func(_ *Selector, nodes []*Node, _ *Request) { nodes[2].Announced = "decommissioned" }},
		{Leaving, false, "it is about to leave: the cluster is told of its shutdown", func(_ *Selector, nodes []*Node, _ *Request) { nodes[2].Announced = "shutdown" }},
	}
}

// notKeptOut are of nodes that may be listed, and of copies beside better ones.
func notKeptOut() []exclusionCase {
	return []exclusionCase{
		{Needed, true, "ejected (a test), but the others have more than they can carry", func(s *Selector, nodes []*Node, _ *Request) {
			s.Eject(nodes[2], Slow, moment, "a test")
			for _, n := range nodes {
				n.Processors = 1
				n.SetRate(0.3)
			}
		}},
		{OverLimit, true, "above the limit of 25.0 ms: its probes are compared", func(_ *Selector, nodes []*Node, _ *Request) { tooSlow(nodes[2]) }},
		{OtherZone, false, "own zone", func(s *Selector, nodes []*Node, _ *Request) {
			s.SetZone("here", 1.5)
			for _, n := range nodes {
				n.Zone = "here"
			}
			nodes[2].Zone = "there"
		}},
		{RanksWorse, false, "ranks better", func(_ *Selector, nodes []*Node, r *Request) {
			nodes[2].SetService(22)
			r.Outliers = false
		}},
		{OtherSticks, false, "affinity names another copy", func(_ *Selector, nodes []*Node, r *Request) {
			for r.Sticky = true; r.Affinity == 0 || draw.Score(r.Affinity, "id-c") > min(draw.Score(r.Affinity, "id-b"), draw.Score(r.Affinity, "id-d")); r.Affinity++ {
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
			s, nodes := NewTest(t, 5)
			SetTimes(nodes, 5, 3)
			_, a := accountOf(s, nodes, Ring(5, 2, 5), At(time.Second), func(r *Request) { c.change(s, nodes, r) })
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
	for e := NotExcluded + 1; e <= GoneUnreachable; e++ {
		require.True(t, covered[e], e.String())
	}
}

func TestAccountOfANodeThatFailsAtOnce(t *testing.T) {
	s, nodes := NewTest(t, 5)
	SetTimes(nodes, 5, 3)
	for range 2 {
		s.Fail(nodes[2], moment)
	}
	d, a := accountOf(s, nodes, Ring(5, 2, 5), At(2*time.Second), nil)
	require.Equal(t, NoOutlier, d.Reason)
	require.Contains(t, a.Summary, "where c fails, at once, the next copy is asked")
	require.Contains(t, about(t, a, "c").Why, "It coordinates nothing")
}

func TestAccountOfFailingOpen(t *testing.T) {
	s, nodes := NewTest(t, 5)
	SetTimes(nodes, 5, 3)
	s.Eject(nodes[2], Slow, 1, "a test")
	shards := [][]int{{0, 1}, {2}, {3, 4}}
	_, a := accountOf(s, nodes, shards, At(time.Millisecond), nil)
	require.Equal(t, NoGain, a.Reason)
	require.Contains(t, a.Summary, "c should be kept out, but a list would be no better: it would have to use this node, or another slow one")
	_, a = accountOf(s, nodes, shards, At(time.Millisecond), func(r *Request) { r.Outliers = false })
	c := about(t, a, "c")
	require.True(t, c.Listed)
	require.Equal(t, KeptSlow, c.Excluded)
	require.Contains(t, c.Why, "kept out (a test); listed all the same")
	for _, id := range []string{"id-a", "id-b"} {
		s.ObservePoll(id, Poll{State: Unreachable, Message: "gone"}, At(time.Millisecond))
	}
	_, a = accountOf(s, nodes, Ring(5, 2, 5), At(time.Millisecond), nil)
	require.Equal(t, FailOpen, a.Reason)
	require.Contains(t, a.Summary, "so all its copies are listed")
}

// A decision can be accounted for with and without statistics.
func TestAccountWithoutStatistics(t *testing.T) {
	s, nodes := NewTest(t, 3)
	for range 2 {
		d, a := accountOf(s, nodes, Ring(3, 2, 3), Epoch, nil)
		require.Equal(t, d.Reason, a.Reason)
		require.NotEmpty(t, a.Summary)
		require.Equal(t, a.Candidates[0].Measured, a.Limit != nil)
		_, err := json.Marshal(a)
		require.NoError(t, err)
		SetTimes(nodes, 5, 3)
	}
}

func TestAccountIsBounded(t *testing.T) {
	s, nodes := NewTest(t, 20)
	SetTimes(nodes, 5, 3)
	nodes[19].SetResponse(300)
	d, req := &Decision{}, Request{Nodes: nodes, Shards: Ring(20, 2, 20)}
	s.Choose(d, req, Epoch)
	a := account.Of(s, d, req, 4, Epoch)
	require.Len(t, a.Candidates, 4)
	require.Equal(t, 16, a.Omitted)
	require.Equal(t, nodes[19].Name, a.Candidates[0].Name)
}

// How much each node coordinates is told: all that it did, and its part of the last ten seconds.
func TestShareOfWhatNodesCoordinate(t *testing.T) {
	s, nodes := NewTest(t, 3)
	shares := func(now time.Duration) (all []int64, lately []float64) {
		for _, f := range account.Nodes(s, nodes, At(now)) {
			all, lately = append(all, f.Coordinated), append(lately, f.CoordinatedShare)
		}
		return all, lately
	}
	send := func(now time.Duration, counts ...int) {
		for i, n := range counts {
			for range n {
				s.SentThrough(nodes[i], At(now))
			}
		}
	}
	send(time.Second, 6, 2, 0)
	all, lately := shares(5 * time.Second)
	require.Equal(t, []int64{6, 2, 0}, all)
	require.Equal(t, []float64{.75, .25, 0}, lately)
	send(8*time.Second, 0, 2, 2)
	all, lately = shares(12 * time.Second)
	require.Equal(t, []int64{6, 4, 2}, all)
	require.Equal(t, []float64{0, .5, .5}, lately)
	_, lately = shares(time.Minute)
	require.Equal(t, []float64{0, 0, 0}, lately)
}
