package admission

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// rig is a control of some nodes, with time of its own.
type rig struct {
	*Control
	t   *testing.T
	now time.Time
}

// newRig returns a control that has polled its nodes: two search threads, nothing queued.
func newRig(t *testing.T, o Options, nodes int) *rig {
	r := &rig{Control: New(o), t: t, now: start}
	ids := make([]string, nodes)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	r.Update(ids)
	r.poll(Poll{})
	return r
}

// poll polls all nodes alike.
func (r *rig) poll(p Poll) {
	if p.Threads == 0 {
		p.Threads = 2
	}
	for _, n := range r.order {
		r.Observe(n.ID, p, r.now)
	}
}

// limited is an option that fixes the limit of all nodes.
func limited(limit float64) Options { return Options{Mode: Auto, Min: limit, Max: limit} }

// search offers a search of one shard query on each of these nodes.
func (r *rig) search(nodes ...int) *Ticket { return r.of(0, nodes...) }

func (r *rig) of(class int, nodes ...int) *Ticket {
	t := &Ticket{Class: class}
	for _, n := range nodes {
		t.Expect(Part{Node: strconv.Itoa(n), Tasks: 1, Needed: len(nodes) == 1})
	}
	r.Offer(t, r.now)
	return t
}

func (r *rig) done(t *Ticket) { r.Done(t, r.now) }

// Waiting returns how many tickets wait.
func (r *rig) Waiting() (n int) {
	for _, k := range r.Classes() {
		n += k.Waiting
	}
	return n
}

func TestALimitIsKept(t *testing.T) {
	r := newRig(t, limited(2), 1)
	a, b, c := r.search(0), r.search(0), r.search(0)
	require.Equal(t, []Verdict{Admitted, Admitted, Waits}, []Verdict{a.Verdict, b.Verdict, c.Verdict})
	r.done(a)
	require.Equal(t, Admitted, c.Verdict)
	r.done(a) // a second time: nothing
	require.Equal(t, Waits, r.search(0).Verdict)
}

// A limit of 0, or one that others use up, must not refuse for ever.
func TestOneSearchIsAlwaysAdmitted(t *testing.T) {
	r := newRig(t, Options{Mode: Auto, Max: 0.001}, 1)
	require.Equal(t, Admitted, r.search(0).Verdict)
	r = newRig(t, limited(4), 1)
	for range 50 {
		r.now = r.now.Add(time.Second)
		r.poll(Poll{Queue: 500, Active: 2, Completed: 3, Rejected: 9})
	}
	require.Greater(t, r.View("0", r.now).Others, 400.0)
	require.Equal(t, Admitted, r.search(0).Verdict)
	require.Equal(t, Waits, r.search(0).Verdict)
}

// A multi-search does not throttle itself item by item: it is admitted as a whole, and one
// that is larger than the limit alone. Its items count each.
func TestAMultiSearchIsAdmittedAsAWhole(t *testing.T) {
	r := newRig(t, limited(10), 1)
	m := &Ticket{Searches: 50, AtOnce: 50, Parts: []Part{{Node: "0", Tasks: 50, Needed: true}}}
	r.Offer(m, r.now)
	require.Equal(t, Admitted, m.Verdict)
	require.Equal(t, 50.0, r.View("0", r.now).Admitted)
	after := r.search(0)
	require.Equal(t, Waits, after.Verdict)
	second := &Ticket{Searches: 50, AtOnce: 50, Parts: []Part{{Node: "0", Tasks: 50, Needed: true}}}
	r.Offer(second, r.now)
	r.done(m)
	require.Equal(t, Admitted, after.Verdict)
	require.Equal(t, Waits, second.Verdict)
	require.Equal(t, Waits, r.search(0).Verdict, "it would starve the multi-search")
	r.done(after)
	require.Equal(t, Admitted, second.Verdict)
}

