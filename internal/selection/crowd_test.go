package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Where many clients probe, each probes an ejected node rarely, at moments of its own, and looks at
// it soon again when it is well. A node that becomes bad is found as soon as by few.
func TestOfManyClientsEachProbesAnEjectedNodeRarely(t *testing.T) {
	const slowAt, wellAt = 2 * time.Second, 62 * time.Second
	var found [2]time.Duration
	var probed, samples [2]int
	for i, clients := range []int{probeBurst, 25 * probeBurst} {
		v := newVirtual(t, by(200, slowAt, wellAt, 2))
		v.s.Probers(clients)
		v.run(80, 90*time.Second)
		require.Len(t, v.changes, 3, "ejected, back, and well: %v", v.changes)
		back := v.changes[1].at
		found[i] = v.changes[0].at - slowAt
		probed[i], samples[i] = v.probed(2, 12*time.Second, wellAt), v.probed(1, 80*time.Second, 90*time.Second)
		require.Less(t, back-wellAt, 22*time.Second)
		if clients > probeBurst {
			require.GreaterOrEqual(t, v.probed(2, back-time.Second, back+time.Millisecond), 2, "the second look is soon")
		}
	}
	require.LessOrEqual(t, found[1], found[0]+100*time.Millisecond)
	require.InDelta(t, 125, probed[0], 20, "one in 0.4 s")
	require.InDelta(t, 5, probed[1], 4, "one in 10 s")
	require.Greater(t, samples[0], 2*samples[1])
}

// So it does where the node is polled rarely, as many others poll it. Polls of the usual interval, and
// those that a large cluster makes a little rarer, change nothing.
func TestWhatIsPolledRarelyIsProbedRarely(t *testing.T) {
	s, nodes := newTest(t, 5)
	n := nodes[2]
	for polls, want := range map[time.Duration]time.Duration{
		0: probeInterval, 200 * time.Millisecond: probeInterval, 700 * time.Millisecond: probeInterval,
		5 * time.Second: 9 * time.Second, 10 * time.Second: 19 * time.Second, time.Hour: holdMemory,
	} {
		n.pollsApart.Store(int64(polls))
		sum := time.Duration(0)
		const draws = 1000
		for i := range int64(draws) {
			n.probe.last = i * int64(time.Millisecond)
			d := s.apart(n, probeInterval, 0)
			require.GreaterOrEqual(t, d, probeInterval)
			sum += d
		}
		require.InEpsilon(t, want, sum/draws, 0.1, "polls %s apart", polls)
	}
}

// Probes that tell nothing are not made rare: they end an ejection that cannot be ended otherwise.
func TestWhereProbesAreRefusedOneOfManyClientsLetsANodeInAgain(t *testing.T) {
	v := newVirtual(t, well)
	v.refuse = true
	v.s.Probers(500)
	v.after(5*time.Second, func() { v.s.eject(v.nodes[2], Slow, int64(v.now), "a test") })
	v.run(80, 30*time.Second)
	require.NotEmpty(t, v.changes)
	require.Equal(t, Fine, v.nodes[2].State(), "%v", v.changes)
}
