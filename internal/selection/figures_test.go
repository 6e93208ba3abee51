package selection

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// stepped returns t as it is told by a clock that was put forward by an hour: only the time of day differs, not the
// time that has passed.
func stepped(t time.Time) time.Time {
	const seconds = 30 // the bit of wall in which seconds begin, see time.Time
	*(*uint64)(unsafe.Pointer(&t)) += 3600 << seconds
	return t
}

// The clock of a machine may be set after the start, as in a virtual machine that was suspended. For how long a node has
// been in its state does not depend on that.
func TestSinceWhenIsToldByTheClockOfToday(t *testing.T) {
	began := time.Now()
	s, err := New(Options{Policy: "adaptive", Clients: 1, Epoch: began})
	require.NoError(t, err)
	n := s.Update([]NodeInfo{{ID: "a", Name: "a"}}, began)[0]
	s.ObservePoll("a", Poll{State: Fine}, began.Add(time.Minute))
	s.Leave(n, began.Add(time.Hour))

	now := stepped(began.Add(3 * time.Minute))
	require.InDelta(t, 3*time.Minute, now.Sub(began), 0, "so much has passed")
	require.InDelta(t, 63*time.Minute, now.Round(0).Sub(began.Round(0)), 0, "by the time of day")
	f := s.Figures(n, now)
	require.Equal(t, now.Round(0).Add(-2*time.Minute).UTC().Truncate(time.Millisecond), *f.Since)
	require.Equal(t, now.Round(0).Add(57*time.Minute).UTC().Truncate(time.Second), *f.LeavingUntil)
}
