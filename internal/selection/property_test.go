package selection

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lot is a cluster of data nodes and managers to which anything happens, by lot.
type lot struct {
	t     *testing.T
	s     *Selector
	nodes []*Node
	data  int
	r     *rand.Rand
	now   time.Duration
	bad   []float64 // how likely each node is to answer badly
	owed  []*Decision
	sent  []Probe
}

func newLot(t *testing.T, seed, stream uint64) lot {
	r := rand.New(rand.NewPCG(seed, stream))
	l := lot{t: t, r: r, data: 2 + r.IntN(7)}
	l.s, l.nodes = withManagers(t, l.data, r.IntN(4))
	for range l.nodes {
		l.bad = append(l.bad, r.Float64()*r.Float64())
	}
	return l
}

// isBad draws whether the node answers badly. One that has left does not.
func (l *lot) isBad(n *Node) bool {
	i := slices.IndexFunc(l.nodes, n.Same)
	return i >= 0 && l.r.Float64() < l.bad[i]
}

// badly is how a probe of a bad node ends.
func (l *lot) badly() ProbeOutcome {
	return []ProbeOutcome{{Took: ProbeTimeout, Failed: true}, {Failed: true}, {Took: 400 * time.Millisecond}, {Unfit: true}}[l.r.IntN(4)]
}

// poll has a node polled: the worse it is, the more often it is ill.
func (l *lot) poll(i int) {
	p := Poll{
		State: Fine, Took: time.Duration(l.r.Int64N(1e9)), Queue: l.r.ExpFloat64() * 5, Queries: l.r.Int64N(500), Elapsed: time.Second,
		ServiceTime: time.Duration(l.r.ExpFloat64() * 2e6), Coordinated: map[string]Seen{},
	}
	if l.r.Float64() < l.bad[i] {
		p.State = []State{Unresponsive, Unresponsive, Unknown, Unreachable}[l.r.IntN(4)]
	}
	if l.r.IntN(30) == 0 {
		p.Rejected = l.r.Float64()
	}
	for j, n := range l.nodes[:l.data] {
		p.Coordinated[n.ID] = Seen{Now: time.Duration(l.r.ExpFloat64() * 5e6 * (1 + 50*l.bad[j]))}
	}
	l.s.ObservePoll(l.nodes[i].ID, p, at(l.now))
}

// settle ends a search.
func (l *lot) settle() {
	if len(l.owed) == 0 {
		return
	}
	i := l.r.IntN(len(l.owed))
	d := l.owed[i]
	l.owed = slices.Delete(l.owed, i, i+1)
	n := d.Nodes[l.r.IntN(len(d.Nodes))]
	took := time.Duration(l.r.ExpFloat64() * 2e7)
	if l.isBad(n) {
		l.s.Blame([]*Node{n}, "", at(l.now))
	} else {
		l.s.Observe(d, Outcome{ResponseTime: took, Took: took, HasTook: true}, at(l.now))
		l.s.Heard(d.Coordinator, at(l.now))
	}
	d.Release()
}

func (l *lot) probe() {
	probes := l.s.Probes(nil, at(l.now))
	for _, p := range probes {
		require.False(l.t, p.Node.NoData, "a manager is probed")
		require.False(l.t, p.Via.NoData, "a probe goes through a manager")
	}
	l.sent = append(l.sent, probes...)
	l.sent = slices.DeleteFunc(l.sent, func(p Probe) bool {
		bad := l.isBad(p.Node)
		if bad && l.r.IntN(4) > 0 {
			return false // not yet
		}
		o := ProbeOutcome{Took: time.Duration(l.r.Int64N(int64(5 * time.Millisecond)))}
		if bad {
			o = l.badly()
		}
		l.s.ObserveProbe(p, o, at(l.now))
		return true
	})
}

func (l *lot) choose() (*Decision, Request) {
	d, req := &Decision{}, Request{Nodes: l.nodes, Shards: randomShards(l.r, l.data), Outliers: l.r.IntN(2) == 0}
	if l.r.IntN(10) == 0 {
		req.Avoid = l.nodes[:1]
	}
	l.s.Choose(d, req, at(l.now))
	if len(l.owed) < 50 {
		l.s.Acquire(d, 1, at(l.now))
		l.owed = append(l.owed, d)
	}
	return d, req
}

// chaos checks what holds whatever happens.
type chaos struct {
	lot
	// needed is when a choice last found that the others could not carry the node's load.
	needed map[*Node]time.Duration
	reason map[Reason]int
	out    int  // most nodes ejected or avoided at once
	busy   bool // some node was
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{lot: newLot(t, seed, 1), needed: map[*Node]time.Duration{}, reason: map[Reason]int{}}
	states := map[*statistics]State{}
	for _, n := range c.nodes {
		n.Processors = 1
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

func (c *chaos) choose() {
	d, req := c.lot.choose()
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
