package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// toldBy is a client that searches nothing and learns from the probes of another one.
type toldBy struct {
	*Selector
	nodes  []*Node
	after  int64
	probes []Probe
	states []State // of the third node, as it changed
}

func newToldBy(t *testing.T, v *virtual) *toldBy {
	t.Helper()
	f := &toldBy{}
	f.Selector = New(Options{Clients: 1, Epoch: epoch, OnChange: func(c Change) { f.states = append(f.states, c.After) }})
	var infos []NodeInfo
	for _, n := range v.nodes {
		infos = append(infos, NodeInfo{ID: n.ID, Name: n.Name})
	}
	f.nodes = f.Update(infos, epoch)
	return f
}

// keep has the client be told by v every 200 ms, of polls, too, and asked for its own probes.
func (f *toldBy) keep(v *virtual) {
	now := epoch.Add(v.now)
	f.Selector.probes.lookedAt.Store(f.since(now))
	for _, found := range v.s.Findings(f.after) {
		f.TakeIn(found, now)
		f.after = found.Number
	}
	for _, n := range f.nodes {
		f.ObservePoll(n.ID, Poll{State: Fine, Took: time.Millisecond}, now)
	}
	f.probes = append(f.probes, f.Probes(nil, now)...)
	v.s.Suspected(f.Suspects(nil, now), now)
}

// A client that is told what the probes of another one found ejects a node as soon as it, and lets
// it in again, and hardly probes itself. It searches nothing, so all that it knows it was told.
func TestWhatAnotherFindsIsJudgedAsItsOwn(t *testing.T) {
	for _, ms := range []int{200, 5000} { // late, and without an answer
		v := newVirtual(t, by(ms, 2*time.Second, 20*time.Second, 2))
		f := newToldBy(t, v)
		for at := time.Duration(0); at < 40*time.Second; at += 200 * time.Millisecond {
			v.after(at, func() { f.keep(v) })
		}
		v.after(4*time.Second, func() { require.Equal(t, Slow, f.nodes[2].State(), "%d ms", ms) })
		v.run(80, 40*time.Second)
		require.Len(t, v.changes, 3, "%d ms: %v", ms, v.changes)
		require.Equal(t, []State{Slow, Ramping, Fine}, f.states[len(f.states)-3:], "%d ms", ms)
		require.LessOrEqual(t, len(f.probes), 3, "%d ms: one round at most, for a second look", ms)
		require.Contains(t, *f.nodes[2].health.why.Load(), "another sidestep")
	}
}

// What others suspect is probed, by one that searches nothing itself, and as often as by one client
// however many there are. So are nodes that nobody suspects, one a second.
func TestSuspicionsOfOthersAreProbed(t *testing.T) {
	v := newVirtual(t, by(200, 2*time.Second, 20*time.Second, 2))
	v.s.Probers(500)
	v.after(2*time.Second, func() { v.s.Suspected([]string{v.nodes[2].ID, "unknown"}, epoch.Add(v.now)) })
	for at := 3 * time.Second; at < 30*time.Second; at += 200 * time.Millisecond {
		v.after(at, func() { v.s.Suspected(nil, epoch.Add(v.now)) })
	}
	v.targets = nil // nothing is searched
	v.run(1, 30*time.Second)
	require.Len(t, v.changes, 3, "ejected, back, and well: %v", v.changes)
	require.Less(t, v.changes[0].at, 3*time.Second)
	require.InDelta(t, 25, v.probed(2, 6*time.Second, 16*time.Second), 6, "one in 0.4 s")
	require.Positive(t, v.probed(0, 25*time.Second, 30*time.Second))
}

// A finding is told once, by number; what is old, and of nodes that are not known, is left out.
func TestFindingsAreKeptForAWhile(t *testing.T) {
	v := newVirtual(t, by(5000, time.Second, time.Minute, 2))
	v.run(80, 30*time.Second)
	found := v.s.Findings(0)
	require.Len(t, found, maxFindings)
	for i, f := range found[1:] {
		require.Equal(t, found[i].Number+1, f.Number)
	}
	last := found[len(found)-1]
	require.Empty(t, v.s.Findings(last.Number))
	require.Equal(t, []Finding{last}, v.s.Findings(last.Number-1))
	require.NotEmpty(t, last.Probes)

	f := newToldBy(t, v)
	unheard := func(now time.Time, what string) {
		f.Selector.probes.lookedAt.Store(f.since(now))
		f.TakeIn(last, now)
		for _, n := range f.nodes {
			require.Zero(t, n.probe.heardAt.Load(), what)
		}
	}
	unheard(last.Sent.Add(3*roundLife), "it is old")
	unheard(last.Sent.Add(-time.Second), "it is not sent yet")
	f.nodes = f.Update([]NodeInfo{{ID: v.nodes[0].ID}}, epoch)
	unheard(last.Sent.Add(time.Second), "the others have left")
}

