package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A request that was read before admission was switched off is offered after it: nothing
// would wake it.
func TestNothingWaitsWhileItIsOff(t *testing.T) {
	r := newRig(t, limited(1), 1)
	r.search(0)
	require.Equal(t, Waits, r.search(0).Verdict)
	r.SetMode(Off, r.now)
	require.Equal(t, Admitted, r.search(0).Verdict)
	require.Zero(t, r.Waiting())
}

// What a class sent while it was only observed, or what is never held up, is no debt that it
// must work off.
func TestARateKnowsNoDebt(t *testing.T) {
	o := Options{Mode: Observe, Min: 1000, Max: 1000, Classes: []Class{{Name: "slow", Rate: 5}}}
	r := newRig(t, o, 1)
	for range 1000 {
		r.done(r.search(0))
	}
	r.SetMode(Auto, r.now)
	r.now = r.now.Add(time.Second)
	require.Equal(t, Admitted, r.search(0).Verdict)
	for range 1000 {
		read := &Ticket{Passes: true, Parts: []Part{{Node: "0", Tasks: 1}}}
		r.Offer(read, r.now)
		require.Equal(t, Admitted, read.Verdict)
		r.done(read)
	}
	r.now = r.now.Add(time.Second)
	require.Equal(t, Admitted, r.search(0).Verdict)
	r.now = r.now.Add(-time.Second) // polls that were relayed tell of the past
	r.poll(Poll{})
	r.now = r.now.Add(time.Second)
	require.Equal(t, Waits, r.search(0).Verdict)
}

// However many wait for one node, those that wait for another are seen.
func TestManyThatWaitForOneNodeHideNoOther(t *testing.T) {
	r := newRig(t, limited(1), 2)
	busy, other := r.search(0), r.search(1)
	for range 500 {
		require.Equal(t, Waits, r.search(0).Verdict)
	}
	behind := r.search(1)
	require.Equal(t, Waits, behind.Verdict)
	r.done(other)
	require.Equal(t, Admitted, behind.Verdict)
	r.done(busy)
}

// The engines let a search have five shard queries at a time on a node.
func TestAWideSearchCountsWhatANodeHasAtOnce(t *testing.T) {
	r := newRig(t, limited(20), 1)
	var all []Verdict
	for range 5 {
		wide := &Ticket{Parts: []Part{{Node: "0", Tasks: 300, Needed: true}}}
		r.Offer(wide, r.now)
		all = append(all, wide.Verdict)
	}
	require.Equal(t, []Verdict{Admitted, Admitted, Admitted, Admitted, Waits}, all)
	require.Equal(t, 20.0, r.View("0", r.now).Admitted)
}

// A search larger than a limit goes where nothing else waits for room, whatever passes.
func TestWhatPassesKeepsNoSearchOut(t *testing.T) {
	r := newRig(t, limited(2), 1)
	for range 10 {
		r.Offer(&Ticket{Passes: true, Parts: []Part{{Node: "0", Tasks: 1}}}, r.now)
	}
	wide := &Ticket{Parts: []Part{{Node: "0", Tasks: 5, Needed: true}}}
	r.Offer(wide, r.now)
	require.Equal(t, Admitted, wide.Verdict)
	require.Equal(t, Waits, r.search(0).Verdict)
}

// A node that others have filled takes no room from the others.
func TestAFullNodeTakesNoRoomFromOthers(t *testing.T) {
	r := newRig(t, limited(10), 3)
	for range 50 {
		r.now = r.now.Add(time.Second)
		r.poll(Poll{Completed: 9})
		r.Observe("0", Poll{Threads: 2, Queue: 500, Active: 2, Completed: 9}, r.now)
	}
	for range 4 {
		require.Equal(t, Admitted, r.search(0, 1, 2).Verdict)
	}
}

// A flood that waits for one node is not refused in place of a search for another.
func TestAFullQueueRefusesWhatIsInIt(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "flood"}, {Name: "other"}}
	r := newRig(t, o, 2)
	for _, n := range r.order {
		n.capacity = 10
	}
	r.of(0, 1)
	for range 8 {
		require.Equal(t, Waits, r.of(0, 1).Verdict)
	}
	r.of(1, 0)
	for range 10 {
		require.Equal(t, Waits, r.of(1, 0).Verdict)
	}
	r.classes[0].Weight = 0.1 // it has most by its weight, and would be refused first
	last := r.of(1, 0)
	require.Equal(t, Refused, last.Verdict)
	require.Equal(t, 8, r.Classes()[0].Waiting)
}

