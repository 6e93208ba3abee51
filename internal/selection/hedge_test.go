package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEjectedSinceIsWhatWasSentBefore(t *testing.T) {
	const second = time.Second
	for _, unfit := range []func(*Selector, *Node){
		func(s *Selector, n *Node) { s.eject(n, Slow, int64(2*second), "test") },
		func(s *Selector, n *Node) { s.MarkUnreachable(n, "refused", epoch.Add(2*second)) },
	} {
		s, nodes := newTest(t, 3)
		var before, elsewhere, after Decision
		s.Choose(&before, Request{Nodes: nodes, Shards: [][]int{{0}}}, epoch.Add(second))
		s.Acquire(&before, 1, epoch.Add(second))
		s.Choose(&elsewhere, Request{Nodes: nodes, Shards: [][]int{{1}}}, epoch.Add(second))
		s.Acquire(&elsewhere, 1, epoch.Add(second))
		elsewhere.Coordinator = nodes[1]
		require.False(t, s.EjectedSince(&before))
		unfit(s, nodes[0])
		require.True(t, s.EjectedSince(&before))
		require.False(t, s.EjectedSince(&elsewhere), "it waits for another node")
		elsewhere.Coordinator = nodes[0]
		require.True(t, s.EjectedSince(&elsewhere), "it waits for its coordinating node")
		s.Choose(&after, Request{Nodes: nodes, Shards: [][]int{{0}}}, epoch.Add(3*second))
		s.Acquire(&after, 1, epoch.Add(3*second))
		require.False(t, s.EjectedSince(&after), "that was known when it was sent")
	}
}

// lateSearch is a search that was sent at one second, and the nodes asked about it 50 ms later.
type lateSearch struct {
	*Selector
	nodes []*Node
	first *Decision
	asked []Asking
}

const askedAt = 1050 * time.Millisecond

// newLate asks the nodes of a search on shards, of which those in answering answer at once.
func newLate(t *testing.T, shards [][]int, answering func(*Node) bool) *lateSearch {
	t.Helper()
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	l := &lateSearch{Selector: s, nodes: nodes, first: &Decision{}}
	s.Choose(l.first, Request{Nodes: nodes, Shards: shards, Outliers: true}, at(time.Second))
	s.Acquire(l.first, 1, at(time.Second))
	l.asked = s.Ask(nil, l.first, at(askedAt))
	for _, a := range l.asked {
		if answering(a.Node) {
			s.Asked(a, true, at(askedAt+time.Millisecond))
		}
	}
	return l
}

// of returns the one time that n was asked.
func (l *lateSearch) of(n *Node) Asking {
	return l.asked[slices.IndexFunc(l.asked, func(a Asking) bool { return a.Node.Same(n) })]
}

// second decides about a second attempt, and whether there is to be one.
func (l *lateSearch) second(after time.Duration) (d *Decision, worthwhile bool) {
	now := at(askedAt + after)
	silent := l.Silent(l.first, now)
	d = decide(l.Selector, l.nodes, askedAt+after)
	return d, silent && l.Worthwhile(l.first, d, now)
}

// A node that does not answer while the others do is left out until it answers.
func TestANodeThatIsSilentWhileTheOthersAnswer(t *testing.T) {
	l := newLate(t, ring(5, 2, 5), func(n *Node) bool { return n.Name != "c" })
	c := l.nodes[2]
	require.Len(t, l.asked, 5)
	_, worthwhile := l.second(10 * time.Millisecond)
	require.False(t, worthwhile, "not late yet")
	second, worthwhile := l.second(15 * time.Millisecond)
	require.True(t, worthwhile)
	require.NotContains(t, second.Nodes, c)
	require.NotSame(t, c, second.Coordinator)
	require.Len(t, l.Ask(nil, l.first, at(askedAt+20*time.Millisecond)), 4, "one answer at a time is awaited")

	l.Asked(l.of(c), true, at(askedAt+100*time.Millisecond))
	second, worthwhile = l.second(101 * time.Millisecond)
	require.False(t, worthwhile, "it has answered")
	require.Equal(t, NoOutlier, second.Reason)
	require.Equal(t, Fine, c.State(), "that ejects nobody")
}

func TestWhereMostNodesAreSilentNoneIs(t *testing.T) {
	for answering := range 3 {
		l := newLate(t, ring(5, 2, 5), func(n *Node) bool { return n.ID < "id-"+string(rune('a'+answering)) })
		second, worthwhile := l.second(30 * time.Millisecond)
		require.False(t, worthwhile, "%d of five answered", answering)
		require.Equal(t, NoOutlier, second.Reason)
	}
}

// The one node of a search is compared with others, which are asked, too.
func TestTheOneNodeOfASearchIsComparedWithOthers(t *testing.T) {
	l := newLate(t, [][]int{{0}}, func(n *Node) bool { return n.Name != "a" })
	require.Len(t, l.asked, 3)
	require.True(t, l.Silent(l.first, at(askedAt+30*time.Millisecond)))
	require.NotContains(t, decide(l.Selector, l.nodes, askedAt+30*time.Millisecond).Nodes, l.nodes[0])
}