// Scrolls and points in time are never refused before new searches, but they count.
func TestContinuationsPass(t *testing.T) {
	r := newRig(t, Options{Mode: Auto, Min: 1, Max: 1, Queue: QueueOptions{Length: 1}}, 1)
	r.search(0)
	waits, refused := r.search(0), r.search(0)
	require.Equal(t, []Verdict{Waits, Refused}, []Verdict{waits.Verdict, refused.Verdict})
	scroll := &Ticket{Passes: true, Parts: []Part{{Node: "0", Tasks: 3}}}
	r.Offer(scroll, r.now)
	require.Equal(t, Admitted, scroll.Verdict)
	require.Equal(t, 4.0, r.View("0", r.now).Admitted)
}

// A client that goes away frees its place at once, and what it kept from others.
func TestAClientThatLeavesFreesItsPlace(t *testing.T) {
	r := newRig(t, Options{Mode: Auto, Min: 2, Max: 2, Queue: QueueOptions{Length: 2}}, 2)
	first := r.search(0)
	wide := &Ticket{Parts: []Part{{Node: "0", Tasks: 2, Needed: true}, {Node: "1", Tasks: 2, Needed: true}}}
	r.Offer(wide, r.now)
	behind := r.search(1)
	require.Equal(t, []Verdict{Waits, Waits}, []Verdict{wide.Verdict, behind.Verdict})
	require.Equal(t, Refused, r.search(0).Verdict)
	r.Abandon(wide, r.now)
	require.Equal(t, Admitted, behind.Verdict)
	require.Zero(t, r.Waiting())
	r.Abandon(wide, r.now) // a second time: nothing
	require.Zero(t, r.Waiting())
	r.done(wide)
	require.Equal(t, 1.0, r.View("0", r.now).Admitted)
	r.done(first)
}

// Nothing is charged twice: what is decided anew replaces what was decided.
func TestMovingATicketChargesOnce(t *testing.T) {
	r := newRig(t, limited(4), 2)
	s := r.search(0)
	s.Parts = []Part{{Node: "1", Tasks: 1, Needed: true}}
	r.Move(s, r.now)
	require.Zero(t, r.View("0", r.now).Admitted)
	require.Equal(t, 1.0, r.View("1", r.now).Admitted)
	r.done(s)
	require.Zero(t, r.View("1", r.now).Admitted)
	r.Move(s, r.now)
	require.Zero(t, r.View("1", r.now).Admitted)
}

// By default no more is refused than the engine would reject: its queues take as many
// shard queries as they are long.
func TestTheQueueIsAsLongAsTheEngines(t *testing.T) {
	r := newRig(t, limited(1), 2)
	r.poll(Poll{QueueSize: 5})
	for range 3 {
		r.search(0, 1)
	}
	waits := 0
	for r.search(0, 1).Verdict == Waits {
		waits++
	}
	require.Equal(t, 5, r.Waiting(), "two nodes with 5 places, 2 for each search")
	require.Less(t, waits, 6)
}

// Beyond its threads and half of its queue a node takes nothing, whatever is allowed, if all that is in flight is there. How long the queue is
// may be known late, and threads are started as they are needed.
func TestALimitIsAtMostWhatTheNodeTakes(t *testing.T) {
	for _, o := range []Options{{Mode: Auto}, {Mode: Auto, Min: 8, Max: 9}, {Mode: Target, TargetResponseTime: time.Second}} {
		c := New(o)
		c.Update([]string{"0"})
		for _, poll := range []struct {
			Poll
			most float64
		}{
			{Poll{Threads: 1, QueueSize: 4}, 3},
			{Poll{Threads: 2, QueueSize: 4}, 4},
			{Poll{Threads: 2}, 8},
			{Poll{Threads: 2, QueueSize: 6}, 5},
		} {
			c.Observe("0", poll.Poll, start)
			if poll.QueueSize == 0 {
				require.GreaterOrEqual(t, *c.View("0", start).Limit, poll.most, o)
				continue
			}
			require.InDelta(t, poll.most, *c.View("0", start).Limit, 0, o)
		}
	}
}

