package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// A node that is killed and comes back costs no client an answer.
func TestKillAndReturn(t *testing.T) {
	ctx := t.Context()
	s := onStage(t)
	victim := s.Cluster.Nodes[4]
	require.NoError(t, s.Cluster.WaitGreen(ctx, ""))
	sidestep := &contender{name: "sidestep"}
	load := StartLoad(ctx, shared.rate, s.Sidestep.URL)

	time.Sleep(time.Second)
	require.NoError(t, victim.Kill())
	killed := time.Now()
	// It takes longer to start than it takes others to notice that it is gone.
	restart, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	require.NoError(t, victim.Restart(restart))
	require.NoError(t, s.Cluster.WaitGreen(restart, Index))
	t.Logf("%s was back with all copies after %.0f s", victim.Name, time.Since(killed).Seconds())
	time.Sleep(4 * time.Second)
	result, err := load.End()
	require.NoError(t, err)
	sidestep.result.Merge(result)
	s.table(t, sidestep)
	require.Zero(t, sidestep.result.Failed, "failed searches")
	require.Zero(t, sidestep.result.Partial, "partial answers")
}
