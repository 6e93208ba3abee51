package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The engine searches the copies of a node that comes back before any placement tells of them. A list of the
// nodes that are known keeps searches from it while it is cold.
func TestSearchesAreListedUntilANodeThatLeftIsBackAndWarm(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	infos := infosOf(nodes)
	d := decide(s, nodes, time.Second)
	require.Equal(t, NoOutlier, d.Reason)
	require.False(t, d.Expects())

	left := s.Update(infos[:4], at(2*time.Second))
	d = decide(s, left, 30*time.Second)
	require.Equal(t, Ranked, d.Reason)
	require.True(t, d.Expects())
	require.Equal(t, "abcd", names(d))

	back := s.Update(infos, at(40*time.Second))
	require.Equal(t, Ranked, decide(s, back[:4], 41*time.Second).Reason, "it has no copies yet")
	decide(s, back, 42*time.Second) // it has
	require.Equal(t, Ramping, back[4].health.condition())
	d = decide(s, back, 42*time.Second)
	require.Equal(t, Ranked, d.Reason, "its share grows")
	require.False(t, d.Expects())
	require.Equal(t, NoOutlier, decide(s, back, 42*time.Second+SlowStart).Reason)
}

func TestANodeIsNotExpectedForEver(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	infos := infosOf(nodes)
	left := s.Update(infos[:4], at(time.Second))
	require.Equal(t, Ranked, decide(s, left, absence).Reason)
	require.Equal(t, NoOutlier, decide(s, left, time.Second+absence).Reason)
	s.Update(infos[:3], at(2*time.Second+absence))
	require.Len(t, s.expected, 1, "of those that are expected no longer nothing is kept")

	empty := []NodeInfo{infos[0], infos[1], infos[2], {ID: "empty"}}
	manager := NodeInfo{ID: "manager", NoData: true}
	s.Update(empty, at(2*absence))
	for range 3 { // others come and go
		s.Update(slices.Concat(empty, []NodeInfo{manager}), at(2*absence+time.Minute))
		s.Update(empty, at(2*absence+time.Minute))
	}
	require.Equal(t, s.since(at(2*absence)), s.expected["empty"])
}

func TestWhatHoldsNoShardsIsNotExpected(t *testing.T) {
	s, nodes := newTest(t, 5)
	infos := infosOf(nodes)
	infos[4].NoData = true
	nodes = s.Update(infos, at(time.Second))
	setTimes(nodes, 5, 3)
	s.Update(infos[:4], at(2*time.Second))
	require.Equal(t, NoOutlier, decide(s, nodes[:4], 3*time.Second).Reason)
	s.Update(infos, at(4*time.Second))
	require.Equal(t, NoOutlier, decide(s, nodes[:4], 5*time.Second).Reason)
}

// Of the copies listed the engine draws lots. While searches wait in queues that costs more than a cold node does. Where
// a node stands out other rules decide.
func TestNothingWaitsForANodeThatIsExpected(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	infos := infosOf(nodes)
	nodes = s.Update(infos[:4], at(time.Second))
	require.Equal(t, Ranked, decide(s, nodes, 2*time.Second).Reason)
	set(&nodes[1].queue, 100)
	require.Equal(t, NoOutlier, decide(s, nodes, 2*time.Second).Reason, "searches wait")
	nodes[1].queue.Reset()
	set(&nodes[1].response, 100)
	require.Equal(t, NoOutlier, decide(s, nodes, 2*time.Second).Reason, "one takes far longer than the others")
	set(&nodes[1].response, 20)
	require.Equal(t, Ranked, decide(s, nodes, 2*time.Second).Reason)
	require.Equal(t, "abcd", names(decide(s, nodes, 2*time.Second)), "a little longer is no reason to leave it out")
	s.MarkUnreachable(nodes[0], "a test", at(2*time.Second))
	require.Equal(t, "bcd", names(decide(s, nodes, 2*time.Second)))
	s.MarkUnreachable(nodes[1], "a test", at(2*time.Second))
	require.Equal(t, NoOutlier, decide(s, nodes, 2*time.Second).Reason, "the copy that a shard has left may be on the node that is expected")
	nodes[1].polled.Store(int32(Fine))
	s.eject(nodes[1], Slow, s.since(at(2*time.Second)), "a test")
	d := &Decision{}
	s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{1}, {2, 3}}, Outliers: true}, at(3*time.Second))
	require.Equal(t, NoGain, d.Reason, "a slow node would have to be used")
}

// What sticks to its copies is left to the engine with its string.
func TestNothingThatSticksToItsCopiesIsListed(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	nodes = s.Update(infosOf(nodes)[:4], at(time.Second))
	d := &Decision{}
	s.Choose(d, Request{Nodes: nodes, Shards: ring(4, 2, 4), Outliers: true, Affinity: 7}, at(2*time.Second))
	require.Equal(t, NoOutlier, d.Reason)
}

// Of one shard of which others search more than this client, all copies that are known are listed.
func TestCopiesOfOneShardAreListedThatOthersSearch(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	nodes = s.Update(infosOf(nodes)[:4], at(time.Second))
	for _, n := range nodes {
		set(&n.rate, 1)
	}
	d := &Decision{}
	s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{0, 1, 2}}, Outliers: true}, at(2*time.Second))
	require.True(t, d.Expects())
	require.Equal(t, "abc", names(d))
}

func TestANodeInSlowStartThatHasItsTurnDoesNotUncoverAnother(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	infos := infosOf(nodes)
	s.Update(infos[:3], at(time.Second))
	nodes = s.Update(infos[:4], at(2*time.Second))
	setTimes(nodes, 5, 3)
	decide(s, nodes, 3*time.Second)
	require.Equal(t, Ramping, nodes[3].health.condition())
	for range 20 {
		require.Equal(t, Ranked, decide(s, nodes, 5900*time.Millisecond).Reason)
	}
}

func TestWhatANodeTurnsOutToBeEndsThatItIsExpected(t *testing.T) {
	s, nodes := newTest(t, 5)
	infos := infosOf(nodes)
	joined := NodeInfo{ID: "manager"} // its roles are not told yet
	s.Update(append(infos[:5:5], joined), at(time.Second))
	require.Contains(t, s.expected, joined.ID)
	joined.NoData = true
	s.Update(append(infos[:5:5], joined), at(2*time.Second))
	require.Empty(t, s.expected)
	require.Zero(t, s.expectedUntil.Load())

	s.Update([]NodeInfo{{ID: "x"}, {ID: "y"}}, at(3*time.Second))
	require.Empty(t, s.expected, "it is another cluster")
	s.Update(nil, at(4*time.Second))
	s.Update(infos, at(5*time.Second))
	require.Empty(t, s.expected, "all were away")
}

// A list may be too long for a request: then the engine chooses among all.
func TestUnlistTakesAListBackThatIsMadeForANodeThatIsExpected(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	require.False(t, decide(s, nodes, time.Second).Unlist())
	d := decide(s, s.Update(infosOf(nodes)[:4], at(time.Second)), 2*time.Second)
	require.True(t, d.Unlist())
	require.Equal(t, NoOutlier, d.Reason)
	require.False(t, d.Unlist())
}

func TestAPreviewEndsNoExpectation(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	infos := infosOf(nodes)
	s.Update(infos[:4], at(time.Second))
	nodes = s.Update(infos, at(2*time.Second))
	s.Preview(&Decision{}, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}, at(3*time.Second))
	require.NotZero(t, s.expectedUntil.Load())
	require.NotEqual(t, Ramping, nodes[4].health.condition())
}