func TestSearchesForOtherNodesPass(t *testing.T) {
	r := newRig(t, limited(1), 2)
	r.search(0)
	require.Equal(t, Waits, r.search(0).Verdict)
	require.Equal(t, Admitted, r.search(1).Verdict)
}

// Where the engine chooses, the room of all nodes counts together.
func TestTheEngineChoosesAmongNodesWithRoom(t *testing.T) {
	r := newRig(t, limited(3), 2)
	r.search(0)
	r.search(0)
	r.search(0)
	require.Equal(t, Admitted, r.search(0, 1).Verdict)
	require.Equal(t, Waits, r.search(0, 1).Verdict)
}

func TestWithoutStatisticsNothingWaits(t *testing.T) {
	c := New(limited(1))
	c.Update([]string{"a"})
	r := &rig{Control: c, t: t, now: start}
	for range 10 {
		s := &Ticket{Parts: []Part{{Node: "a", Tasks: 1, Needed: true}}}
		c.Offer(s, r.now)
		require.Equal(t, Admitted, s.Verdict)
		require.True(t, s.Unmeasured)
	}
	require.Equal(t, 1, c.Open(r.now))
	r.poll(Poll{})
	require.Zero(t, c.Open(r.now))
	s := &Ticket{Parts: []Part{{Node: "a", Tasks: 1, Needed: true}}}
	c.Offer(s, r.now)
	require.Equal(t, Waits, s.Verdict)
	// Late polls let go what waits, too, at the next that ends.
	r.now = r.now.Add(staleAfter + time.Second)
	c.Turn(r.now)
	require.Equal(t, Admitted, s.Verdict)
}

func TestObserveOnlyCounts(t *testing.T) {
	o := limited(1)
	o.Mode = Observe
	r := newRig(t, o, 1)
	r.poll(Poll{QueueSize: 2})
	for range 6 {
		require.Equal(t, Admitted, r.search(0).Verdict)
	}
	found := r.Classes()[0]
	require.Equal(t, int64(5), found.WouldWait)
	require.Equal(t, map[Reason]int64{QueueFull: 3}, found.WouldRefuse)
	require.Zero(t, r.Waiting())
	require.Zero(t, found.Waiting)
	require.Zero(t, r.View("0", r.now).Waiting)
}

func TestSwitchingOffLetsEverythingGo(t *testing.T) {
	r := newRig(t, limited(1), 1)
	r.search(0)
	a, b := r.search(0), r.search(0)
	require.Len(t, r.SetMode(Off, r.now), 2)
	require.Equal(t, []Verdict{Admitted, Admitted}, []Verdict{a.Verdict, b.Verdict})
	require.Zero(t, r.Waiting())
}

// While searches wait each class gets its share of the work by its weight, whatever it
// sends.
func TestClassesShareByWeight(t *testing.T) {
	o := limited(4)
	o.Classes = []Class{{Name: "flood", Weight: 1}, {Name: "other", Weight: 3}}
	r := newRig(t, o, 1)
	var inFlight []*Ticket
	for i := range 4000 {
		for class, n := range []int{10, i % 3 * 2} {
			for range n {
				if s := r.of(class, 0); s.Verdict == Admitted {
					inFlight = append(inFlight, s)
				}
			}
		}
		r.now = r.now.Add(time.Millisecond)
		inFlight = append(inFlight[1:], r.Done(inFlight[0], r.now)...)
	}
	served := r.Classes()
	require.InDelta(t, 3, float64(served[1].Admitted)/float64(served[0].Admitted), 0.6)
}

// A flood that fills the queue refuses its own searches, not those of others.
func TestAFloodRefusesItself(t *testing.T) {
	o := limited(1)
	o.Queue.Length = 10
	o.Classes = []Class{{Name: "flood"}, {Name: "other"}}
	r := newRig(t, o, 1)
	r.of(0, 0)
	for range 10 {
		require.Equal(t, Waits, r.of(0, 0).Verdict)
	}
	require.Equal(t, Refused, r.of(0, 0).Verdict)
	other := &Ticket{Class: 1, Parts: []Part{{Node: "0", Tasks: 1, Needed: true}}}
	turned := r.Offer(other, r.now)
	require.Equal(t, Waits, other.Verdict)
	require.Len(t, turned, 1)
	require.Equal(t, Refused, turned[0].Verdict)
	require.Equal(t, QueueFull, turned[0].Reason)
}