// What fails at once says nothing of how long searches of a class take.
func TestFailuresDoNotTellHowLongSearchesTake(t *testing.T) {
	r := newRig(t, limited(5), 1)
	slow := r.search(0)
	r.now = r.now.Add(10 * time.Second)
	r.done(slow)
	for range 500 {
		failed := r.search(0)
		failed.Failed = true
		r.now = r.now.Add(time.Millisecond)
		r.done(failed)
		gone := r.search(0)
		r.now = r.now.Add(time.Millisecond)
		r.Abandon(gone, r.now)
	}
	require.InDelta(t, 10, r.classes[0].took, 1e-9)
}

// Searches that are large for a limit leave a part of it that none of them fits into. It grows all the same.
func TestALimitGrowsForSearchesThatDoNotFillIt(t *testing.T) {
	r := newRig(t, Options{Mode: Auto, Min: 13}, 1)
	r.order[0].limit = 13
	for range 5 {
		r.Offer(&Ticket{Parts: []Part{{Node: "0", Tasks: 5, Needed: true}}}, r.now)
	}
	require.InDelta(t, 10, r.order[0].ours, 0)
	for range 30 {
		r.now = r.now.Add(time.Second)
		r.poll(Poll{Threads: 13, Active: 10, Completed: 10})
		r.Offer(&Ticket{Parts: []Part{{Node: "0", Tasks: 5, Needed: true}}}, r.now)
	}
	require.Greater(t, r.order[0].limit, 15.0)
}

// What waits and is refused in place of another one may have kept something else waiting: that goes then.
func TestWhatIsRefusedFromTheQueueKeepsNothingWaiting(t *testing.T) {
	o := limited(2)
	o.Queue.Length = 2
	o.Classes = []Class{{Name: "wide"}, {Name: "other"}}
	r := newRig(t, o, 2)
	r.of(1, 0)
	wide := &Ticket{Parts: []Part{{Node: "0", Tasks: 2, Needed: true}, {Node: "1", Tasks: 2, Needed: true}}}
	r.Offer(wide, r.now)
	behind := r.of(1, 1)
	require.Equal(t, []Verdict{Waits, Waits}, []Verdict{wide.Verdict, behind.Verdict})
	r.classes[0].Weight = 0.1
	last := r.of(1, 1)
	require.Equal(t, Refused, wide.Verdict)
	require.Equal(t, []Verdict{Admitted, Admitted}, []Verdict{behind.Verdict, last.Verdict})
}

// Reads by id, and continuations, wait for nobody: they keep no class of searches to its share, and take no turn.
func TestWhatPassesTakesNobodysTurn(t *testing.T) {
	o := limited(20)
	o.Classes = []Class{{Name: "reports", Weight: 1}, {Name: "reads", Weight: 9}}
	r := newRig(t, o, 1)
	r.order[0].serves = true
	read := &Ticket{Class: 1, Passes: true, Parts: []Part{{Node: "0", Tasks: 1}}}
	r.Offer(read, r.now)
	r.done(read)
	for range 10 {
		require.Equal(t, Admitted, r.of(0, 0).Verdict)
	}
	require.Zero(t, r.classes[1].virtual)
}

// The first search of a class may be an exception: it does not hold back those to come for long.
func TestALongFirstSearchDoesNotHoldItsClassBack(t *testing.T) {
	o := limited(20)
	o.Classes = []Class{{Name: "default"}, {Name: "other"}}
	r := newRig(t, o, 1)
	r.poll(Poll{Completed: 1})
	answered := func(class int, took time.Duration) {
		s := r.of(class, 0)
		require.Equal(t, Admitted, s.Verdict)
		r.now = r.now.Add(took)
		r.done(s)
	}
	for range 10 {
		answered(1, 10*time.Millisecond)
	}
	answered(0, 5*time.Second)
	r.poll(Poll{Completed: 1})
	for i := range 120 {
		answered(min(i%6, 1), 10*time.Millisecond)
	}
	r.of(1, 0)
	for range 2 {
		require.Equal(t, Admitted, r.of(0, 0).Verdict)
	}
}

// A search that the engine answers by and by is as much work as it keeps nodes busy for: what they have of it at a time, for as
// long as it takes.
func TestAWideSearchIsNoMoreWorkThanItKeepsBusy(t *testing.T) {
	o := limited(40)
	o.Classes = []Class{{Name: "wide"}, {Name: "narrow"}}
	r := newRig(t, o, 1)
	r.poll(Poll{Completed: 1})
	r.order[0].others = 20
	tasks, lasts := []float64{50, 1}, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}
	type running struct {
		*Ticket
		ends time.Time
	}
	var all []running
	busy := make([]time.Duration, 2)
	begin := func(s *Ticket) {
		busy[s.Class] += time.Duration(s.atNodes()) * lasts[s.Class]
		all = append(all, running{s, r.now.Add(lasts[s.Class])})
	}
	for range 5000 {
		r.now = r.now.Add(time.Millisecond)
		for len(all) > 0 && !all[0].ends.After(r.now) {
			s := all[0]
			all = all[1:]
			for _, next := range append([]*Ticket(nil), r.Done(s.Ticket, r.now)...) {
				begin(next)
			}
		}
		for class := range o.Classes {
			for r.classes[class].length < 20 {
				s := &Ticket{Class: class, Parts: []Part{{Node: "0", Tasks: tasks[class], Needed: true}}}
				if r.Offer(s, r.now); s.Verdict == Admitted {
					begin(s)
				}
			}
		}
	}
	require.InDelta(t, 1, float64(busy[0])/float64(busy[1]), 0.3)
}

