package selection

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chaos is a cluster of data nodes and managers to which anything happens, by lot.
type chaos struct {
	t     *testing.T
	s     *Selector
	nodes []*Node
	data  int
	r     *rand.Rand
	now   time.Duration
	bad   []float64 // how likely each node is to answer badly
	owed  []*Decision
	sent  []Probe
	// needed is when a choice last found that the others could not carry the node's load.
	needed map[*Node]time.Duration
	reason map[Reason]int
	out    int  // most nodes ejected or avoided at once
	busy   bool // some node was
}

func newChaos(t *testing.T, seed uint64) *chaos {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &chaos{t: t, r: r, data: 2 + r.IntN(7), needed: map[*Node]time.Duration{}, reason: map[Reason]int{}}
	c.s, c.nodes = withManagers(t, c.data, r.IntN(4))
	for _, n := range c.nodes {
		n.Processors = 1
		c.bad = append(c.bad, r.Float64()*r.Float64())
	}
	states := map[*statistics]State{}
	for _, n := range c.nodes {
		states[n.statistics] = n.State()
	}
	c.s.o.OnChange = func(change Change) {
		require.Equal(t, states[change.Node.statistics], change.Before, "a change is missing")
		states[change.Node.statistics] = change.After
		c.busy = c.busy || change.After == Busy
		if change.After != change.Node.health.condition() || !change.Node.health.excluded() {
			return
		}
		require.False(t, change.Node.NoData, "a manager is ejected")
		if at, ok := c.needed[change.Node]; ok && change.Before != Unreachable {
			require.GreaterOrEqual(t, c.now-at, time.Second, "%s was needed a moment ago", change.Node.Name)
		}
	}
	return c
}

func (c *chaos) step() {
	c.now += time.Duration(c.r.Int64N(int64(20 * time.Millisecond)))
	switch c.r.IntN(10) {
	case 0:
		c.poll(c.r.IntN(len(c.nodes)))
	case 1, 2:
		c.settle()
	case 3:
		if c.r.IntN(20) == 0 {
			c.s.MarkUnreachable(c.nodes[c.r.IntN(len(c.nodes))], "refused", at(c.now))
		}
	case 4:
		if len(c.owed) > 0 {
			c.s.Suspect(c.owed[c.r.IntN(len(c.owed))], at(c.now))
		}
	case 5:
		c.bad[c.r.IntN(len(c.bad))] = c.r.Float64() * c.r.Float64()
	case 6, 7:
		c.probe()
	default:
		c.choose()
	}
	c.check()
}

func (c *chaos) poll(i int) {
	p := randomPoll(c.r, c.nodes[:c.data], c.bad, i, Unresponsive, Unresponsive, Failing, Unreachable)
	c.s.ObservePoll(c.nodes[i].ID, p, at(c.now))
}

// randomPoll draws a poll of node i of some, of which the first ones have data: the worse a node is, the more often it is in one of
// the states given.
func randomPoll(r *rand.Rand, data []*Node, bad []float64, i int, ill ...State) Poll {
	p := Poll{
		State: Fine, Took: time.Duration(r.Int64N(1e9)), Queue: r.ExpFloat64() * 5, Queries: r.Int64N(500), Elapsed: time.Second,
		ServiceTime: time.Duration(r.ExpFloat64() * 2e6), Coordinated: map[string]Seen{},
	}
	if r.Float64() < bad[i] {
		p.State = ill[r.IntN(len(ill))]
	}
	if r.IntN(30) == 0 {
		p.Rejected = r.Float64()
	}
	for j, n := range data {
		p.Coordinated[n.ID] = Seen{Now: time.Duration(r.ExpFloat64() * 5e6 * (1 + 50*bad[j]))}
	}
	return p
}

// settle ends a search.
func (c *chaos) settle() {
	if len(c.owed) == 0 {
		return
	}
	i := c.r.IntN(len(c.owed))
	d := c.owed[i]
	c.owed = slices.Delete(c.owed, i, i+1)
	n := d.Nodes[c.r.IntN(len(d.Nodes))]
	switch took := time.Duration(c.r.ExpFloat64() * 2e7); {
	case c.r.Float64() < c.bad[slices.Index(c.nodes, n)]/3:
		c.s.Blame([]*Node{n}, "", at(c.now))
	default:
		c.s.Observe(d, Outcome{ResponseTime: took, Took: took, HasTook: true}, at(c.now))
	}
	d.Release()
}