// A class with a rate keeps it, and is no obstacle to others.
func TestARateIsKept(t *testing.T) {
	o := limited(1000)
	o.Classes = []Class{{Name: "slow", Rate: 50}, {Name: "other"}}
	r := newRig(t, o, 1)
	sent := 0
	for range 10_000 { // ten seconds
		if s := r.of(0, 0); s.Verdict == Admitted {
			r.done(s)
		}
		if s := r.of(1, 0); s.Verdict != Admitted {
			t.Fatal("the other class waits")
		} else {
			r.done(s)
		}
		r.now = r.now.Add(time.Millisecond)
		for _, s := range slices.Clone(r.Turn(r.now)) {
			r.done(s)
		}
		sent = int(r.Classes()[0].Admitted)
	}
	require.InEpsilon(t, 500, sent, 0.05)
	next := r.Next(r.now)
	require.True(t, next.After(r.now), "it waits for the clock")
	require.Less(t, next.Sub(r.now), 21*time.Millisecond)
}

// As long as clients wait patiently the order is that of arrival. When many leave before
// their turn the newest have the best chance.
func TestTheNewestGoFirstOnceClientsLeave(t *testing.T) {
	r := newRig(t, limited(1), 1)
	under := r.search(0)
	a, b := r.search(0), r.search(0)
	r.now = r.now.Add(10 * time.Second)
	r.done(under)
	require.Equal(t, []Verdict{Admitted, Waits}, []Verdict{a.Verdict, b.Verdict})
	r.poll(Poll{})
	for range 5 {
		gone := r.search(0)
		r.now = r.now.Add(time.Second)
		r.Abandon(gone, r.now)
	}
	c := r.search(0)
	r.done(a)
	require.Equal(t, []Verdict{Waits, Admitted}, []Verdict{b.Verdict, c.Verdict})
	r.now = r.now.Add(2 * forgetLeft)
	r.poll(Poll{})
	d := r.search(0)
	r.done(c)
	require.Equal(t, []Verdict{Admitted, Waits}, []Verdict{b.Verdict, d.Verdict})
}

func TestDeadlines(t *testing.T) {
	c := New(Options{Classes: []Class{{Name: "a", Deadline: time.Second}, {Name: "b"}}, Queue: QueueOptions{Time: 3 * time.Second}})
	require.Equal(t, time.Second, c.Patience(0))
	require.Equal(t, 3*time.Second, c.Patience(1))
}

