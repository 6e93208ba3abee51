package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An address that was given is polled by nobody: once it could not be reached, or failed, it was never tried again while another
// one was well. One to which no connection could be made is tried by one request, as that may take long to fail.
func TestAnAddressThatNobodyPollsHasItsTurnAgain(t *testing.T) {
	through := func(s *Selector, nodes []*Node, now time.Duration) (first int) {
		for range 100 {
			if s.Coordinator(nodes, func(*Node) bool { return true }, at(now)).Same(nodes[0]) {
				first++
			}
		}
		return first
	}
	for name, c := range map[string]struct {
		times int
		bad   func(s *Selector, n *Node)
		heard int // turns of a hundred once it has answered
		again int // and after a minute, if it has not
	}{
		"unreachable": {1, func(s *Selector, n *Node) { s.MarkUnreachable(n, "refused", at(time.Second)) }, 50, 1},
		"often":       {4, func(s *Selector, n *Node) { s.MarkUnreachable(n, "refused", at(time.Second)) }, 0, 1},
		"failing":     {2, func(s *Selector, n *Node) { s.Blame([]*Node{n}, "503", at(time.Second)) }, 0, 50},
	} {
		for _, heard := range []bool{false, true} {
			s, polled := newTest(t, 5)
			s.ObservePoll(polled[0].ID, Poll{State: Fine}, at(time.Millisecond))
			given := []*Node{NewNode(NodeInfo{ID: "one:9200"}), NewNode(NodeInfo{ID: "two:9200"})}
			for range c.times {
				c.bad(s, given[0])
				c.bad(s, polled[0])
			}
			require.Zero(t, through(s, given, time.Second), name)
			if heard {
				s.Heard(given[0], at(2*time.Second))
				s.Heard(polled[0], at(2*time.Second))
				require.True(t, given[0].Alive(), name)
				require.Equal(t, c.heard, through(s, given, 2*time.Second), name)
			}
			if !heard {
				require.Equal(t, c.again, through(s, given, 3*time.Second+holdMemory), name)
				s.Heard(given[0], at(3*time.Second+holdMemory))
			}
			require.Equal(t, 50, through(s, given, 3*time.Second+holdMemory), name)
			require.Zero(t, through(s, polled, time.Hour), "%s: of a node that is polled polls and probes tell", name)
		}
	}
}