// A node whose way to clients is long is not silent as soon as others would be; one that was
// silent once is. An answer to a client ends it, too.
func TestANodeThatAlwaysAnswersLateIsNotSilent(t *testing.T) {
	l := newLate(t, ring(5, 2, 5), func(n *Node) bool { return n.Name != "c" })
	c, silent := l.nodes[2], func(after time.Duration) bool { return l.Silent(l.first, at(askedAt+after)) }
	c.asking.took.Set(300)
	c.asking.before.Set(300)
	require.False(t, silent(200*time.Millisecond))
	require.True(t, silent(350*time.Millisecond))
	l.Heard(c, at(askedAt+360*time.Millisecond))
	require.False(t, silent(370*time.Millisecond))

	l = newLate(t, ring(5, 2, 5), func(n *Node) bool { return n.Name != "c" })
	l.nodes[2].asking.took.Set(300)
	require.True(t, silent(30*time.Millisecond))
}

// A node whose load the others could not carry is left out by nobody.
func TestANodeThatIsNeededIsUsedAlthoughItIsSilent(t *testing.T) {
	l := newLate(t, ring(5, 2, 5), func(n *Node) bool { return n.Name != "c" })
	occupy(l.nodes, 0.28)
	l.first.Coordinator = l.nodes[0]
	l.Probes(nil, at(askedAt))
	second, worthwhile := l.second(30 * time.Millisecond)
	require.False(t, worthwhile)
	require.Equal(t, NoOutlier, second.Reason)
}

// occupy has nodes of one processor answer rate shard queries a ms, of 3 ms each.
func occupy(nodes []*Node, rate float64) {
	for _, n := range nodes {
		n.Processors = 1
		set(&n.rate, rate)
	}
}

// What never ends, as the process has stopped asking, is forgotten when a probe would be.
func TestAnAnswerIsAwaitedForASecond(t *testing.T) {
	l := newLate(t, ring(5, 2, 5), func(n *Node) bool { return n.Name != "c" })
	_, worthwhile := l.second(900 * time.Millisecond)
	require.True(t, worthwhile)
	second, worthwhile := l.second(ProbeTimeout)
	require.False(t, worthwhile)
	require.Equal(t, NoOutlier, second.Reason)
	again := l.Ask(nil, l.first, at(askedAt+ProbeTimeout))
	require.Len(t, again, 5)

	c := l.nodes[2]
	l.Asked(l.of(c), false, at(askedAt+ProbeTimeout+time.Millisecond))
	require.True(t, c.awaited(l.since(at(askedAt+ProbeTimeout+2*time.Millisecond))), "the end of the first time does not end the second")
	l.Asked(l.of(c), true, at(askedAt+ProbeTimeout+3*time.Millisecond))
	require.InDelta(t, 1003, c.asking.took.Value(), 0.1, "it took as long as since that time")
}

// Of many nodes a few are asked, and of one none: there is nothing to compare it with.
func TestNotAllNodesOfAWideSearchAreAsked(t *testing.T) {
	for count, want := range map[int]int{1: 0, 2: 2, 100: roundSize} {
		s, nodes := newTest(t, count)
		asked := s.Ask(nil, &Decision{Nodes: nodes}, at(time.Second))
		require.Len(t, asked, want)
	}
}

// A node that is about to leave is not used in place of one that is silent for a moment.
func TestANodeThatLeavesIsNotUsedForOneThatIsSilent(t *testing.T) {
	l := newLate(t, ring(5, 2, 5), func(n *Node) bool { return n.Name != "c" })
	d := l.nodes[3] // shard 2 is on c and d
	l.Leave(d, at(time.Hour))
	second, _ := l.second(30 * time.Millisecond)
	require.NotContains(t, second.Nodes, d)
	require.Contains(t, second.Nodes, l.nodes[2])
}

// A node that says that it answers, but no poll, is no healthier for that: what it serves searches
// with may be stuck.
func TestANodeThatAnswersNoPollsIsEjectedThoughItSaysThatItAnswers(t *testing.T) {
	l := newLate(t, ring(5, 2, 5), func(*Node) bool { return true })
	c := l.nodes[2]
	l.ObservePoll(c.ID, Poll{State: Fine}, at(time.Second))
	l.ObservePoll(c.ID, Poll{State: Unresponsive, Took: time.Second}, at(askedAt+500*time.Millisecond))
	require.Equal(t, Unresponsive, c.State())

	l.ObservePoll(c.ID, Poll{State: Fine}, at(2*time.Second))
	l.Heard(c, at(4*time.Second))
	l.ObservePoll(c.ID, Poll{State: Unresponsive, Took: time.Second}, at(4*time.Second))
	require.Equal(t, Fine, c.State(), "it answers clients")
	c.probe.against.Store(l.since(at(3 * time.Second)))
	c.probe.lateFor = int64(time.Second)
	require.True(t, l.proved(c, true, c.polledAt.Load(), l.since(at(4*time.Second))), "no poll is awaited that does not come")
}

// Where a shard's other copy is on an ejected node, that one is waited for: it answers at least.
func TestASlowNodeComesBeforeASilentOne(t *testing.T) {
	l := newLate(t, ring(5, 2, 5), func(n *Node) bool { return n.Name != "c" })
	slow := l.nodes[3] // shard 2 is on c and d
	l.eject(slow, Slow, l.since(at(askedAt)), "a test")
	slow.probe.took.Set(300)
	second, worthwhile := l.second(30 * time.Millisecond)
	require.True(t, worthwhile)
	require.Contains(t, second.Nodes, slow)
	require.NotContains(t, second.Nodes, l.nodes[2])
}
