package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quotas are those of node 2, and of the others; 0: none. That of node 2 runs out if throttled says so. It uses a part
// of it, and the others of theirs.
type quotas struct {
	own, others float64
	throttled   bool
	used, usual float64
}

// withQuotas returns five nodes of four processors that have told of their quotas.
func withQuotas(t *testing.T, q quotas) (*Selector, []*Node) {
	t.Helper()
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	for _, n := range nodes {
		n.Processors = 4
	}
	q.poll(s, nodes, time.Second)
	return s, nodes
}

// alone has node 2 use such a part of its quota, so that it runs out, and its peers, of the same size, half of theirs.
func alone(used float64) quotas { return quotas{0.3, 0.3, true, used, 0.5} }

// poll has the nodes answer a poll.
func (q quotas) poll(s *Selector, nodes []*Node, now time.Duration) {
	for i, n := range nodes {
		p := Poll{State: Fine, Quota: q.others, Used: q.others * q.usual}
		if i == 2 {
			p.Quota, p.Used = q.own, q.own*q.used
			if q.throttled {
				p.Throttled = 100 * time.Millisecond
			}
		}
		s.ObservePoll(n.ID, p, at(now))
	}
}

// A node with a quota of far less CPU than its peers have is ejected, when that runs out, by the first
// late probe: as soon as it is avoided it has nothing to do, and its next probes are good. Where
// nodes of one size run out of their quotas a probe may be that late.
func TestAStarvedNodeIsEjectedByOneLateProbe(t *testing.T) {
	for _, c := range []struct {
		quotas
		took time.Duration
		want string
	}{
		{quotas{own: 0.05, throttled: true}, 90 * time.Millisecond, "ejected"},
		{quotas{own: 0.05, others: 1, throttled: true}, 90 * time.Millisecond, "ejected"},
		{quotas{own: 0.05}, 90 * time.Millisecond, "avoided"},              // it may have been busy
		{quotas{own: 0.6, throttled: true}, 90 * time.Millisecond, "well"}, // an eighth of what its peers have, and more
		{quotas{own: 0.6, throttled: true}, 200 * time.Millisecond, "avoided"},
		{quotas{own: 0.6, throttled: true, used: 1}, 90 * time.Millisecond, "avoided"},
		{alone(0.5), 90 * time.Millisecond, "well"},
		{alone(0.5), 200 * time.Millisecond, "avoided"},
		{alone(1), 90 * time.Millisecond, "avoided"},
		{alone(1), 20 * time.Millisecond, "well"},
		{quotas{0.3, 0.3, true, 1, 1}, 90 * time.Millisecond, "well"},
		{quotas{}, 90 * time.Millisecond, "avoided"},
	} {
		s, nodes := withQuotas(t, c.quotas)
		suspect(s, nodes, time.Second, 1, late(c.took, nodes[2]))
		got := "well"
		switch {
		case nodes[2].State() == Slow:
			got = "ejected"
			require.Contains(t, s.Figures(nodes[2], at(2*time.Second)).Why, ", and its CPU quota (0.05 CPUs) ran out")
		case nodes[2].health.avoided():
			got = "avoided"
		}
		require.Equal(t, c.want, got, "%+v", c)
	}
}

// What an ejected node answers while it has nothing to do says nothing of one that is short of CPU: it
// stays out for a minute, whatever it was ejected for. Once its quota is lifted it is back as soon as any other.
func TestAStarvedNodeStaysOutUntilItsQuotaIsLifted(t *testing.T) {
	for _, c := range []struct{ throttled, lifted, staysOut bool }{
		{true, false, true},
		{true, true, false},
		{false, false, true},
	} {
		s, nodes := withQuotas(t, quotas{own: 0.05, throttled: c.throttled})
		now := suspect(s, nodes, time.Second, proofs, late(90*time.Millisecond, nodes[2]))
		require.Equal(t, Slow, nodes[2].State(), "%+v", c)
		if c.lifted {
			quotas{}.poll(s, nodes, now)
		}
		for _, more := range []time.Duration{10 * time.Second, 35 * time.Second} {
			answerProbes(s, nodes, now, now+more, answeredWell)
			now += more
			require.Equal(t, c.staysOut, nodes[2].State() == Slow, "%+v", c)
		}
		answerProbes(s, nodes, now, now+35*time.Second, answeredWell)
		require.Equal(t, Fine, nodes[2].State(), "%+v", c)
	}
}

// In a full cluster a node with a small part of the others' CPU is not needed, whatever it answers.
func TestAStarvedNodeIsNotNeeded(t *testing.T) {
	for _, quota := range []float64{0, 0.05} {
		s, nodes := withQuotas(t, quotas{own: quota, throttled: true})
		for _, n := range nodes {
			set(&n.rate, 1.3)
		}
		now := suspect(s, nodes, time.Second, proofs, late(90*time.Millisecond, nodes[2]))
		require.Equal(t, quota > 0, nodes[2].State() == Slow, "quota %g", quota)
		require.Equal(t, quota > 0, decide(s, nodes, now).Reason == Ranked, "quota %g", quota)
	}
}

