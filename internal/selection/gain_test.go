package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A list that has to use a node that is to be kept out, for want of another copy, gains nothing if what it
// leaves out is about as slow: the engine spares both where it can. It does if that is far slower.
func TestAListThatUsesWhatItIsToKeepOutMustGainSomething(t *testing.T) {
	for _, c := range []struct {
		used, left float64 // ms, of the last probes
		want       Reason
	}{{100, 100, NoOutlier}, {100, 300, NoOutlier}, {100, 310, Ranked}, {100, 1000, Ranked}} {
		s, nodes := newTest(t, "adaptive", 7)
		setTimes(nodes, 5, 3)
		for i, took := range []float64{c.used, c.left} { // shard 2 is on both
			s.eject(nodes[2+i], Slow, s.since(at(time.Second)), "a test")
			nodes[2+i].probe.took.Set(took)
		}
		d := decide(s, nodes, time.Second)
		require.Equal(t, c.want, d.Reason, "%+v", c)
		require.Equal(t, c.want == NoOutlier, slices.Contains(d.Nodes, nodes[3]), "%+v", c)
	}
}

// A list that sends searches into a queue, in which they wait for far longer than what it leaves out takes,
// gains nothing, though all nodes together are idle.
func TestAListDoesNotSendSearchesIntoALongQueue(t *testing.T) {
	for _, c := range []struct {
		queue, response float64 // shard queries; ms, of the slow node
		want            Reason
	}{{0, 120, Ranked}, {450, 120, Ranked}, {500, 120, NoOutlier}, {500, 160, Ranked}} {
		s, nodes := newTest(t, "adaptive", 5)
		setTimes(nodes, 5, 3)
		for _, n := range nodes {
			n.Processors = 4
		}
		s.eject(nodes[2], Slow, s.since(at(time.Second)), "a test")
		nodes[2].probe.took.Set(100)
		set(&nodes[2].response, c.response)
		set(&nodes[3].queue, c.queue)
		require.Equal(t, c.want, decide(s, nodes, time.Second).Reason, "%+v", c)
	}
}
