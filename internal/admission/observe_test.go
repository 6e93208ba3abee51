package admission

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// observed returns a rig in mode observe, with a limit of one.
func observed(t *testing.T, q QueueOptions, classes ...Class) *rig {
	o := limited(1)
	o.Mode, o.Queue, o.Classes = Observe, q, classes
	return newRig(t, o, 1)
}

func TestObserveCountsWhatTheQueueWouldRefuse(t *testing.T) {
	r := observed(t, QueueOptions{Length: 2})
	for range 6 {
		r.search(0)
	}
	require.Equal(t, map[Reason]int64{QueueFull: 3}, r.Classes()[0].WouldRefuse)
	r = observed(t, QueueOptions{Bytes: 100})
	for range 6 {
		s := &Ticket{Bytes: 40, Parts: []Part{{Node: "0", Tasks: 1, Needed: true}}}
		r.Offer(s, r.now)
		require.Equal(t, Admitted, s.Verdict)
	}
	require.Equal(t, map[Reason]int64{NoRoom: 3}, r.Classes()[0].WouldRefuse)
}

func TestObserveCountsDeadlines(t *testing.T) {
	r := observed(t, QueueOptions{Time: 2 * time.Second}, Class{Name: "hurried", Deadline: time.Second}, Class{Name: "other"})
	first, hurried := r.of(1, 0), r.of(0, 0)
	r.of(0, 0)
	patient := r.of(1, 0)
	r.now = r.now.Add(900 * time.Millisecond)
	r.Done(first, r.now) // there is room for one of the hurried
	r.now = r.now.Add(200 * time.Millisecond)
	r.poll(Poll{})
	require.Equal(t, map[Reason]int64{TooLate: 1}, r.Classes()[0].WouldRefuse)
	require.Empty(t, r.Classes()[1].WouldRefuse)
	r.done(hurried)
	r.now = r.now.Add(time.Minute)
	r.poll(Poll{})
	r.done(patient)
	require.Empty(t, r.Classes()[1].WouldRefuse, "there was room for it in time")
	require.Equal(t, []int64{2, 1}, []int64{r.Classes()[0].WouldWait, r.Classes()[1].WouldWait})
}

// What the engine rejects would have been refused, if it still waited.
func TestObserveCountsWhatTheEngineRejects(t *testing.T) {
	r := observed(t, QueueOptions{})
	first, second := r.search(0), r.search(0)
	r.Rejected(second, r.now)
	r.done(second)
	require.Equal(t, map[Reason]int64{QueueFull: 1}, r.Classes()[0].WouldRefuse)
	r.Rejected(first, r.now)
	r.done(first)
	require.Equal(t, map[Reason]int64{QueueFull: 1}, r.Classes()[0].WouldRefuse)
	require.Zero(t, r.nodes["0"].ours)
	require.Zero(t, r.nodes["0"].ahead)
}

// Observe finds about what auto does when as much comes, and the nodes answer as many: here
// one every ten milliseconds, first come, first served.
func TestObserveFindsWhatAutoDoes(t *testing.T) {
	for _, load := range []float64{0.8, 1.5, 3} {
		play := func(mode Mode) (waited, refused int) {
			o := limited(4)
			o.Mode, o.Queue = mode, QueueOptions{Length: 20, Time: 150 * time.Millisecond}
			r := newRig(t, o, 1)
			rng := rand.New(rand.NewPCG(1, 2))
			var node []*Ticket
			sent := func(turned []*Ticket) {
				for _, s := range turned {
					if s.Verdict == Admitted {
						node = append(node, s)
					} else {
						refused++
					}
				}
			}
			for i := range 20_000 { // milliseconds
				r.now = r.now.Add(time.Millisecond)
				if rng.Float64() < load/10 {
					s := &Ticket{Parts: []Part{{Node: "0", Tasks: 1, Needed: true}}}
					sent(slices.Clone(r.Offer(s, r.now)))
					if s.Verdict == Waits {
						waited++
					} else {
						sent([]*Ticket{s})
					}
				}
				if i%10 == 0 && len(node) > 0 {
					s := node[0]
					node = node[1:]
					sent(slices.Clone(r.Done(s, r.now)))
				}
				sent(slices.Clone(r.Turn(r.now)))
				if i%200 == 0 {
					r.poll(Poll{Completed: 20, ServiceTime: 10 * time.Millisecond, Active: 1})
				}
			}
			if mode != Observe {
				return waited, refused
			}
			found := r.Classes()[0]
			return int(found.WouldWait), int(found.WouldRefuse[QueueFull] + found.WouldRefuse[TooLate])
		}
		waited, refused := play(Auto)
		would, wouldRefuse := play(Observe)
		t.Logf("load %.1f: waited %d, would %d; refused %d, would %d", load, waited, would, refused, wouldRefuse)
		require.InDelta(t, refused, wouldRefuse, 20+0.1*float64(refused))
	}
}

// What was observed is no hindrance once the mode is switched.
func TestWhatWasObservedIsForgotten(t *testing.T) {
	r := observed(t, QueueOptions{})
	var all []*Ticket
	for range 6 {
		all = append(all, r.search(0))
	}
	r.SetMode(Auto, r.now)
	require.Zero(t, r.Waiting())
	s := r.search(0)
	require.Equal(t, Waits, s.Verdict)
	for _, one := range all {
		require.Equal(t, Waits, s.Verdict)
		r.done(one)
	}
	require.Equal(t, Admitted, s.Verdict)
	r.done(s)
	require.Zero(t, r.View("0", r.now).Admitted)
	require.Zero(t, r.classes[0].inFlight)
}

// Whatever is observed, and however often the mode is switched, nothing is left over.
func TestWhatIsObservedLeavesNothing(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		o := Options{Mode: Observe, Queue: QueueOptions{Length: 10, Time: 50 * time.Millisecond}, Classes: []Class{{Name: "a"}, {Name: "b", Weight: 4}, {Name: "c", Rate: 200}}}
		r := newRig(t, o, 3)
		var all []*Ticket
		for range 3000 {
			r.now = r.now.Add(time.Duration(rng.IntN(3)) * time.Millisecond)
			switch rng.IntN(8) {
			case 0, 1, 2:
				all = append(all, r.of(rng.IntN(3), rng.IntN(3)))
			case 3, 4, 5:
				if len(all) > 0 {
					i := rng.IntN(len(all))
					r.end(all[i], rng.IntN(4) == 0)
					all = slices.Delete(all, i, i+1)
				}
			case 6:
				r.poll(Poll{Queue: float64(rng.IntN(10)), Active: 2, Completed: int64(rng.IntN(20))})
			default:
				if rng.IntN(20) == 0 {
					r.SetMode([]Mode{Observe, Auto}[rng.IntN(2)], r.now)
				}
			}
			for _, n := range r.order {
				require.LessOrEqual(t, n.ahead, n.ours)
			}
		}
		for _, s := range all {
			r.end(s, false)
		}
		require.Zero(t, r.length)
		for _, n := range r.order {
			require.Equal(t, []float64{0, 0, 0, 0}, []float64{n.ours, n.ahead, n.searches, n.waiting})
		}
		for i := range r.classes {
			require.Zero(t, r.classes[i].inFlight)
		}
	}
}

// end ends a ticket, wherever it is.
func (r *rig) end(t *Ticket, rejected bool) {
	if t.Verdict == Waits {
		r.Abandon(t, r.now)
		return
	}
	if rejected {
		r.Rejected(t, r.now)
	}
	r.done(t)
}