// Whatever happens, what is in flight is what was admitted and not returned, and nothing
// waits while there is room.
func TestAccountsAgreeWhateverHappens(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := Options{Mode: Auto, Queue: QueueOptions{Length: 40}, Classes: []Class{{Name: "a"}, {Name: "b", Weight: 4}, {Name: "c", Rate: 200}}}
		r := newRig(t, o, 4)
		var all []*Ticket
		for range 3000 {
			r.now = r.now.Add(time.Duration(rng.IntN(3)) * time.Millisecond)
			switch rng.IntN(6) {
			case 0, 1:
				s := &Ticket{Class: rng.IntN(3), Passes: rng.IntN(20) == 0}
				for n := range 4 {
					if rng.IntN(2) == 0 {
						s.Expect(Part{Node: strconv.Itoa(n), Tasks: float64(1 + rng.IntN(3)), Needed: rng.IntN(3) == 0})
					}
				}
				r.Offer(s, r.now)
				all = append(all, s)
			case 2, 3:
				if len(all) > 0 {
					i := rng.IntN(len(all))
					if s := all[i]; s.Verdict == Waits {
						r.Abandon(s, r.now)
					} else {
						r.Done(s, r.now)
					}
					all = slices.Delete(all, i, i+1)
				}
			case 4:
				r.Turn(r.now)
			default:
				r.Observe(strconv.Itoa(rng.IntN(4)), Poll{
					Threads: 2, Queue: float64(rng.IntN(10)), Active: 2, Completed: int64(rng.IntN(50)), Rejected: int64(rng.IntN(40) / 39),
				}, r.now)
			}
		}
		ours, waiting, length := map[string]float64{}, map[string]float64{}, 0
		for _, s := range all {
			for _, h := range s.charges {
				switch {
				case s.charged:
					ours[h.node.ID] += h.tasks
				case s.Verdict == Waits:
					waiting[h.node.ID] += h.tasks
				}
			}
			if s.Verdict == Waits {
				length++
			}
		}
		require.Equal(t, length, r.Waiting())
		for _, n := range r.order {
			require.InDelta(t, ours[n.ID], n.ours, 1e-3)
			require.InDelta(t, waiting[n.ID], n.waiting, 1e-3)
			require.GreaterOrEqual(t, n.limit, 1.0)
		}
		for range 1000 { // and in the end everything goes
			for _, s := range all {
				r.Done(s, r.now)
			}
			r.now = r.now.Add(5 * time.Millisecond)
			r.Turn(r.now)
		}
		require.Zero(t, r.Waiting(), "seed %d", seed)
	}
}

// A class that waits for room does not wait for the clock, but nothing waits for a node that tells nothing any more.
func TestNextIsForRatesAndSilentNodes(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "a", Rate: 1000}}
	r := newRig(t, o, 1)
	r.search(0)
	require.Equal(t, Waits, r.search(0).Verdict)
	r.now = r.now.Add(time.Second)
	require.Greater(t, r.Next(r.now).Sub(r.now), staleAfter/2)
	r.now = r.Next(r.now)
	require.Len(t, r.Turn(r.now), 1)
	require.True(t, r.Next(r.now).IsZero())
}

// Clients that leave after their search has been sent were kept waiting, too.
func TestClientsThatLeaveInFlightCount(t *testing.T) {
	r := newRig(t, limited(1), 1)
	last := r.search(0)
	for range 5 {
		s := r.search(0)
		r.now = r.now.Add(time.Second)
		r.poll(Poll{})
		r.done(last)
		require.Equal(t, Admitted, s.Verdict)
		r.Abandon(s, r.now)
		last = r.search(0)
	}
	a := r.search(0)
	r.now = r.now.Add(600 * time.Millisecond)
	b := r.search(0)
	r.done(last)
	require.Equal(t, []Verdict{Waits, Admitted}, []Verdict{a.Verdict, b.Verdict})
}

// A class whose searches take long does not fill the nodes while another one is active.
func TestOneClassDoesNotFillTheNodes(t *testing.T) {
	o := limited(8)
	o.Classes = []Class{{Name: "heavy"}, {Name: "light"}}
	r := newRig(t, o, 1)
	r.poll(Poll{Completed: 1})
	light := r.of(1, 0)
	heavy := 0
	for range 8 {
		if r.of(0, 0).Verdict == Admitted {
			heavy++
		}
	}
	require.Equal(t, 4, heavy, "half of the limit")
	r.done(light)
	r.now = r.now.Add(2 * activeFor)
	r.poll(Poll{Completed: 1})
	require.Equal(t, 8.0, r.View("0", r.now).Admitted, "alone again it has all")
}

// Whoever waits is told once, by the call that changed its verdict.
func TestATicketIsToldOfOnce(t *testing.T) {
	r := newRig(t, limited(1), 1)
	first, second := r.search(0), r.search(0)
	require.Equal(t, []*Ticket{second}, r.Done(first, r.now))
	require.Empty(t, r.Observe("0", Poll{Threads: 2}, r.now))
	require.Equal(t, []*Ticket{r.search(0)}, r.SetMode(Off, r.now))
	require.Empty(t, r.SetMode(Observe, r.now))
	r.Update([]string{"0"})
	require.Len(t, r.order, 1)
}
