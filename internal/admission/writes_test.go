package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Nobody tells what a write costs the nodes: what they complete while writes end does.
func TestTheCostOfWritesIsLearned(t *testing.T) {
	o := limited(12)
	o.Learns = true
	r := newRig(t, o, 5)
	r.poll(Poll{Completed: 1}) // they serve
	write := func() *Ticket {
		w := &Ticket{}
		r.Offer(w, r.now)
		return w
	}
	for range 10 { // each makes 30 tasks, six on a node
		for range sampleTickets {
			w := write()
			require.Equal(t, Admitted, w.Verdict)
			r.poll(Poll{Completed: 6})
			r.done(w)
		}
	}
	require.InDelta(t, 30, r.mean, 2)
	first := write()
	require.InDelta(t, 6, r.View("0", r.now).Admitted, 0.5, "a fifth of it on each node")
	second := write()
	third := write()
	require.Equal(t, []Verdict{Admitted, Admitted, Waits}, []Verdict{first.Verdict, second.Verdict, third.Verdict})
	r.done(first)
	require.Equal(t, Admitted, third.Verdict)
	r.done(second)
	r.done(third)
	require.Zero(t, r.View("0", r.now).Admitted)
}

// busy has writes begin and end by turns, during each of which every node completes so many
// tasks.
func (r *rig) busy(writes int, completed int64) {
	for range writes {
		w := &Ticket{}
		r.Offer(w, r.now)
		require.Equal(r.t, Admitted, w.Verdict)
		r.poll(Poll{Completed: completed})
		r.done(w)
		r.poll(Poll{})
	}
}

// What nodes complete while nothing is sent from here is of others.
func TestWritesAreNotChargedWhatOthersSendMeanwhile(t *testing.T) {
	o := limited(12)
	o.Learns = true
	r := newRig(t, o, 5)
	r.poll(Poll{Completed: 1})
	for range 10 * sampleTickets {
		r.poll(Poll{Completed: 1000})
		r.busy(1, 6)
	}
	require.InDelta(t, 30, r.mean, 2)
	short := &Ticket{} // it begins and ends between two polls
	r.Offer(short, r.now)
	r.done(short)
	before := r.order[0].made
	r.poll(Poll{Completed: 6})
	require.Equal(t, before+6, r.order[0].made)
}

// Of what nodes complete the other sidesteps sent their part.
func TestWritesAreNotChargedWhatOtherSidestepsSend(t *testing.T) {
	o := limited(48)
	o.Learns, o.Sidesteps = true, 4
	r := newRig(t, o, 5)
	r.poll(Poll{Completed: 1})
	r.busy(10*sampleTickets, 24)
	require.InDelta(t, 30, r.mean, 2)
}

// However dear writes seem, as others write while they are in flight, two run at once, also
// those that began to wait when the limits were higher.
func TestTwoWritesRunAtOnceHoweverDear(t *testing.T) {
	o := limited(100)
	o.Learns = true
	r := newRig(t, o, 5)
	r.poll(Poll{Completed: 1})
	r.busy(10*sampleTickets, 10_000)
	require.Greater(t, r.mean, 10_000.0)
	var all []*Ticket
	verdicts := func() (out []Verdict) {
		for _, w := range all {
			out = append(out, w.Verdict)
		}
		return out
	}
	for range 5 {
		w := &Ticket{}
		r.Offer(w, r.now)
		all = append(all, w)
	}
	require.Equal(t, []Verdict{Admitted, Admitted, Waits, Waits, Waits}, verdicts())
	for _, n := range r.order {
		n.limit = 10
	}
	r.done(all[0])
	r.done(all[1])
	require.Equal(t, []Verdict{Admitted, Admitted, Admitted, Admitted, Waits}, verdicts())
	for _, w := range all[2:] {
		r.done(w)
	}
	for _, n := range r.order {
		require.Equal(t, []float64{0, 0, 0}, []float64{n.ours, n.searches, n.waiting})
	}
	require.Zero(t, r.classes[0].cost)
}

// Writes that wait for a refresh, and bodies that come slowly, are in flight and in no pool: limits grow until they all
// go. Where the pools are full they do not.
func TestWritesOutsideOfThePoolsDoNotKeepOthersWaiting(t *testing.T) {
	grown := func(queue, active float64) float64 {
		r := newRig(t, Options{Mode: Auto, Learns: true}, 3)
		r.poll(Poll{Threads: 8, QueueSize: 10_000, Completed: 1})
		for _, n := range r.order {
			n.limit = 96
		}
		for range 5 * 10 { // polls of 200 ms
			r.now = r.now.Add(200 * time.Millisecond)
			for _, n := range r.order {
				n.ours = n.most()
			}
			r.poll(Poll{Threads: 8, QueueSize: 10_000, Queue: queue, Active: active, Completed: 100})
		}
		return r.order[0].limit
	}
	require.Greater(t, grown(0, 0.3), 500.0)
	require.Less(t, grown(100, 8), 100.0)
}

// One request that makes thousands of tasks, one after the other, as a reindex does, says little of what others cost.
func TestAReindexDoesNotMakeWritesDear(t *testing.T) {
	o := limited(100)
	o.Learns = true
	r := newRig(t, o, 3)
	r.poll(Poll{Completed: 1})
	r.busy(10*sampleTickets, 2)
	require.InDelta(t, 6, r.mean, 1)
	reindex := &Ticket{}
	r.Offer(reindex, r.now)
	for range 1000 {
		r.poll(Poll{Completed: 100})
	}
	r.done(reindex)
	r.busy(sampleTickets, 2)
	require.Less(t, r.mean, 30.0)
	for range 10 {
		w := &Ticket{}
		r.Offer(w, r.now)
		require.Equal(t, Admitted, w.Verdict)
	}
}

// However many writes end between two polls of a node, they cost what nodes complete for them.
func TestTheCostOfManyWritesIsLearned(t *testing.T) {
	o := limited(100)
	o.Learns = true
	r := newRig(t, o, 5)
	r.poll(Poll{Completed: 1})
	for i := range 200 {
		for range 400 { // each makes ten tasks, two on a node
			w := &Ticket{}
			r.Offer(w, r.now)
			r.done(w)
		}
		r.now = r.now.Add(40 * time.Millisecond)
		r.Observe(r.order[i%5].ID, Poll{Threads: 2, Completed: 400 * 5 * 2}, r.now)
	}
	require.InDelta(t, 10, r.mean, 2)
}

// Each node tells of the time between two polls of its own, whatever lies between those of one node and of the next.
func TestTheCostOfWritesIsLearnedWheneverNodesArePolled(t *testing.T) {
	for _, gap := range []int{5, 200, 1000} { // ms
		o := limited(1000)
		o.Learns = true
		r := newRig(t, o, 2)
		r.poll(Poll{Completed: 1})
		for ms := range 100_000 { // a write each ms, which makes five tasks on each node
			w := &Ticket{}
			r.Offer(w, r.now)
			r.now = r.now.Add(time.Millisecond)
			switch ms % 2000 {
			case 0:
				r.Observe("0", Poll{Threads: 2, Completed: 10_000}, r.now)
			case gap:
				r.Observe("1", Poll{Threads: 2, Completed: 10_000}, r.now)
			}
			r.done(w)
		}
		require.InDelta(t, 10, r.mean, 1)
	}
}