// heardOf returns a finding that two peers answered at once, and the node as o says.
func heardOf(n *Node, peers []*Node, sent time.Time, burst bool, o ProbeOutcome) Finding {
	f := Finding{Sent: sent}
	for _, p := range peers {
		f.Probes = append(f.Probes, FoundProbe{Node: p.ID, Via: peers[0].ID, Burst: burst, Outcome: ProbeOutcome{Took: time.Millisecond}})
	}
	f.Probes = append(f.Probes, FoundProbe{Node: n.ID, Via: peers[0].ID, Burst: burst, Outcome: o})
	return f
}

// What others found counts as far as own probes would: an ejection ends after two good ones since the
// last bad one, of which the last was a burst; what was found before that, and what own probes have
// overtaken, is nothing. Nothing that others find lets in a node that fails from here.
func TestWhatOthersFindCountsNoMoreThanOwnProbes(t *testing.T) {
	good, bad := ProbeOutcome{Took: time.Millisecond}, ProbeOutcome{Took: 300 * time.Millisecond}
	setUp := func(as State) (s *Selector, n *Node, hear func(after time.Duration, burst bool, o ProbeOutcome) int32) {
		s, nodes := newTest(t, 4)
		n = nodes[3]
		ejectedAt := epoch.Add(time.Minute)
		s.eject(n, as, s.since(ejectedAt), "a test")
		return s, n, func(after time.Duration, burst bool, o ProbeOutcome) int32 {
			now := ejectedAt.Add(after + 500*time.Millisecond)
			s.probes.lookedAt.Store(s.since(now))
			s.TakeIn(heardOf(n, nodes[:3], ejectedAt.Add(after), burst, o), now)
			return n.health.good.Load()
		}
	}
	_, _, hear := setUp(Slow)
	require.Zero(t, hear(-time.Second, true, good), "before it was ejected")
	require.EqualValues(t, 1, hear(time.Second, false, good))
	require.EqualValues(t, 1, hear(2*time.Second, false, good), "no burst")
	require.EqualValues(t, 2, hear(2500*time.Millisecond, true, good))

	_, n, hear := setUp(Slow)
	require.EqualValues(t, 1, hear(time.Second, false, good))
	require.Zero(t, hear(2*time.Second, true, bad))
	require.InDelta(t, 300, n.probe.took.Value(), 0.1)
	require.EqualValues(t, 1, hear(3*time.Second, false, good))
	require.Zero(t, hear(4*time.Second, false, bad), "one that is late counts, burst or not")
	require.Zero(t, hear(3500*time.Millisecond, false, good), "it was overtaken")

	_, n, hear = setUp(Failing)
	require.Zero(t, hear(time.Second, false, good))
	require.Zero(t, hear(2*time.Second, true, good))
	require.Equal(t, Failing, n.State())
}

// The probe that ends an ejection is a burst, whoever sent the one before: an own single one may be awaited when
// another sidestep tells of a good one.
func TestAnOwnSingleProbeEndsNoEjectionThatAnotherOneLookedInto(t *testing.T) {
	s, nodes := newTest(t, 4)
	n := nodes[3]
	s.eject(n, Slow, int64(time.Minute), "a test")
	const sent = time.Minute + time.Second
	awaited := s.Probes(nil, at(sent))
	s.TakeIn(heardOf(n, nodes[:3], at(sent+time.Millisecond), false, ProbeOutcome{Took: time.Millisecond}), at(sent+2*time.Millisecond))
	require.EqualValues(t, 1, n.health.good.Load())
	for _, p := range awaited {
		require.Equal(t, 1, p.Burst)
		s.ObserveProbe(p, answeredWell(p), at(sent+3*time.Millisecond))
	}
	require.EqualValues(t, 1, n.health.good.Load())
	answerProbes(s, nodes, sent+10*time.Millisecond, time.Minute+4*time.Second, answeredWell)
	require.Equal(t, Ramping, n.State(), "a burst does")
}

