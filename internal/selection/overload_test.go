package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOverloadedWhenAllCopiesOfAShardReject(t *testing.T) {
	const second = time.Second
	full := func(s *Selector, at time.Duration, share float64, nodes ...*Node) time.Time {
		for _, n := range nodes {
			s.ObservePoll(n.ID, Poll{State: Fine, Rejected: share}, epoch.Add(at))
		}
		return epoch.Add(at + second/10)
	}
	for _, policy := range Policies() {
		s, nodes := newTest(t, policy, 4)
		shards := [][]int{{0, 1}, {2, 3}}
		now := full(s, second, 0.5, nodes[0], nodes[2])
		require.NotEqual(t, Overloaded, choose(s, nodes, shards, now).Reason, "each shard has a copy that takes searches")
		require.NotEqual(t, Overloaded, choose(s, nodes, [][]int{{3}, {0}}, now).Reason, "there is nothing to choose")

		now = full(s, second, 0.5, nodes[3])
		d := choose(s, nodes, shards, now)
		require.Equal(t, Overloaded, d.Reason, policy)
		require.False(t, d.Reason.Lists())
		require.Len(t, d.Nodes, 4, "the engine picks")
		require.Equal(t, Overloaded, choose(s, nodes, [][]int{{2, 3}}, now).Reason, "one shard")
		require.NotEqual(t, Overloaded, choose(s, nodes, [][]int{{0, 1}}, now).Reason, "another index")
		require.NotEqual(t, Overloaded, choose(s, nodes, shards, now.Add(2*second)).Reason, "it is over")

		s.ObservePoll(nodes[1].ID, Poll{State: Unreachable}, now)
		require.Equal(t, Overloaded, choose(s, nodes, [][]int{{0, 1}}, now).Reason, "one copy rejects, the other is gone")
		s.ObservePoll(nodes[0].ID, Poll{State: Unreachable}, now.Add(2*second))
		require.NotEqual(t, Overloaded, choose(s, nodes, [][]int{{0, 1}}, now.Add(2*second)).Reason, "gone is not full")
	}
}

// While all have queues a full one is nobody's fault.
func TestAFullQueueIsNoFaultWhileTheOthersWait(t *testing.T) {
	for name, tc := range map[string]struct {
		queue float64
		full  bool
		state State
	}{
		"the others wait, too":      {20, true, Fine},
		"the others have time":      {0, true, Failing},
		"it failed for its own":     {20, false, Failing},
		"its own, others have time": {0, false, Failing},
	} {
		s, nodes := newTest(t, "adaptive", 5)
		teach(nodes, 5, 3)
		for _, n := range nodes {
			set(&n.queue, tc.queue)
		}
		for range failuresInARow {
			d := choose(s, nodes, ring(5, 2, 5), at(time.Second))
			s.Observe(d, Outcome{Failed: true, Full: tc.full, Blamed: nodes[2:3], Message: "rejected"}, at(time.Second))
		}
		require.Equal(t, tc.state, nodes[2].State(), name)
		require.Equal(t, tc.state == Fine, nodes[2].penaltyLeft(s.since(at(time.Second))) == 0, name)
	}
}

// A probe that finds a full queue says nothing of its node while all have queues.
func TestAProbeThatIsRejectedIsNoFaultWhileTheOthersWait(t *testing.T) {
	for queue, state := range map[float64]State{20: Fine, 0: Failing} {
		s, nodes := newTest(t, "adaptive", 5)
		teach(nodes, 5, 3)
		for _, n := range nodes {
			set(&n.queue, queue)
		}
		for i := range 2 {
			p := Probe{Node: nodes[2], Via: nodes[i], Burst: 1, sent: s.since(at(time.Second))}
			nodes[2].probe.sent.Store(p.sent)
			s.ObserveProbe(p, ProbeOutcome{Took: time.Millisecond, Failed: true, Full: true, Message: "429"}, at(time.Second))
		}
		require.Equal(t, state, nodes[2].State())
	}
}

// While the others have queues, no list is made for a node that is kept out and works: it
// gets its searches, and coordinates.
func TestWhoWorksIsSparedWhileTheOthersWait(t *testing.T) {
	for queue, reason := range map[float64]Reason{20: NoOutlier, 0: Ranked} {
		for _, state := range []State{Slow, Failing, Ramping} {
			s, nodes := newTest(t, "adaptive", 5)
			teach(nodes, 5, 3)
			for _, n := range nodes {
				set(&n.queue, queue)
			}
			now := at(time.Second)
			bad := nodes[2]
			if state == Ramping {
				bad.startRamp(s.since(now))
				bad.outstanding.Store(0)
			} else {
				bad.sendAway(state, s.since(now), "a test")
				raise(&bad.health.late, s.since(now)) // else the engine asks the next copy
			}
			bad.probe.answered.Store(s.since(now))
			teach(nodes[2:3], 5, 3)
			var d Decision
			coordinates := false
			for range 20 {
				s.Choose(&d, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}, now)
				require.Equal(t, reason, d.Reason, state)
				coordinates = coordinates || d.Coordinator == bad
			}
			require.Equal(t, queue > 0, coordinates, state)

			if state != Ramping && queue > 0 {
				raise(&bad.health.badAt, s.since(now.Add(usefulFor))) // it stays out
				s.Choose(&d, Request{Nodes: nodes, Shards: ring(5, 2, 5), Outliers: true}, now.Add(usefulFor))
				require.Equal(t, Ranked, d.Reason, "it has answered no probe for long")
			}
		}
	}
}

func TestFewRejectionsAreABurst(t *testing.T) {
	s, nodes := newTest(t, "adaptive", 2)
	at := epoch
	for i := range 10 {
		at = at.Add(200 * time.Millisecond)
		for _, n := range nodes {
			s.ObservePoll(n.ID, Poll{State: Fine, Rejected: []float64{0.05, 0, 0, 0}[i%4]}, at)
		}
	}
	require.NotEqual(t, Overloaded, choose(s, nodes, [][]int{{0, 1}}, at).Reason)
}

func TestWhoRejectsIsKeptOutOnlyIfTheOthersCanTakeIt(t *testing.T) {
	for _, rate := range []float64{0.1, 10} { // shard queries per ms, of 1 ms on 4 processors
		s, err := New(Options{Policy: "adaptive", Clients: 1, Epoch: epoch})
		require.NoError(t, err)
		infos := []NodeInfo{{ID: "a", Name: "a", Processors: 4}, {ID: "b", Name: "b", Processors: 4}, {ID: "c", Name: "c", Processors: 4}}
		nodes := s.Update(infos)
		for _, n := range nodes {
			s.ObservePoll(n.ID, Poll{
				State: Fine, Queries: int64(rate * 1000), Elapsed: time.Second, ServiceTime: time.Millisecond,
			}, epoch.Add(time.Second))
		}
		s.ObservePoll("a", Poll{State: Fine, Rejected: 1}, epoch.Add(time.Second))
		d := choose(s, nodes, [][]int{{0, 1}, {1, 2}}, epoch.Add(time.Second))
		for range failuresInARow {
			s.Observe(d, Outcome{Failed: true, Blamed: nodes[:1]}, epoch.Add(time.Second))
		}
		require.Equal(t, rate < 1, nodes[0].health.excluded(), rate)
	}
}
