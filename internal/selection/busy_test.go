package selection

import (
	"slices"
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
		want    time.Duration // when it is ejected at the earliest; some probes later at the latest
	}{
		"nothing waits":             {0, 10, 100 * time.Millisecond, time.Second + proofTime},
		"polled rarely":             {0, 10, 600 * time.Millisecond, 1800 * time.Millisecond},
		"not polled since":          {0, 10, time.Hour, never},
		"something always waits":    {never, 10, 100 * time.Millisecond, never},
		"something waits, at first": {3 * time.Second, 10, 100 * time.Millisecond, 3*time.Second + proofTime},
		"nothing is worked off":     {never, 0, 100 * time.Millisecond, time.Second + ProbeTimeout + proofTime},
		"nothing any more":          {never, 10, 100 * time.Millisecond, 3*time.Second + ProbeTimeout + proofTime},
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		n, ejected := nodes[2], never
		s.Suspect(&Decision{Nodes: []*Node{n}}, at(time.Second))
		for now := time.Second; now < 10*time.Second && ejected == never; now += 10 * time.Millisecond {
			if now%c.every == 0 {
				p := Poll{State: Fine, Queries: c.queries, Elapsed: c.every}
				if name == "nothing any more" && now >= 3*time.Second {
					p.Queries = 0
				}
				if now < c.queued {
					p.Queue = 1
				}
				s.ObservePoll(n.ID, p, at(now))
			}
			for _, p := range s.Probes(nil, at(now)) {
				if p.Node != n {
					s.ObserveProbe(p, answeredWell(p), at(now))
				}
			}
			require.False(t, n.usable() && now > 1200*time.Millisecond, "%s: it is to be avoided at once, and for good: %v", name, now)
			if n.State() == Slow {
				ejected = now
			}
		}
		require.GreaterOrEqual(t, ejected, c.want-suspicionInterval, name)
		require.LessOrEqual(t, ejected, c.want+probeInterval, name)
	}
}

// What waits in a queue may keep a probe waiting, as long as it is worked off. A node the threads of which
// are stuck is avoided and ejected, however long its queue is.
func TestAQueueOfWhichNothingIsWorkedOffExcusesNoProbe(t *testing.T) {
	for name, poll := range map[string]Poll{
		"worked off": {State: Fine, Queue: 1000, Queries: 10, Elapsed: 500 * time.Millisecond},
		"stuck":      {State: Fine, Queue: 1000, Elapsed: 500 * time.Millisecond},
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		n := nodes[2]
		s.ObservePoll(n.ID, Poll{State: Fine, Queue: 1000, Queries: 10, Elapsed: 500 * time.Millisecond}, at(500*time.Millisecond))
		for now := time.Second; now < 10*time.Second; now += 100 * time.Millisecond {
			if now%(500*time.Millisecond) == 0 {
				s.ObservePoll(n.ID, poll, at(now))
			}
			s.Suspect(&Decision{Nodes: []*Node{n}}, at(now))
			probeUnpolled(s, nodes, now, late(ProbeTimeout, n))
		}
		require.Equal(t, name == "worked off", n.usable(), name)
		require.Equal(t, name != "worked off", n.State() == Slow, name)
	}
}

// A node that stays out for its queue is told of as busy, with what its probes took, until it is used again, or ejected.
func TestABusyNodeIsToldOf(t *testing.T) {
	for name, c := range map[string]struct {
		queue float64 // from two seconds on
		late  time.Duration
		want  []State
	}{
		"as good as others again": {0, 0, []State{Busy, Fine}},
		"late without a queue":    {0, 50 * time.Millisecond, []State{Busy, Slow}},
		"always busy":             {5, 50 * time.Millisecond, []State{Busy}},
	} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		n, states := nodes[2], []State{Fine}
		s.o.OnChange = func(change Change) {
			require.Equal(t, states[len(states)-1], change.Before, name)
			states = append(states, change.After)
			require.Equal(t, change.After == Fine, change.Why == "")
		}
		s.Suspect(&Decision{Nodes: []*Node{n}}, at(time.Second))
		queue, took := 5.0, 50*time.Millisecond
		for now := time.Second; now < 4*time.Second; now += 100 * time.Millisecond {
			if now >= 2*time.Second {
				queue, took = c.queue, c.late
			}
			s.ObservePoll(n.ID, Poll{State: Fine, Queue: queue, Queries: 10, Elapsed: 100 * time.Millisecond}, at(now))
			probe(s, nodes, now, late(took, n))
			if n.State() == Busy {
				f := s.Figures(n, at(now))
				require.Contains(t, f.Why, "while searches wait in its queue")
				require.WithinDuration(t, at(1200*time.Millisecond), *f.Since, 500*time.Millisecond)
			}
		}
		require.Equal(t, c.want, states[1:], name)
	}
}