// Where the other copy of a shard is on a node that is merely avoided, or silent, that one is listed:
// the starved one answers probes sooner, but not searches. It is better than one that hangs.
func TestAStarvedNodeIsNearlyTheLastChoice(t *testing.T) {
	for took, list := range map[float64]string{30: "abde", 400: "abde", millis(ProbeTimeout): "acde"} {
		s, nodes := withQuotas(t, quotas{own: 0.05, throttled: true})
		now := suspect(s, nodes, time.Second, 1, late(90*time.Millisecond, nodes[2]))
		require.Equal(t, Slow, nodes[2].State())
		nodes[2].probe.took.Set(2)
		nodes[1].health.avoid.Store(1)
		nodes[1].probe.took.Set(took)
		require.Equal(t, list, names(decide(s, nodes, now)), took)
		nodes[1].health.clear()
		silence(nodes[1], at(now))
		require.Equal(t, list, names(decide(s, nodes, now)), "%g, and silent", took)
	}
}

// What goes through a starved node may wait for its next period. That says nothing of other nodes.
func TestTheWayThroughAStarvedNodeIsNoProof(t *testing.T) {
	s, nodes := withQuotas(t, quotas{own: 0.05, throttled: true})
	through := 0
	for now := time.Second; now < 3*time.Second; now += suspicionInterval {
		s.Suspect(&Decision{Nodes: nodes[:1]}, at(now))
		probe(s, nodes, now, func(p Probe) ProbeOutcome {
			if p.Via.Same(nodes[2]) && p.Node.Same(nodes[0]) {
				through++
				return ProbeOutcome{Took: 90 * time.Millisecond}
			}
			return answeredWell(p)
		})
		require.False(t, nodes[0].health.avoided(), "at %s", now)
	}
	require.Positive(t, through)
}

// A node that is polled rarely is not held to a quota that it was short of a moment ago only because no
// poll has told of it since. One that no longer answers polls is.
func TestWhatAPollTellsOfAQuotaCountsUntilTheNextOne(t *testing.T) {
	s, nodes := newTest(t, 5)
	n := nodes[2]
	poll := func(now time.Duration, p Poll) { s.ObservePoll(n.ID, p, at(now)) }
	ranOut := func(now time.Duration) bool { return n.ranOut(s.since(at(now))) }
	ran := Poll{State: Fine, Elapsed: 5 * time.Second, Quota: 0.3, Throttled: 100 * time.Millisecond}
	enough := ran
	enough.Throttled = 0
	poll(10*time.Second, ran)
	require.True(t, ranOut(14*time.Second))
	poll(15*time.Second, ran)
	require.True(t, ranOut(19*time.Second))
	poll(20*time.Second, enough)
	require.False(t, ranOut(20*time.Second))
	poll(25*time.Second, ran)
	poll(28*time.Second, Poll{State: Unresponsive, Took: time.Second})
	require.False(t, ranOut(28*time.Second))
	poll(30*time.Second, ran)
	poll(30200*time.Millisecond, enough)
	require.True(t, ranOut(31*time.Second), "the engine tells of it once a second")
}

// A node that uses up its quota, and does not answer its probes at all, is ejected as any other.
func TestANodeThatAloneUsesUpItsQuotaIsEjectedIfItHangs(t *testing.T) {
	s, nodes := withQuotas(t, alone(1))
	for now := time.Second; now < 4*time.Second; now += 10 * time.Millisecond {
		alone(1).poll(s, nodes, now)
		s.Suspect(&Decision{Nodes: nodes}, at(now))
		for _, p := range s.Probes(nil, at(now)) {
			if p.Node != nodes[2] { // that one is awaited
				s.ObserveProbe(p, answeredWell(p), at(now))
			}
		}
	}
	require.Equal(t, Slow, nodes[2].State())
}

// A node that uses up its quota, while its peers do not, is busy, like one with a queue: it gets no searches, and stays so
// though a probe meets it at a moment at which it runs. It is ejected only if it is later than its quota explains.
func TestANodeThatAloneUsesUpItsQuotaIsBusy(t *testing.T) {
	for took, want := range map[time.Duration]State{15 * time.Millisecond: Fine, 90 * time.Millisecond: Busy, 200 * time.Millisecond: Slow} {
		s, nodes := withQuotas(t, alone(1))
		n := nodes[2]
		sent := 0
		outcome := func(p Probe) ProbeOutcome {
			if sent++; p.Node == n && (want != Busy || sent%5 < 3) { // else it runs
				return ProbeOutcome{Took: took}
			}
			return answeredWell(p)
		}
		for now := time.Second; now < 8*time.Second; now += suspicionInterval {
			alone(1).poll(s, nodes, now)
			s.Suspect(&Decision{Nodes: nodes}, at(now))
			probe(s, nodes, now, outcome)
			if now >= 2*time.Second {
				require.Equal(t, want, n.State(), "%s, at %s", took, now)
				require.Equal(t, want == Fine, n.usable(), "%s, at %s", took, now)
			}
		}
		if want == Busy {
			require.Contains(t, s.Figures(n, at(8*time.Second)).Why, ", while it uses up its CPU quota")
			quotas{own: 0.3, others: 0.3}.poll(s, nodes, 8*time.Second)
			answerProbes(s, nodes, 8*time.Second, 11*time.Second, answeredWell)
			require.Equal(t, Fine, n.State())
		}
	}
}
