package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Another control, as after a reload, goes on with the limits, and takes what the one before has sent for load of others.
func TestWhatWasLearnedIsInherited(t *testing.T) {
	before := newRig(t, Options{Mode: Auto}, 1)
	var sent []*Ticket
	for range 100 {
		sent = append(sent, before.search(0))
	}
	for range 30 {
		before.now = before.now.Add(time.Second)
		before.poll(Poll{Queue: 50, Active: 2, Completed: 100, ServiceTime: 10 * time.Millisecond})
	}
	limit := *before.View("0", before.now).Limit
	require.Less(t, limit, 100.)

	next := newRig(t, Options{Mode: Auto, Queue: QueueOptions{Length: 7}}, 1)
	next.now = before.now
	next.Inherit(before.Control, next.now)
	require.InDelta(t, limit, *next.View("0", next.now).Limit, 1e-9)
	require.Equal(t, Admitted, next.search(0).Verdict, "one search is always admitted")
	require.Equal(t, Waits, next.search(0).Verdict, "the node has enough of the one before")
	for _, one := range sent {
		before.done(one)
	}
	for range 10 {
		next.now = next.now.Add(time.Second)
		next.poll(Poll{Active: 1})
	}
	require.Zero(t, next.Waiting())

	bounded := newRig(t, limited(5), 2)
	bounded.Inherit(before.Control, before.now)
	require.InDelta(t, 5, *bounded.View("0", before.now).Limit, 1e-9)

	for _, none := range []*rig{newRig(t, Options{Mode: Off}, 1), newRig(t, Options{Mode: Auto}, 1)} {
		unknown := newRig(t, Options{Mode: Auto}, 1)
		now := unknown.now
		if none.o.Mode == Auto { // and nothing was heard of its node for long
			now = now.Add(staleAfter + 1)
		}
		most := unknown.nodes["0"].limit
		unknown.Inherit(none.Control, now)
		require.InDelta(t, most, unknown.nodes["0"].limit, 1e-9)
	}
}
