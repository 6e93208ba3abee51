package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// served polls the nodes at now: each answered so many shard queries within a second, which
// took service each.
func served(s *Selector, nodes []*Node, queries int64, service, now time.Duration) {
	for _, n := range nodes {
		s.ObservePoll(n.ID, Poll{State: Fine, Queries: queries, ServiceTime: service, Elapsed: time.Second}, at(now))
	}
}

// withProcessors returns a selector with so many nodes of two processors each.
func withProcessors(t *testing.T, count int) (*Selector, []*Node) {
	t.Helper()
	s, nodes := newTest(t, count)
	infos := infosOf(nodes)
	for i := range infos {
		infos[i].Processors = 2
	}
	return s, s.Update(infos, epoch)
}

// A hundred sidesteps that each see a hundredth of the searches know the same old queues. They
// sent all searches of one shard to the node that had the shortest a poll ago.
func TestAClientThatSeesLittleLeavesOneShardToTheEngine(t *testing.T) {
	for sent, reason := range map[int]Reason{10: NoOutlier, 60: Ranked} {
		s, nodes := newTest(t, 2)
		request := Request{Nodes: nodes, Shards: [][]int{{0, 1}}, Outliers: true}
		d := &Decision{}
		for second := range 10 {
			now := time.Duration(second+1) * time.Second
			for range sent {
				s.Choose(d, request, at(now))
				s.Acquire(d, 1, at(now))
				d.Release()
			}
			served(s, nodes, 50, time.Millisecond, now)
		}
		s.Choose(d, request, at(11*time.Second))
		require.Equal(t, reason, d.Reason, "%d of 100 are its own", sent)
		request.Affinity = 1
		s.Choose(d, request, at(11*time.Second))
		require.Equal(t, Affinity, d.Reason, "the same string goes to the same copy")
		request.Affinity, request.Outliers = 0, false
		s.Choose(d, request, at(11*time.Second))
		require.Equal(t, Ranked, d.Reason, "a read by id")
	}
}

// Nodes count no reads by id as shard queries, so neither does what is compared with that.
func TestAClientThatReadsMuchLeavesOneShardToTheEngine(t *testing.T) {
	s, nodes := newTest(t, 2)
	d, request := &Decision{}, Request{Nodes: nodes, Shards: [][]int{{0, 1}}, Outliers: true}
	for second := range 10 {
		now := time.Duration(second+1) * time.Second
		for range 100 {
			s.Choose(d, Request{Nodes: nodes, Shards: [][]int{{0, 1}}}, at(now))
			s.Acquire(d, 0, at(now))
			require.EqualValues(t, 1, d.Nodes[0].Outstanding())
			d.Release()
		}
		served(s, nodes, 50, time.Millisecond, now)
	}
	s.Choose(d, request, at(11*time.Second))
	require.Equal(t, NoOutlier, d.Reason)
	require.Zero(t, s.Figures(nodes[0], at(11*time.Second)).Sent)
}

// The node that alone has the copies of a busy index coordinated all of its searches, too, and
// had less time left for them.
func TestAFullNodeDoesNotCoordinateWhatItAloneCanServe(t *testing.T) {
	s, nodes := withProcessors(t, 3)
	alone := [][]int{{1}}
	served(s, nodes, 100, 10*time.Millisecond, time.Second)
	require.Equal(t, nodes[1], choose(s, nodes, alone, at(time.Second)).Near())
	served(s, nodes[1:2], 100, 40*time.Millisecond, 2*time.Second)
	require.Nil(t, choose(s, nodes, alone, at(2*time.Second)).Near(), "1.9 of 2 processors are busy")
}

// Where many poll, each does so seldom. What a queue explains was taken for proof, as the poll
// that told of it came later.
func TestAnEjectionWaitsForAPoll(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	bad := late(300*time.Millisecond, nodes[2])
	for now := time.Second; now < 6*time.Second; now += ProbeTimeout {
		s.Suspect(&Decision{Nodes: nodes}, at(now))
		probeUnpolled(s, nodes, now, bad)
		require.Equal(t, Fine, nodes[2].State())
		require.True(t, nodes[2].health.avoided(), "it is avoided all the same")
	}
	suspect(s, nodes, 6*time.Second, 1, bad)
	require.Equal(t, Slow, nodes[2].State())
}

// A node that takes far longer than its neighbours, as it serves a heavier index, is suspected by every search. What finds
// nothing is done more and more rarely: each of a hundred sidesteps probed it ten times a second.
func TestSuspicionThatFindsNothingComesRarely(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	set(&nodes[2].response, 300)
	probes := 0
	for now := time.Second; now < 11*time.Second; now += 10 * time.Millisecond {
		decide(s, nodes, now)
		for _, p := range probeUnpolled(s, nodes, now, answeredWell) {
			if p.Node == nodes[2] {
				probes++
			}
		}
	}
	require.Positive(t, probes)
	require.Less(t, probes, 20)
}

func TestAFullQueueIsLoadUntilAPollTellsOtherwise(t *testing.T) {
	s, nodes := newTest(t, 2)
	s.ObservePoll(nodes[0].ID, Poll{State: Fine, Rejected: 0.5}, at(time.Second))
	require.True(t, nodes[0].rejects(s.since(at(9*time.Second))), "nothing was heard since")
	s.ObservePoll(nodes[0].ID, Poll{State: Unresponsive, Took: time.Second}, at(10*time.Second))
	require.False(t, nodes[0].rejects(s.since(at(10*time.Second))))
	for now := 11 * time.Second; now < 20*time.Second; now += time.Second {
		s.ObservePoll(nodes[0].ID, Poll{State: Fine}, at(now))
	}
	require.False(t, nodes[0].rejects(s.since(at(20*time.Second))))
}

// Where all copies are listed, as a list would gain nothing, searches are late on a node that is ejected. That has it probed no
// more often: it was ten times a second, by each sidestep.
func TestWhatIsEjectedIsNotProbedOnSuspicion(t *testing.T) {
	s, nodes := newTest(t, 5)
	setTimes(nodes, 5, 3)
	s.eject(nodes[2], Slow, s.since(at(time.Second)), "a test")
	s.Probers(100)
	probes := 0
	for now := time.Second; now < 61*time.Second; now += 10 * time.Millisecond {
		s.Suspect(&Decision{Nodes: nodes[2:3]}, at(now))
		s.Suspected([]string{nodes[2].ID}, at(now-2*time.Second))
		decide(s, nodes, now)
		for _, p := range probeUnpolled(s, nodes, now, late(300*time.Millisecond, nodes[2])) {
			if p.Node == nodes[2] {
				probes++
			}
		}
	}
	require.Equal(t, Slow, nodes[2].State())
	require.Positive(t, probes)
	require.Less(t, probes, 25, "once in 100 × 50 ms, in the mean")
}