func (c *chaos) probe() {
	probes := c.s.Probes(nil, at(c.now))
	for _, p := range probes {
		require.False(c.t, p.Node.NoData, "a manager is probed")
		require.False(c.t, p.Via.NoData, "a probe goes through a manager")
	}
	c.sent = append(c.sent, probes...)
	c.sent = slices.DeleteFunc(c.sent, func(p Probe) bool {
		bad := c.r.Float64() < c.bad[slices.Index(c.nodes, p.Node)]
		if bad && c.r.IntN(4) > 0 {
			return false // not yet
		}
		o := ProbeOutcome{Took: time.Duration(c.r.Int64N(int64(5 * time.Millisecond)))}
		if bad {
			o = []ProbeOutcome{{Took: ProbeTimeout, Failed: true}, {Failed: true}, {Took: 400 * time.Millisecond}, {Unfit: true}}[c.r.IntN(4)]
		}
		c.s.ObserveProbe(p, o, at(c.now))
		return true
	})
}

func (c *chaos) choose() {
	req := Request{Nodes: c.nodes, Shards: randomShards(c.r, c.data), Outliers: c.r.IntN(2) == 0}
	if c.r.IntN(10) == 0 {
		req.Avoid = c.nodes[:1]
	}
	d := &Decision{}
	c.s.Choose(d, req, at(c.now))
	c.reason[d.Reason]++
	require.False(c.t, d.Coordinator.NoData, "a manager coordinates")
	for _, copies := range req.Shards {
		c.checkShard(d, req, copies)
	}
	for _, one := range d.order {
		if one.Excluded == Needed {
			c.needed[one.Node] = c.now
		}
	}
	if len(c.owed) < 50 {
		c.s.Acquire(d, 1, at(c.now))
		c.owed = append(c.owed, d)
	}
}

// checkShard checks that a shard keeps a listed copy, one that can be reached if there is
// one, and one that nothing is proved against if there is one.
func (c *chaos) checkShard(d *Decision, req Request, copies []int) {
	listed := func(fit func(n *Node) bool) bool {
		return slices.ContainsFunc(copies, func(p int) bool { return fit(c.nodes[p]) && slices.Contains(d.Nodes, c.nodes[p]) })
	}
	exists := func(fit func(n *Node) bool) bool {
		return slices.ContainsFunc(copies, func(p int) bool { return fit(c.nodes[p]) })
	}
	anyone := func(*Node) bool { return true }
	alive := func(n *Node) bool { return n.Alive() && !slices.Contains(req.Avoid, n) }
	good := func(n *Node) bool { return alive(n) && n.usable() && n.State() != Ramping }
	require.True(c.t, listed(anyone), "a shard has no copy listed")
	require.True(c.t, !exists(alive) || listed(alive), "no copy that answers is listed")
	may := func(n *Node) bool {
		return alive(n) && (n.usable() || d.candidates[slices.Index(c.nodes, n)].Excluded == Needed)
	}
	require.True(c.t, !exists(good) || listed(may), "no good copy is listed")
	if !exists(alive) && d.Reason == FailOpen {
		for _, p := range copies {
			require.Contains(c.t, d.Nodes, c.nodes[p], "it fails open")
		}
	}
}

// check checks what holds at every moment.
func (c *chaos) check() {
	out := 0
	for _, n := range c.nodes {
		if n.Alive() && (n.health.excluded() || n.health.avoided()) {
			out++
		}
		require.False(c.t, n.NoData && !n.serves() && n.Alive(), "a manager is ejected")
		require.True(c.t, n.State() != Busy || n.health.avoided(), "busy, and not avoided")
	}
	require.LessOrEqual(c.t, out, (c.data+1)/3, "of %d data nodes and %d managers", c.data, len(c.nodes)-c.data)
	c.out = max(c.out, out)
}

func TestWhateverHappens(t *testing.T) {
	reasons, most, busy := map[Reason]int{}, 0, false
	for seed := range uint64(30) {
		c := newChaos(t, seed)
		for range 3000 {
			c.step()
		}
		for reason, n := range c.reason {
			reasons[reason] += n
		}
		most, busy = max(most, c.out), busy || c.busy
	}
	require.GreaterOrEqual(t, most, 2)
	require.True(t, busy, "no node was ever busy")
	for _, reason := range []Reason{Ranked, NoOutlier, NoGain, FailOpen, Overloaded, NoChoice} {
		require.Positive(t, reasons[reason], reason)
	}
}

// Where everything is bad, all is listed: a shard that is asked may answer, one that is not
// cannot.
func TestFailsOpenWhenEverythingIsBad(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	for _, n := range nodes {
		s.MarkUnreachable(n, "refused", at(time.Second))
	}
	for _, outliers := range []bool{true, false} {
		d := &Decision{}
		s.Choose(d, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: outliers}, at(time.Second))
		require.Equal(t, "abcde", names(d))
		require.NotNil(t, d.Coordinator)
	}
	one := choose(s, nodes, [][]int{{0, 1}}, at(time.Second))
	require.Equal(t, FailOpen, one.Reason)
	require.Equal(t, "ab", names(one))
}
