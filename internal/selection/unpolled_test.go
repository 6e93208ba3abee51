package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An address that was given is polled by nobody: once it could not be reached it was never tried again while another one could.
func TestAnAddressThatNobodyPollsHasItsTurnAgain(t *testing.T) {
	s, polled := newTest(t, 2)
	given := []*Node{NewNode(NodeInfo{ID: "one:9200", NoData: true}), NewNode(NodeInfo{ID: "two:9200", NoData: true})}
	refuse := func(now time.Duration) {
		for range 2 * twice {
			s.MarkUnreachable(given[0], "refused", at(now))
			s.MarkUnreachable(polled[0], "refused", at(now))
		}
	}
	through := func(nodes []*Node, now time.Duration) (first int) {
		for range 100 {
			if s.Coordinator(nodes, func(*Node) bool { return true }, at(now)).Same(nodes[0]) {
				first++
			}
		}
		return first
	}
	refuse(time.Second)
	require.Zero(t, through(given, holdMemory))
	require.Equal(t, 50, through(given, time.Second+holdMemory))
	require.True(t, given[0].Alive())

	refuse(2 * time.Minute)
	require.Zero(t, through(given, 2*time.Minute))
	s.Heard(given[0], at(2*time.Minute+time.Second))
	require.Equal(t, 50, through(given, 2*time.Minute+time.Second), "it has answered")

	s.Heard(polled[0], at(3*time.Minute))
	require.Zero(t, through(polled, time.Hour), "of a node that is polled a poll tells")
}
