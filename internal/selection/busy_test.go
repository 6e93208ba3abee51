package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Late probes are no proof while something waits in the queue of their node, nor for longer than polls
// tell that nothing does: the node is avoided, and not ejected. A queue of which nothing is worked off is no
// excuse.
func TestLateProbesAreNoProofWhileAQueueIsWorkedOff(t *testing.T) {
	never := time.Minute
	for name, c := range map[string]struct {
		queued  time.Duration // until when polls tell of a queue
		queries int64         // that polls tell were answered
		every   time.Duration // how far polls are apart
		want    time.Duration // when it is ejected, give or take two probes
	}{
		"nothing waits":             {0, 10, 100 * time.Millisecond, time.Second + proofTime},
		"polled rarely":             {0, 10, 600 * time.Millisecond, 1800 * time.Millisecond},
		"not polled since":          {0, 10, time.Hour, never},
		"something always waits":    {never, 10, 100 * time.Millisecond, never},
		"something waits, at first": {3 * time.Second, 10, 100 * time.Millisecond, 3*time.Second + proofTime},
		"nothing is worked off":     {never, 0, 100 * time.Millisecond, time.Second + proofTime},
	} {
		s, nodes := newTest(t, "adaptive", 5)
		setTimes(nodes, 5, 3)
		n, ejected := nodes[2], never
		s.Suspect(&Decision{Nodes: []*Node{n}}, at(time.Second))
		for now := time.Second; now < 10*time.Second && ejected == never; now += 10 * time.Millisecond {
			if now%c.every == 0 {
				p := Poll{State: Fine, Queries: c.queries, Elapsed: c.every}
				if now < c.queued {
					p.Queue = 1
				}
				s.ObservePoll(n.ID, p, at(now))
			}
			for _, p := range s.Probes(nil, nodes, at(now)) {
				if p.Node != n {
					s.ObserveProbe(p, answeredWell(p), at(now))
				}
			}
			require.False(t, n.usable() && now > 1200*time.Millisecond, "%s: it is to be avoided at once, and for good: %v", name, now)
			if n.State() == Slow {
				ejected = now
			}
		}
		require.InDelta(t, c.want, ejected, float64(2*probeInterval), name)
	}
}

// Two late probes that are far apart may each have met a busy moment.
func TestLateProbesFarApartCountLittle(t *testing.T) {
	for apart, want := range map[time.Duration]State{suspicionInterval: Slow, 2 * time.Second: Fine} {
		s, nodes := newTest(t, "adaptive", 5)
		setTimes(nodes, 5, 3)
		now := time.Second
		for now < 4*time.Second && nodes[2].State() == Fine {
			s.Suspect(&Decision{Nodes: nodes}, at(now))
			probe(s, nodes, now, late(50*time.Millisecond, nodes[2]))
			now += apart
		}
		require.Equal(t, want, nodes[2].State(), apart)
		require.False(t, nodes[2].usable())
	}
}
