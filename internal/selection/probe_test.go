package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// suspected returns five nodes that owe the answer to a search that began at sent, and
// the probes that suspicion brought, by the node that they are about.
func suspected(t *testing.T, sent time.Time) (*Selector, *Decision, Request, map[*Node]Probe) {
	t.Helper()
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	s.probeTime.observe(1)
	req := Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}
	d := &Decision{}
	s.Choose(d, req, sent)
	s.Acquire(d, sent)
	s.Suspect(d, sent.Add(100*time.Millisecond))
	probes := map[*Node]Probe{}
	for _, p := range s.Probes(nil, nodes, sent.Add(100*time.Millisecond)) {
		if !p.AboutVia() {
			probes[p.Node] = p
		}
	}
	require.Len(t, probes, 5)
	return s, d, req, probes
}

// While all searches wait for one node, only probes tell the others from it; and one
// whose probe goes through that node cannot answer either.
func TestOnlyTheNodeThatStandsStillIsBlamed(t *testing.T) {
	sent := at(10 * time.Second)
	s, overdue, req, probes := suspected(t, sent)
	nodes := req.Nodes
	still, behind := nodes[3], (*Node)(nil)
	now := sent.Add(101 * time.Millisecond)
	d := &Decision{}
	for n, p := range probes {
		if p.Via == still {
			behind = n
		}
		if n != still && p.Via != still {
			s.ObserveProbe(p, ProbeOutcome{Took: time.Millisecond}, now)
		}
		s.Choose(d, req, now) // some have answered by now: the others are not silent for that
	}
	require.NotNil(t, behind, "probes go through different nodes")
	for range 60 {
		now = now.Add(10 * time.Millisecond)
		s.Suspect(overdue, now)
		for _, p := range s.Probes(nil, nodes, now) {
			if p.Node != still && p.Via != still {
				s.ObserveProbe(p, ProbeOutcome{Took: time.Millisecond}, now.Add(time.Millisecond))
			}
		}
		s.Choose(d, req, now)
	}
	for _, n := range nodes {
		require.Equal(t, n == still, n.State() == Slow, n.Name)
	}
	require.Positive(t, behind.health.good.Load(), "its probe went another way")
}

func TestANodeIsHeldToTheLimitThatItWasSentAwayBy(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	n := nodes[2]
	n.probe.limit.set(50)
	s.accuse(n, Slow, 1, "a test")
	s.Suspect(&Decision{Nodes: nodes, limit: 700}, at(time.Second))
	require.InDelta(t, 50, n.probe.limit.value(), 0)
	require.InDelta(t, 700, nodes[1].probe.limit.value(), 0)
}

func TestOnlyNodesThatAreFineTeachWhatProbesTake(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	n := nodes[1]
	probe := func(took time.Duration) {
		n.probe.sent.Store(s.since(at(time.Second)))
		s.ObserveProbe(Probe{Node: n, Via: nodes[0], Burst: 1, sent: s.since(at(time.Second))}, ProbeOutcome{Took: took}, at(2*time.Second))
		require.Zero(t, n.probe.strikes.Load())
	}
	probe(time.Millisecond)
	n.startRamp(1)
	set(&n.service, 3)
	set(&n.queue, 200) // explains what comes
	probe(500 * time.Millisecond)
	usual, _ := s.probeTime.value()
	require.InDelta(t, 1, usual, 1e-9)
}

// Of a shard whose copies are all on nodes that are out, the one that mends is listed.
func TestWhoMendsComesBeforeWhoDoesNot(t *testing.T) {
	later := at(3 * time.Second)
	for name, mend := range map[string]func(s *Selector, n *Node){
		"answers probes": func(s *Selector, n *Node) {
			s.accuse(n, Slow, s.since(at(2*time.Second)), "a test")
			set(&n.response, 900)
			n.health.good.Store(1)
		},
		"ramps": func(s *Selector, n *Node) { n.startRamp(s.since(later)) },
	} {
		s, nodes := newTest(t, "adaptive", 5)
		teach(nodes, 5, 3)
		s.accuse(nodes[2], Slow, s.since(at(2*time.Second)), "a test")
		mend(s, nodes[3])
		for range 50 { // one in ten is the ramping node's turn
			d := &Decision{}
			s.Choose(d, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}, later)
			require.Equal(t, "abde", names(d), name)
		}
	}
}

// A copy that answers late is better than one that answers nothing, though that had the
// shorter response time.
func TestWhoAnswersLateComesBeforeWhoHangs(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 5)
	teach(nodes, 5, 3)
	set(&nodes[2].response, 300)
	for _, n := range nodes[2:4] {
		s.accuse(n, Slow, s.since(at(2*time.Second)), "a test")
		n.acquire(s.since(at(2900*time.Millisecond)), false)
	}
	chosen := func(after time.Duration) string {
		d := &Decision{}
		s.Choose(d, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}, at(after))
		return names(d)
	}
	require.Equal(t, "abde", chosen(2910*time.Millisecond), "by response time")
	require.Equal(t, "abce", chosen(3*time.Second), "d owes answers for 100 ms")
	require.Equal(t, "abde", chosen(4*time.Second), "so does c, for longer than it takes")
}
