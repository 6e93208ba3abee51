package selection

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// stepped returns t as a clock tells it that was put forward by d since the process began.
func stepped(t time.Time, d time.Duration) time.Time {
	type fields struct { // of a [time.Time]: the seconds of the clock are in bits 30 to 62
		wall uint64
		ext  int64
		loc  *time.Location
	}
	(*fields)(unsafe.Pointer(&t)).wall += uint64(d/time.Second) << 30 //nolint:gosec // no other way keeps the monotonic reading
	return t
}

// A process may begin before its clock is set. For how long a node has been what it is does not change by that.
func TestMomentsAreToldByTheClockAsItIsSetNow(t *testing.T) {
	began := time.Now()
	s := New(Options{Epoch: began})
	nodes := s.Update([]NodeInfo{{ID: "a"}, {ID: "b"}, {ID: "c"}}, began)
	s.ObservePoll("a", Poll{State: Fine}, began.Add(time.Second))
	s.ObservePoll("a", Poll{State: Unknown, Message: "503"}, began.Add(2*time.Second))
	s.Leave(nodes[0], began.Add(time.Minute))
	now := began.Add(10 * time.Second)
	for _, step := range []time.Duration{0, 24 * time.Hour} {
		f := s.Figures(nodes[0], stepped(now, step))
		require.WithinDuration(t, now.Add(step-8*time.Second), *f.Since, time.Millisecond)
		require.WithinDuration(t, now.Add(step-8*time.Second), f.LastError.At, time.Millisecond)
		require.WithinDuration(t, now.Add(step+50*time.Second), *f.LeavingUntil, time.Second)
	}
}

// A node that was ejected, and then cannot be reached, is known by that, and not by what it was ejected for.
func TestWhyANodeIsInItsStateIsTold(t *testing.T) {
	s, nodes := newTest(t, 5)
	why := func(n int) string { return s.Figures(nodes[n], at(time.Minute)).Why }
	s.eject(nodes[0], Slow, int64(time.Second), "a probe took 300 ms")
	require.Equal(t, "a probe took 300 ms", why(0))
	for range twice { // two clients
		s.MarkUnreachable(nodes[0], "connection refused", at(2*time.Second))
	}
	require.Equal(t, Unreachable, nodes[0].State())
	require.Equal(t, "connection refused", why(0))
	for _, state := range []State{Unknown, Unresponsive} {
		s.ObservePoll(nodes[1].ID, Poll{State: state, Message: "a poll failed"}, at(2*time.Second))
		require.Equal(t, state, nodes[1].State())
		require.Equal(t, "a poll failed", why(1))
	}
	s.ObservePoll(nodes[1].ID, Poll{State: Fine}, at(3*time.Second))
	require.Equal(t, Fine, nodes[1].State())
	require.Empty(t, why(1))
}

// Where no more nodes may be ejected, one that was unreachable is let in at once. Why it was ejected long ago is not
// why it comes back.
func TestWhyANodeComesBackIsNotWhyItWasEjectedBefore(t *testing.T) {
	s, nodes := newTest(t, 3)
	s.eject(nodes[1], Slow, int64(time.Second), "long ago")
	s.slowStart(nodes[1], int64(2*time.Second))
	s.advance(nodes[1], int64(time.Hour))
	s.eject(nodes[0], Slow, int64(time.Hour), "a test")
	s.MarkUnreachable(nodes[1], "refused", at(time.Hour))
	s.ObservePoll(nodes[1].ID, Poll{State: Fine}, at(time.Hour+time.Second))
	f := s.Figures(nodes[1], at(time.Hour+time.Second))
	require.Equal(t, Ramping, nodes[1].State())
	require.Equal(t, "was unreachable", f.Why)
}