// Of a multi-search the engine has some searches at a time, however many it is to answer: by default as many as the search
// threads of its nodes, ten of each at most.
func TestAMultiSearchCountsWhatTheEngineHasAtOnce(t *testing.T) {
	r := newRig(t, limited(20), 2)
	many := func(atOnce int, parts ...Part) *Ticket {
		m := &Ticket{Searches: 100, AtOnce: atOnce, Parts: parts}
		r.Offer(m, r.now)
		require.Equal(t, Admitted, m.Verdict)
		return m
	}
	m := many(0, Part{Node: "0", Tasks: 300, Needed: true})
	require.Equal(t, 12.0, r.View("0", r.now).Admitted, "four at a time, of three shard queries each")
	require.Equal(t, Admitted, r.search(0).Verdict)
	r.done(m)
	m = many(2, Part{Node: "0", Tasks: 300, Needed: true})
	require.Equal(t, 7.0, r.View("0", r.now).Admitted, "the client may say how many")
	r.done(m)
	m = many(1000, Part{Node: "1", Tasks: 100, Needed: true})
	require.Equal(t, 100.0, r.View("1", r.now).Admitted)
	r.done(m)
	r.poll(Poll{Threads: 13, Completed: 1})
	m = many(0, Part{Node: "1", Tasks: 800, Needed: true})
	require.Equal(t, 100.0, r.View("1", r.now).Admitted, "twenty at a time, of five shard queries each")
	r.done(m)
	m = many(0)
	require.Equal(t, 10*r.mean, r.View("1", r.now).Admitted)
	require.Equal(t, 100*r.mean, m.cost)
	r.done(m)
}

// What is sent at once, as nothing waits for the same nodes, takes nobody's turn: else its class would have to let all others go first
// later, for as long as something had waited elsewhere.
func TestWhatGoesAtOnceTakesNobodysTurn(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "elsewhere"}, {Name: "served"}, {Name: "new"}}
	r := newRig(t, o, 2)
	r.of(0, 0)
	require.Equal(t, Waits, r.of(0, 0).Verdict)
	for range 1000 {
		s := r.of(1, 1)
		require.Equal(t, Admitted, s.Verdict)
		r.done(s)
	}
	running := r.of(2, 1)
	var all [3]int
	for range 10 {
		r.of(1, 1)
		r.of(2, 1)
	}
	for range 10 {
		turned := r.Done(running, r.now)
		require.Len(t, turned, 1)
		running = turned[0]
		all[running.Class]++
	}
	require.Equal(t, [3]int{0, 5, 5}, all)
}

// Of a class with a deadline the oldest go first, too, as long as none has been refused, or given to another class: after a burst all of
// them are in time.
func TestADeadlineKeepsTheOrderOfArrival(t *testing.T) {
	for _, lower := range []string{"", "lower"} {
		o := limited(1)
		o.Classes = []Class{{Name: "first", Deadline: 10 * time.Second, Downgrade: lower}, {Name: "lower"}}
		r := newRig(t, o, 1)
		running := r.search(0)
		oldest := r.search(0)
		r.now = r.now.Add(6 * time.Second)
		r.poll(Poll{})
		second := r.search(0)
		r.done(running)
		require.Equal(t, []Verdict{Admitted, Waits}, []Verdict{oldest.Verdict, second.Verdict})
		r.now = r.now.Add(5 * time.Second)
		r.poll(Poll{})
		third := r.search(0)
		r.now = r.now.Add(5 * time.Second)
		r.poll(Poll{})
		require.Equal(t, lower == "", second.Verdict == Refused)
		r.now = r.now.Add(time.Second)
		newest := r.search(0)
		r.done(oldest)
		if lower != "" { // it was given to the other class, which has its turn
			require.Equal(t, Admitted, second.Verdict)
			r.done(second)
		}
		require.Equal(t, []Verdict{Waits, Admitted}, []Verdict{third.Verdict, newest.Verdict})
	}
}
