package selection

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// virtual is a cluster in virtual time: five nodes in a ring, five shards with
// two copies, searches at a fixed rate, polls every 500 ms. It is as much of a
// cluster as the choice can see.
type virtual struct {
	s      *Selector
	nodes  []*Node
	shards [][]int
	when   bool // only while somebody stands out
	rng    *rand.Rand
	queue  events
	now    time.Duration

	slow    func(node int, now time.Duration) time.Duration // added to a shard query
	seen    []float64                                       // EWMA of response times, as coordinating nodes see them
	told    []float64                                       // the same at the last poll
	moved   []bool
	touched []time.Duration // when searches that a slow node took part in began
	total   int
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

func newVirtual(t *testing.T, policy string, slow func(int, time.Duration) time.Duration) *virtual {
	s, nodes := newTest(t, policy, 5)
	return &virtual{
		s: s, nodes: nodes, shards: ring(5, 2, 5), rng: rand.New(rand.NewPCG(3, 4)),
		slow: slow, seen: make([]float64, 5), told: make([]float64, 5), moved: make([]bool, 5),
	}
}

func (v *virtual) after(d time.Duration, do func()) { heap.Push(&v.queue, event{v.now + d, do}) }

func (v *virtual) run(rate int, length time.Duration) {
	gap := time.Second / time.Duration(rate)
	for at := time.Duration(0); at < length; at += gap {
		v.after(at, v.search)
	}
	for at := time.Duration(0); at < length; at += 500 * time.Millisecond {
		v.after(at, v.poll)
	}
	for at := time.Duration(0); at < length; at += 20 * time.Millisecond {
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
		if v.moved[i] {
			coordinated[n.ID] = Seen{Now: duration(v.seen[i]), Before: duration(v.told[i])}
			v.told[i] = v.seen[i]
			v.moved[i] = false
		}
	}
	for i, n := range v.nodes {
		p := Poll{State: Fine, Queries: 1, ServiceTime: duration(0.7 + 0.4*v.rng.Float64())}
		if i == 0 { // one coordinating node tells of all: which one does not matter here
			p.Coordinated = coordinated
		}
		v.s.ObservePoll(n.ID, p, at)
	}
	if len(coordinated) > 0 { // node 0 says nothing of itself
		if r, ok := coordinated[v.nodes[0].ID]; ok {
			v.s.ObservePoll(v.nodes[1].ID, Poll{State: Fine, Queries: 1, Coordinated: map[string]Seen{v.nodes[0].ID: r}}, at)
		}
	}
}

func (v *virtual) probe() {
	for _, p := range v.s.Probes(nil, v.nodes, epoch.Add(v.now)) {
		sent := v.now
		v.after(2*time.Millisecond+v.slow(slices.Index(v.nodes, p.Node), sent), func() {
			v.s.ObserveProbe(p, ProbeOutcome{Took: v.now - sent}, epoch.Add(v.now))
		})
	}
}

func (v *virtual) search() {
	start := v.now
	d := &Decision{}
	v.s.Choose(d, Request{Nodes: v.nodes, Shards: v.shards, Outliers: v.when}, epoch.Add(start))
	v.s.Acquire(d, epoch.Add(start))
	v.total++
	var slowest time.Duration
	touched := false
	for _, copies := range v.shards {
		var listed []int
		for _, p := range copies {
			for _, n := range d.Nodes {
				if v.nodes[p] == n {
					listed = append(listed, p)
				}
			}
		}
		p := listed[v.rng.IntN(len(listed))]
		extra := v.slow(p, start)
		took := duration(3*math.Exp(v.rng.NormFloat64()*0.6)) + extra
		touched = touched || extra > 0
		slowest = max(slowest, took)
		v.after(took, func() {
			v.moved[p] = true
			v.seen[p] = 0.7*v.seen[p] + 0.3*millis(took)
		})
	}
	if touched {
		v.touched = append(v.touched, start)
	}
	done := false
	v.after(30*time.Millisecond, func() { // overdue
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
		v := newVirtual(t, "adaptive", func(node int, now time.Duration) time.Duration {
			if node == 2 && now > 10*time.Second {
				return 300 * time.Millisecond
			}
			return 0
		})
		v.run(rate, 70*time.Second)
		t.Logf("%d/s: %d searches waited for the slow node in the first second, %.2f %% later", rate,
			int(v.touchedBetween(10*time.Second, 11*time.Second, rate)*float64(rate)), 100*v.touchedBetween(11*time.Second, 70*time.Second, rate))
		require.Less(t, v.touchedBetween(11*time.Second, 70*time.Second, rate), 0.01, "rate %d", rate)
	}
}

// TestStallsDoNotLetTheSlowNodeBackIn adds what a busy machine does: now and then
// everything stands still for a moment.
func TestStallsDoNotLetTheSlowNodeBackIn(t *testing.T) {
	v := newVirtual(t, "adaptive", func(node int, now time.Duration) time.Duration {
		if node == 2 && now > 10*time.Second {
			return 300 * time.Millisecond
		}
		return 0
	})
	for at := 11 * time.Second; at < 70*time.Second; at += 3 * time.Second {
		v.after(at, func() { // what runs now answers 150 ms later than it would
			for i := range v.queue {
				v.queue[i].at = max(v.queue[i].at, v.now+150*time.Millisecond)
			}
			heap.Init(&v.queue)
		})
		_ = at
	}
	v.run(80, 70*time.Second)
	require.Less(t, v.touchedBetween(12*time.Second, 70*time.Second, 80), 0.01)
}

// TestRecoveredNodeCarriesItsShareAgain: the node is slow for 20 s.
func TestRecoveredNodeCarriesItsShareAgain(t *testing.T) {
	v := newVirtual(t, "adaptive", func(node int, now time.Duration) time.Duration {
		if node == 2 && now > 10*time.Second && now < 30*time.Second {
			return 300 * time.Millisecond
		}
		return 0
	})
	v.run(80, 120*time.Second)
	require.InDelta(t, 0.2, v.s.View(v.nodes, epoch.Add(120*time.Second))[2].Share, 0.1)
}