// A probe of another one that nothing can be compared with is no reason to send none: the node would stay ejected.
func TestWhatOthersCannotCompareIsProbed(t *testing.T) {
	s, nodes := newTest(t, 2)
	s.eject(nodes[0], Slow, int64(time.Second), "was unreachable")
	for now := time.Second; now < 20*time.Second; now += 200 * time.Millisecond {
		s.TakeIn(Finding{Sent: at(now - 100*time.Millisecond), Probes: []FoundProbe{{Node: nodes[0].ID, Via: nodes[1].ID, Outcome: ProbeOutcome{Took: 2 * time.Millisecond}}}}, at(now))
		probe(s, nodes, now, func(p Probe) ProbeOutcome {
			return ProbeOutcome{Took: 2 * time.Millisecond, Unfit: p.Node == nodes[1]}
		})
	}
	require.Equal(t, Fine, nodes[0].State())
}

// However many were told of a node's first good probe, they do not all send it a burst.
func TestTheSecondLookOfManyIsNotAtOnce(t *testing.T) {
	bursts := 0
	const clients = 100
	for seed := range uint64(clients) {
		s := New(Options{Clients: 1, Epoch: epoch, Seed: seed})
		nodes := s.Update([]NodeInfo{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}, epoch)
		s.Probers(500)
		at := epoch.Add(time.Minute)
		s.eject(nodes[3], Slow, s.since(at), "a test")
		s.probes.lookedAt.Store(s.since(at))
		s.TakeIn(heardOf(nodes[3], nodes[:3], at.Add(100*time.Millisecond), false, ProbeOutcome{Took: time.Millisecond}), at.Add(200*time.Millisecond))
		for ms := 200; ms < 3000; ms += 10 {
			for _, p := range s.Probes(nil, at.Add(time.Duration(ms)*time.Millisecond)) {
				if p.Node == nodes[3] {
					bursts++
				}
			}
		}
		require.EqualValues(t, 1, nodes[3].health.good.Load())
	}
	require.LessOrEqual(t, bursts, clients/5)
}

// A client that sends no probes, as it is switched off, names no suspects, and judges nothing.
func TestAClientThatDoesNotProbeTakesNoPart(t *testing.T) {
	s, nodes := newTest(t, 4)
	now := epoch.Add(time.Minute)
	s.eject(nodes[3], Slow, s.since(now), "a test")
	require.Empty(t, s.Suspects(nil, now))
	s.TakeIn(heardOf(nodes[2], nodes[:2], now, false, ProbeOutcome{Took: time.Second, Failed: true}), now)
	require.False(t, nodes[2].health.avoided())
	s.Probes(nil, now)
	require.Equal(t, []string{nodes[3].ID}, s.Suspects(nil, now))
}

// Polls matter while something is chosen by what they tell, and those of a node that something speaks against. A preview
// chooses nothing.
func TestPollsMatterWhileSomethingIsChosenByThem(t *testing.T) {
	s, nodes := newTest(t, 4)
	d := &Decision{}
	s.Probes(nil, epoch)
	needed := func(after time.Duration) (ids []string) {
		for _, n := range nodes {
			if s.NeedsPolls(n.ID, at(after)) {
				ids = append(ids, n.Name)
			}
		}
		return ids
	}
	shards := [][]int{{0, 1}, {2, 3}}
	served(s, nodes, 100, time.Millisecond, 0)
	s.Choose(d, Request{Nodes: nodes, Shards: shards, Outliers: true}, at(time.Second))
	require.Equal(t, NoOutlier, d.Reason)
	s.Preview(d, Request{Nodes: nodes, Shards: shards}, at(time.Second))
	require.Empty(t, needed(time.Second))
	s.Choose(d, Request{Nodes: nodes, Shards: shards}, at(time.Second))
	require.Len(t, needed(1900*time.Millisecond), 4)
	require.Empty(t, needed(2*time.Second))
	s.Chose(at(3 * time.Second))
	require.Len(t, needed(3*time.Second), 4)
	s.Suspect(&Decision{Nodes: nodes[:2]}, at(5*time.Second))
	require.Equal(t, []string{"a", "b"}, needed(5*time.Second))
	s.Probes(nil, at(5*time.Second))
	s.eject(nodes[3], Failing, int64(7*time.Second), "a test")
	require.Equal(t, []string{"d"}, needed(9*time.Second))
	d.Reason = ""
	s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{0}, {1}}}, at(10*time.Second))
	require.Equal(t, NoChoice, d.Reason)
	require.Equal(t, []string{"d"}, needed(10*time.Second))
	s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{0}}}, at(11*time.Second))
	require.Len(t, needed(11*time.Second), 4, "whether the only node is full decides what coordinates")
	require.False(t, s.NeedsPolls("nobody", at(13*time.Second)))
}
