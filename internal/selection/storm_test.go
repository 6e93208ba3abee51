package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// storm is all that may be told to a selector, by lot, from itself and from another one.
type storm struct {
	lot
	other *Selector
	asked []Asking
	told  int64
}

func newStorm(t *testing.T, seed uint64) *storm {
	w := &storm{lot: newLot(t, seed, 2), other: New(Options{Seed: seed + 1000, Epoch: epoch})}
	w.other.Update(infosOf(w.nodes), epoch)
	return w
}

func (w *storm) step() {
	w.now += time.Duration(w.r.Int64N(int64(30 * time.Millisecond)))
	switch w.r.IntN(16) {
	case 0, 1:
		w.poll(w.r.IntN(len(w.nodes)))
	case 2:
		w.settle()
	case 3:
		if w.r.IntN(10) == 0 {
			w.s.MarkUnreachable(w.nodes[w.r.IntN(len(w.nodes))], "refused", at(w.now))
		}
	case 4:
		if len(w.owed) > 0 {
			w.s.Suspect(w.owed[w.r.IntN(len(w.owed))], at(w.now))
		}
	case 5:
		w.bad[w.r.IntN(len(w.bad))] = w.r.Float64() * w.r.Float64()
	case 6, 7:
		w.probe()
	case 8:
		if len(w.owed) > 0 {
			w.asked = w.s.Ask(w.asked, w.owed[w.r.IntN(len(w.owed))], at(w.now))
		}
	case 9:
		if len(w.asked) > 0 {
			i := w.r.IntN(len(w.asked))
			w.s.Asked(w.asked[i], w.r.IntN(2) == 0, at(w.now))
			w.asked = slices.Delete(w.asked, i, i+1)
		}
		if len(w.owed) > 0 {
			w.s.Silent(w.owed[w.r.IntN(len(w.owed))], at(w.now))
		}
	case 10:
		w.toldBy()
	case 11:
		if w.r.IntN(20) == 0 {
			w.s.Leave(w.nodes[w.r.IntN(len(w.nodes))], at(w.now+time.Duration(w.r.Int64N(1e10))))
		}
		if w.r.IntN(20) == 0 {
			w.s.Permitted()
		}
	case 12:
		w.quota(w.r.IntN(w.data))
	case 13:
		w.member()
	default:
		w.choose()
	}
}

// member changes a node, or has it away for a moment.
func (w *storm) member() {
	if w.r.IntN(20) > 0 {
		return
	}
	infos := infosOf(w.nodes)
	i := w.r.IntN(len(infos))
	if w.r.IntN(2) == 0 {
		infos[i].Processors = 1 + w.r.IntN(4)
	} else {
		w.s.Update(slices.Concat(infos[:i], infos[i+1:]), at(w.now))
		w.other.Update(slices.Concat(infos[:i], infos[i+1:]), at(w.now))
	}
	w.nodes = w.s.Update(infos, at(w.now))
	w.other.Update(infos, at(w.now))
}

// quota has a node tell of a CPU quota.
func (w *storm) quota(i int) {
	p := Poll{State: Fine, Took: time.Millisecond, Queries: w.r.Int64N(500), Elapsed: time.Second, Quota: 0.05 + w.r.Float64(), Used: w.r.Float64(), Queue: float64(w.r.IntN(3))}
	if w.r.IntN(2) == 0 {
		p.Throttled = 100 * time.Millisecond
	}
	w.s.ObservePoll(w.nodes[i].ID, p, at(w.now))
}

// toldBy has the other one probe, and tells what it found.
func (w *storm) toldBy() {
	w.other.Suspected(w.s.Suspects(nil, at(w.now)), at(w.now))
	for _, p := range w.other.Probes(nil, at(w.now)) {
		o := ProbeOutcome{Took: time.Duration(w.r.Int64N(int64(5 * time.Millisecond)))}
		if w.r.IntN(4) == 0 {
			o = w.badly()
		}
		w.other.ObserveProbe(p, o, at(w.now))
	}
	for _, f := range w.other.Findings(w.told) {
		w.told = f.Number
		w.s.TakeIn(f, at(w.now))
	}
}

