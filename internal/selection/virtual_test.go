package selection

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// virtual is a cluster in virtual time: nodes in a ring, shards with two copies,
// searches at a fixed rate, polls every 500 ms, probes when they are due. It is as much
// of a cluster as the choice can see.
type virtual struct {
	s       *Selector
	nodes   []*Node
	targets []target
	when    bool // only while somebody stands out
	rng     *rand.Rand
	queue   events
	now     time.Duration

	slow    func(node int, now time.Duration) time.Duration // added to a shard query
	through func(node int, now time.Duration) time.Duration // added where node coordinates what others serve
	refuse  bool                                            // probes
	changes []changed
	// probedAt has the times of the probes of each node.
	probedAt map[int][]time.Duration
	avoided  map[string]int  // ticks that nodes spent avoided, by name
	seen     []float64       // EWMA of response times, as coordinating nodes see them
	told     []float64       // the same at the last poll
	served   []int64         // shard queries since the last poll
	spent    []time.Duration // that they took on the node itself
	touched  []time.Duration // when searches that a slow node took part in began
	probes   int
	total    int
}

// target is what searches of a virtual cluster are for.
type target struct {
	shards [][]int
	ms     float64 // median of a shard query
	rate   int     // searches per second; 0: that of run
}

// changed is a change of state and its moment.
type changed struct {
	Change
	at time.Duration
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func newVirtual(t *testing.T, slow func(int, time.Duration) time.Duration) *virtual {
	return newVirtualOf(t, 5, slow)
}

func newVirtualOf(t *testing.T, n int, slow func(int, time.Duration) time.Duration) *virtual {
	s, nodes := newTest(t, n)
	for _, node := range nodes {
		node.Processors = 4
	}
	v := &virtual{
		s: s, nodes: nodes, targets: []target{{shards: ring(n, 2, n), ms: 3}}, rng: rand.New(rand.NewPCG(3, 4)),
		slow: slow, through: well, seen: make([]float64, n), told: make([]float64, n),
		served: make([]int64, n), spent: make([]time.Duration, n), avoided: map[string]int{}, probedAt: map[int][]time.Duration{},
	}
	s.o.OnChange = func(c Change) { v.changes = append(v.changes, changed{c, v.now}) }
	return v
}

// well is of a cluster with nothing wrong.
func well(int, time.Duration) time.Duration { return 0 }

// by says that the nodes given take so much longer from a moment until another.
func by(ms int, from, to time.Duration, bad ...int) func(int, time.Duration) time.Duration {
	return func(node int, now time.Duration) time.Duration {
		if slices.Contains(bad, node) && now >= from && now < to {
			return time.Duration(ms) * time.Millisecond
		}
		return 0
	}
}

func (v *virtual) after(d time.Duration, do func()) { heap.Push(&v.queue, event{v.now + d, do}) }

func (v *virtual) run(rate int, length time.Duration) {
	for _, g := range v.targets {
		gap := time.Second / time.Duration(cmp.Or(g.rate, rate))
		for at := time.Duration(0); at < length; at += gap {
			v.after(at, func() { v.search(g) })
		}
	}
	for at := time.Duration(0); at < length; at += 500 * time.Millisecond {
		v.after(at, v.poll)
	}
	for at := time.Duration(0); at < length; at += 10 * time.Millisecond {
		v.after(at, v.probe)
	}
	for v.queue.Len() > 0 {
		e := heap.Pop(&v.queue).(event)
		v.now = e.at
		e.do()
	}
}

func (v *virtual) poll() {
	at := epoch.Add(v.now)
	coordinated := map[string]Seen{}
	for i, n := range v.nodes {
		if v.served[i] > 0 {
			coordinated[n.ID] = Seen{Now: duration(v.seen[i]), Before: duration(v.told[i])}
			v.told[i] = v.seen[i]
		}
	}
	for i, n := range v.nodes {
		p := Poll{State: Fine, Queries: v.served[i], Elapsed: 500 * time.Millisecond}
		if v.served[i] > 0 {
			p.ServiceTime = v.spent[i] / time.Duration(v.served[i])
		}
		v.served[i], v.spent[i] = 0, 0
		if i == 0 { // one coordinating node tells of all: which one does not matter here
			p.Coordinated = coordinated
		}
		v.s.ObservePoll(n.ID, p, at)
	}
	if r, ok := coordinated[v.nodes[0].ID]; ok { // node 0 says nothing of itself
		v.s.ObservePoll(v.nodes[1].ID, Poll{State: Fine, Queries: 1, Coordinated: map[string]Seen{v.nodes[0].ID: r}}, at)
	}
}

// takes returns what is added to a shard query of node that via coordinates.
func (v *virtual) takes(node, via int) time.Duration {
	extra := v.slow(node, v.now)
	if via != node {
		extra += v.through(via, v.now)
	}
	return extra
}

// probed returns how often a node was probed from one time to another.
func (v *virtual) probed(node int, from, to time.Duration) (n int) {
	for _, at := range v.probedAt[node] {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

func (v *virtual) position(n *Node) int { return slices.Index(v.nodes, n) }

func (v *virtual) probe() {
	for _, n := range v.nodes {
		if n.health.avoided() {
			v.avoided[n.Name]++
		}
	}
	for _, p := range v.s.Probes(nil, epoch.Add(v.now)) {
		v.probes++
		v.probedAt[v.position(p.Node)] = append(v.probedAt[v.position(p.Node)], v.now)
		took := 2*time.Millisecond + v.takes(v.position(p.Node), v.position(p.Via))
		o := ProbeOutcome{Took: min(took, ProbeTimeout), Failed: took >= ProbeTimeout}
		if v.refuse {
			o = ProbeOutcome{Unfit: true, Message: "forbidden"}
		}
		v.after(o.Took, func() { v.s.ObserveProbe(p, o, epoch.Add(v.now)) })
	}
}

func (v *virtual) search(g target) {
	start := v.now
	d := &Decision{}
	v.s.Choose(d, Request{Nodes: v.nodes, Shards: g.shards, Outliers: v.when}, epoch.Add(start))
	v.s.Acquire(d, 1, epoch.Add(start))
	v.total++
	var slowest time.Duration
	touched := false
	for _, copies := range g.shards {
		listed := slices.DeleteFunc(slices.Clone(copies), func(p int) bool { return !slices.Contains(d.Nodes, v.nodes[p]) })
		p := listed[v.rng.IntN(len(listed))]
		extra := v.takes(p, v.position(d.Coordinator))
		took := duration(g.ms*math.Exp(v.rng.NormFloat64()*0.6)) + extra
		touched = touched || extra > 0
		slowest = max(slowest, took)
		v.after(took, func() {
			v.served[p]++
			v.spent[p] += duration(g.ms / 3 * (0.8 + 0.4*v.rng.Float64()))
			v.seen[p] = 0.7*v.seen[p] + 0.3*millis(took)
		})
	}
	if touched {
		v.touched = append(v.touched, start)
	}
	done := false
	v.after(duration(10*g.ms), func() { // overdue
		if !done {
			v.s.Suspect(d, epoch.Add(v.now))
		}
	})
	v.after(slowest, func() {
		done = true
		v.s.Observe(d, Outcome{ResponseTime: slowest, Took: slowest, HasTook: true}, epoch.Add(v.now))
		d.Release()
	})
}

// ejected returns when nodes were first ejected, by name.
func (v *virtual) ejected() map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, c := range v.changes {
		if _, ok := out[c.Node.Name]; !ok && (c.After == Slow || c.After == Failing) {
			out[c.Node.Name] = c.at
		}
	}
	return out
}

// duration is the inverse of millis.
func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// touchedBetween returns the share of searches begun in [from, to) that waited
// for a slow node.
func (v *virtual) touchedBetween(from, to time.Duration, rate int) float64 {
	n := 0
	for _, at := range v.touched {
		if at >= from && at < to {
			n++
		}
	}
	return float64(n) / ((to - from).Seconds() * float64(rate))
}

// TestSlowTransportIsAvoidedUnderLoad is a feedback loop seen on a real cluster: a
// search that waits for one slow node keeps all nodes of its list outstanding and
// silent; if that is held against them, the slow node looks no worse than they do.
func TestSlowTransportIsAvoidedUnderLoad(t *testing.T) {
	for _, rate := range []int{20, 80, 400} {
		v := newVirtual(t, by(300, 10*time.Second, time.Hour, 2))
		v.run(rate, 70*time.Second)
		t.Logf("%d/s: %d searches waited for the slow node in the first second, %.2f %% later", rate,
			int(v.touchedBetween(10*time.Second, 11*time.Second, rate)*float64(rate)), 100*v.touchedBetween(11*time.Second, 70*time.Second, rate))
		require.Less(t, v.touchedBetween(11*time.Second, 70*time.Second, rate), 0.01, "rate %d", rate)
	}
}

// TestStallsDoNotLetTheSlowNodeBackIn adds what a busy machine does: now and then
// everything stands still for a moment.
func TestStallsDoNotLetTheSlowNodeBackIn(t *testing.T) {
	v := newVirtual(t, by(300, 10*time.Second, time.Hour, 2))
	for at := 11 * time.Second; at < 70*time.Second; at += 3 * time.Second {
		v.after(at, func() { // what runs now answers 150 ms later than it would
			for i := range v.queue {
				v.queue[i].at = max(v.queue[i].at, v.now+150*time.Millisecond)
			}
			heap.Init(&v.queue)
		})
	}
	v.run(80, 70*time.Second)
	require.Less(t, v.touchedBetween(12*time.Second, 70*time.Second, 80), 0.01)
}

// TestRecoveredNodeCarriesItsShareAgain: the node is slow for 20 s.
func TestRecoveredNodeCarriesItsShareAgain(t *testing.T) {
	v := newVirtual(t, by(300, 10*time.Second, 30*time.Second, 2))
	v.run(80, 120*time.Second)
	require.InDelta(t, 0.2, share(v.s, v.nodes, 2, epoch.Add(120*time.Second)), 0.1)
}
