package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStateChanges(t *testing.T) {
	log := []byte(`time=2026-11-20T19:33:49.182Z level=WARN msg="node state changed" node=node-1 node_id=L3 state=unresponsive was=fine why="poll stats: too late"
time=2026-11-20T19:33:49.200Z level=INFO msg=other node=node-1
time=2026-11-20T19:33:51.897Z level=INFO msg="node state changed" node=node-1 node_id=L3 state=ramping was=slow why=""
`)
	from := time.Date(2026, 11, 20, 19, 33, 49, 0, time.UTC)
	require.Equal(t, []StateChange{
		{from.Add(182 * time.Millisecond), "node-1", "unresponsive", "fine", "poll stats: too late"},
		{from.Add(2897 * time.Millisecond), "node-1", "ramping", "slow", ""},
	}, stateChanges(log, from))
	require.Len(t, stateChanges(log, from.Add(2*time.Second)), 1)
}