// calm ends what is under way, and has all go well for as long as any ejection lasts; told: the other one probes.
func (w *storm) calm(told bool) {
	for _, d := range w.owed {
		d.Release()
	}
	for _, p := range w.sent {
		w.s.ObserveProbe(p, w.badly(), at(w.now))
	}
	for _, a := range w.asked {
		w.s.Asked(a, false, at(w.now))
	}
	for end := w.now + 3*time.Minute; w.now < end; w.now += 200 * time.Millisecond {
		for _, n := range w.nodes {
			p := Poll{State: Fine, Took: time.Millisecond, Queries: 20, Elapsed: 200 * time.Millisecond, ServiceTime: 3 * time.Millisecond, Coordinated: map[string]Seen{}}
			for _, m := range w.nodes[:w.data] {
				p.Coordinated[m.ID] = Seen{Now: 5 * time.Millisecond}
			}
			w.s.ObservePoll(n.ID, p, at(w.now))
			w.other.ObservePoll(n.ID, p, at(w.now))
		}
		if told {
			w.toldWell()
		}
		for _, p := range w.s.Probes(nil, at(w.now)) {
			w.s.ObserveProbe(p, ProbeOutcome{Took: 2 * time.Millisecond}, at(w.now+2*time.Millisecond))
		}
		d := &Decision{}
		w.s.Choose(d, Request{Nodes: w.nodes, Shards: ring(w.data, 2, w.data), Outliers: true}, at(w.now))
		w.s.Acquire(d, 1, at(w.now))
		w.s.Observe(d, Outcome{ResponseTime: 6 * time.Millisecond, Took: 5 * time.Millisecond, HasTook: true}, at(w.now+6*time.Millisecond))
		d.Release()
	}
}

func (w *storm) toldWell() {
	w.other.Suspected(w.s.Suspects(nil, at(w.now)), at(w.now))
	for _, p := range w.other.Probes(nil, at(w.now)) {
		w.other.ObserveProbe(p, ProbeOutcome{Took: 2 * time.Millisecond}, at(w.now+2*time.Millisecond))
	}
	for _, f := range w.other.Findings(w.told) {
		w.told = f.Number
		w.s.TakeIn(f, at(w.now+3*time.Millisecond))
	}
}

// Whatever has happened, when all is well again every node is used as any other, and nothing is left over.
func TestAfterAStormAllIsAsBefore(t *testing.T) {
	for seed := range uint64(10) {
		for _, told := range []bool{false, true} {
			w := newStorm(t, seed)
			for range 2000 {
				w.step()
			}
			w.calm(told)
			for _, n := range w.nodes {
				require.Equal(t, Fine, n.State(), "seed %d, %s", seed, n.Name)
				require.True(t, n.usable(), "seed %d, %s: avoided", seed, n.Name)
				require.False(t, n.owes(w.s.since(at(w.now))))
				require.Zero(t, n.Outstanding(), "seed %d", seed)
				require.Zero(t, n.coordinating.Load(), "seed %d", seed)
				require.Zero(t, n.probe.inFlight, "seed %d, %s", seed, n.Name)
				require.Zero(t, n.probe.overdue.Load(), "seed %d, %s", seed, n.Name)
				require.Zero(t, n.probe.against.Load(), "seed %d, %s", seed, n.Name)
				require.False(t, n.probe.wanted.Load(), "seed %d, %s", seed, n.Name)
			}
			d := &Decision{}
			w.s.Preview(d, Request{Nodes: w.nodes, Shards: ring(w.data, 2, w.data), Outliers: true}, at(w.now))
			require.Equal(t, NoOutlier, d.Reason, "seed %d", seed)
		}
	}
}
