package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The example that tells the right formula from the inverted one: with q̂ = 5 the
// slow node wins under the inverted formula.
func TestFormulas(t *testing.T) {
	require.Equal(t, 129.0, arsPublished(5, 1, 5))
	require.Equal(t, 6300.0, arsPublished(100, 50, 5))
	require.Equal(t, 129.0, arsInverted(5, 1, 5))
	require.InDelta(t, 102.48, arsInverted(100, 50, 5), 1e-9)
	require.Equal(t, 6250.0, arsQueue(100, 50, 5))
}

func newCoordinator() *coordinator {
	return &coordinator{
		node: &node{c: &clock{}}, seen: make([]seen, 3), outstanding: make([]int32, 3), planned: make([]int32, 3),
	}
}

func (c *coordinator) know(n int, response, service float64) {
	c.seen[n].response.observe(response)
	c.seen[n].queue.observe(0)
	c.seen[n].service = service
	c.seen[n].known = true
	c.known++
}

func TestAdaptiveSelection(t *testing.T) {
	c := newCoordinator()
	c.know(0, 100, 50)
	c.know(1, 10, 5)
	rank := adaptive(arsPublished, false)

	copies := []int{0, 1}
	rank(c, copies, nil)
	require.Equal(t, []int{1, 0}, copies)
	require.InDelta(t, 0.3*55+0.7*100, c.seen[0].response.value, 1e-9, "the loser moves toward the winner")
	require.InDelta(t, 0.3*27.5+0.7*50, c.seen[0].service, 1e-9)
	require.Equal(t, 10.0, c.seen[1].response.value)

	copies = []int{1, 2}
	rank(c, copies, nil)
	require.Equal(t, []int{2, 1}, copies, "without statistics: first")

	c.planned[1] = 3 // q̂ = 1 + 3·2 = 7
	copies = []int{1, 0}
	rank(c, copies, nil)
	require.Equal(t, []int{0, 1}, copies)

}

// OpenSearch sets the service time of a loser to the mean with the winner's, and ranks a node that has nothing
// to do as if it had one search.
func TestAdaptiveSelectionOfOpenSearch(t *testing.T) {
	c := newCoordinator()
	c.know(0, 20, 50)
	c.know(1, 10, 2)
	copies := []int{1, 0}
	adaptive(arsInverted, true)(c, copies, nil)
	require.Equal(t, []int{0, 1}, copies, "20 - 1/50 + 27/50 is less than 10 - 1/2 + 27/2")
	require.Equal(t, 26.0, c.seen[1].service)
}

// Each shard of a search is ranked with the shard queries planned for those before it.
func TestShardsOfOneSearchSpread(t *testing.T) {
	sc := base("x", "")
	sc.nodes, sc.shards = 2, 10
	list, err := pick([]string{"ars"})
	require.NoError(t, err)
	w := newWorld(&sc, list[0], 1)
	c := w.coordinators[0]
	for n, response := range []float64{10, 12} {
		c.know(n, response, 5)
	}
	s := &search{shards: w.indices[0], demands: make([]float64, 10)}
	w.execute(c, s, &try{}, func(outcome) {})
	require.Equal(t, int32(5), c.outstanding[0])
	require.Equal(t, int32(5), c.outstanding[1])
}

// A node is sent five shard queries of a search at once.
func TestANodeIsSentFewShardQueriesAtOnce(t *testing.T) {
	sc := base("x", "")
	sc.nodes, sc.shards, sc.copies = 1, 12, 1
	w := newWorld(&sc, policies()[0], 1)
	answered := 0
	s := &search{shards: w.indices[0], demands: make([]float64, 12)}
	w.execute(w.coordinators[0], s, &try{}, func(o outcome) { answered += o.status })
	most := int32(0)
	for most = max(most, w.coordinators[0].outstanding[0]); w.c.step(time.Second); {
		most = max(most, w.coordinators[0].outstanding[0])
	}
	require.Equal(t, int32(atOnce), most)
	require.Equal(t, 200, answered)
}

// Nodes count no reads by id as shard queries, so neither does a sidestep, as in production.
func TestReadsByIDAreNoShardQueries(t *testing.T) {
	sc := base("x", "")
	list, err := pick([]string{own})
	require.NoError(t, err)
	w := newWorld(&sc, list[0], 1)
	r := w.routers[0].(*sidestep)
	s := &search{kind: readByID, shards: w.indices[0][:1]}
	r.open(s)
	p, why := r.steer(s)
	require.Equal(t, planned, why)
	r.sent(s, &try{plan: p, steered: true})
	f := r.s.Figures(p.decision.Nodes[0], r.now())
	require.Zero(t, f.Sent)
	require.EqualValues(t, 1, f.Outstanding)
}

func TestPeakEWMA(t *testing.T) {
	require.Equal(t, 50.0, peakEWMA(10, 50, time.Second), "a peak counts at once")
	require.InDelta(t, 10+40*0.3679, peakEWMA(50, 10, peakDecay), 0.01)
}

func TestRotationStartsAtAnotherCopyEachTime(t *testing.T) {
	sc := base("x", "")
	w := newWorld(&sc, policies()[0], 1)
	c := w.coordinators[0]
	c.rotation[1] = 0
	require.Equal(t, []int{1, 2}, w.order(c, &search{}, 1, plan{}))
	require.Equal(t, []int{2, 1}, w.order(c, &search{}, 1, plan{}))
	require.Equal(t, []int{2}, w.order(c, &search{}, 1, plan{listed: []int{2, 4}}))
	require.Equal(t, []int{2, 1}, w.order(c, &search{}, 1, plan{listed: []int{2, 4}, prefer: true}))
	require.Len(t, w.order(c, &search{}, 1, plan{listed: []int{4}, prefer: true}), 2)
	require.Empty(t, w.order(c, &search{}, 1, plan{listed: []int{4}}))
}

// Of three copies the one behind the copy that a list leaves out gets its turn, too, as in the engines.
func TestAListRotatesUnevenly(t *testing.T) {
	sc := base("x", "")
	sc.copies = 3
	w := newWorld(&sc, policies()[0], 1)
	first := map[int]int{}
	for range 300 {
		first[w.order(w.coordinators[0], &search{}, 1, plan{listed: []int{1, 2}})[0]]++
	}
	require.Equal(t, map[int]int{1: 200, 2: 100}, first)
}

// What a node was reading when its process ends, another copy reads, and nothing of it stays counted.
func TestAReadThatIsLostGoesToTheNextCopy(t *testing.T) {
	sc := base("x", "")
	w := newWorld(&sc, policies()[0], 1)
	status := 0
	s := &search{kind: readByID, shards: w.indices[0][1:2], demands: []float64{0.05}}
	w.execute(w.coordinators[4], s, &try{}, func(o outcome) { status = o.status })
	w.c.after(10*time.Millisecond, func() { w.nodes[1].setAbsent(true) })
	w.c.after(10*time.Millisecond, func() { w.nodes[2].setPaused(true) })
	w.c.after(20*time.Millisecond, func() { w.nodes[2].setPaused(false) })
	for w.c.step(time.Second) {
	}
	require.Equal(t, 200, status)
	require.Zero(t, w.nodes[1].assigned+w.nodes[2].assigned)
	require.Equal(t, make([]int32, 5), w.coordinators[4].outstanding)
}