// A busy node that cannot be reached, and one that gives way to one that is proved slow, is busy no more.
func TestWhatEndsThatANodeIsBusy(t *testing.T) {
	for name, end := range map[string]func(s *Selector, nodes []*Node){
		"unreachable": func(s *Selector, nodes []*Node) { s.MarkUnreachable(nodes[0], "refused", at(2*time.Second)) },
		"gives way":   func(s *Selector, nodes []*Node) { s.eject(nodes[1], Slow, int64(2*time.Second), "a test") },
	} {
		s, nodes := newTest(t, 3)
		s.ObservePoll(nodes[0].ID, Poll{State: Fine, Queue: 5, Queries: 10}, at(time.Second))
		for _, ms := range []int64{1000, 3000} {
			s.avoid(nodes[0], true, "late", ms*int64(time.Millisecond))
		}
		require.Equal(t, Busy, nodes[0].State())
		end(s, nodes)
		require.False(t, nodes[0].health.busy.Load(), name)
		require.False(t, nodes[0].health.avoided(), name)
	}
}

// Two late probes that are far apart may each have met a busy moment.
func TestLateProbesFarApartCountLittle(t *testing.T) {
	for apart, want := range map[time.Duration]State{suspicionInterval: Slow, 2 * time.Second: Fine} {
		s, nodes := newTest(t, 5)
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

// Many sidesteps together do not fill the queue of a busy node with their probes: each probes it rarely,
// and once after each poll that tells of no queue.
func TestOfManyClientsEachProbesABusyNodeRarely(t *testing.T) {
	probed := map[int64]int{}
	for _, clients := range []int64{1, 25 * probeBurst} {
		s, nodes := newTest(t, 5)
		setTimes(nodes, 5, 3)
		s.Probers(int(clients))
		n := nodes[2]
		s.Suspect(&Decision{Nodes: []*Node{n}}, at(time.Second))
		for now := time.Second; now < 21*time.Second; now += 10 * time.Millisecond {
			if now%(500*time.Millisecond) == 0 {
				s.ObservePoll(n.ID, Poll{State: Fine, Queue: 5, Queries: 10, Elapsed: 500 * time.Millisecond}, at(now))
			}
			for _, p := range s.Probes(nil, at(now)) {
				if p.Node == n {
					probed[clients]++
				}
				s.ObserveProbe(p, late(50*time.Millisecond, n)(p), at(now+50*time.Millisecond))
			}
		}
		require.Equal(t, Busy, n.State())
		require.False(t, n.usable())
		s.ObservePoll(n.ID, Poll{State: Fine, Queries: 10, Elapsed: 500 * time.Millisecond}, at(21*time.Second))
		atOnce := slices.ContainsFunc(s.Probes(nil, at(21*time.Second)), func(p Probe) bool { return p.Node == n })
		require.True(t, atOnce, "a poll without a queue has it probed at once")
	}
	require.InDelta(t, 50, probed[1], 10, "one in 0.4 s")
	require.Less(t, probed[25*probeBurst], 10)
}

// What another sidestep found before an own probe takes nothing from what own ones have found.
func TestAnOlderFindingTakesNothingBack(t *testing.T) {
	s, nodes := newTest(t, 5)
	e := entry{node: nodes[2], via: nodes[0]}
	for _, ms := range []int64{1000, 1100, 1200, 900} {
		s.speaksAgainst(&e, true, false, "a test", ms*int64(time.Millisecond))
	}
	require.EqualValues(t, 2*suspicionInterval, nodes[2].probe.lateFor)
	require.EqualValues(t, 1200*time.Millisecond, nodes[2].health.badAt.Load())
}

// Where one of two nodes is avoided and the other does not answer polls, neither is fit to send probes through. They are
// sent all the same: else the one that is well again would be avoided for good.
func TestProbesAreSentThroughUnfitNodesIfThereAreNoOthers(t *testing.T) {
	s, nodes := newTest(t, 2)
	s.avoid(nodes[0], false, "a test", int64(time.Second))
	s.ObservePoll(nodes[1].ID, Poll{State: Unresponsive, Took: time.Second}, at(time.Second))
	for now := time.Second; now < 3*time.Second; now += 100 * time.Millisecond {
		probeUnpolled(s, nodes, now, late(300*time.Millisecond, nodes[1]))
	}
	require.True(t, nodes[0].usable())
}

// A node is avoided as its probes are late, others' are not. Once those of the others are, too, that ends, as there is nothing
// that speaks against the one alone.
func TestProbesThatAllTimeOutEndAnAvoidance(t *testing.T) {
	for _, late := range []time.Duration{ProbeTimeout, 400 * time.Millisecond} {
		s, nodes := newTest(t, 5)
		began := time.Second
		for now := began; now < 8*time.Second; now += 100 * time.Millisecond {
			for _, n := range nodes {
				s.ObservePoll(n.ID, Poll{State: Fine, Queue: 5, Queries: 10, Elapsed: 100 * time.Millisecond}, at(now))
			}
			if now == began {
				s.speaksAgainst(&entry{node: nodes[2], via: nodes[0]}, true, false, "a test", int64(now))
				require.False(t, nodes[2].usable())
			}
			probeUnpolled(s, nodes, now, func(p Probe) ProbeOutcome {
				if p.Node == nodes[2] {
					return ProbeOutcome{Took: ProbeTimeout, Failed: true}
				}
				return ProbeOutcome{Took: late, Failed: late == ProbeTimeout}
			})
		}
		require.Equal(t, late == ProbeTimeout, nodes[2].usable(), late)
	}
}
