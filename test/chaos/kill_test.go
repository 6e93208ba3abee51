package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
)

// A node that is killed and comes back costs no client an answer.
func TestKillAndReturn(t *testing.T) {
	ctx := t.Context()
	victim := shared.cluster.Nodes[4]
	require.NoError(t, shared.cluster.WaitGreen(ctx, ""))

	sidestep := &contender{name: "sidestep", targets: []string{shared.sidestep.URL}}
	type outcome struct {
		result *loadgen.Result
		err    error
	}
	loadCtx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan outcome, 1)
	go func() {
		result, err := loadgen.Run(loadCtx, load(sidestep.targets, 5*time.Minute, 0))
		done <- outcome{result, err}
	}()

	time.Sleep(4 * time.Second)
	require.NoError(t, victim.Kill())
	killed := time.Now()
	time.Sleep(4 * time.Second)
	restart, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	require.NoError(t, victim.Restart(restart))
	require.NoError(t, shared.cluster.WaitGreen(restart, index))
	t.Logf("%s was back with all copies after %.0f s", victim.Name, time.Since(killed).Seconds())
	time.Sleep(5 * time.Second)
	stop()

	end := <-done
	require.ErrorIs(t, end.err, context.Canceled)
	sidestep.result.Merge(end.result)
	table(t, sidestep)
	require.Zero(t, sidestep.result.Failed, "failed searches")
	require.Zero(t, sidestep.result.Partial, "partial answers")
}
