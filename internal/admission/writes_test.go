package admission

import (
	"testing"

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
