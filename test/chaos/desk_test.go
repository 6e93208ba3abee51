package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
	"sidestep/test/harness"
)

// Every surface names a node of a simulated cluster that stands still for a while: as
// far as that goes without a real engine.
func TestDeskNamesNodeAndCause(t *testing.T) {
	ctx := t.Context()
	binary, err := harness.Build(ctx)
	require.NoError(t, err)
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes: 5, Seed: 1, Adaptive: true, Indices: []simcluster.IndexSpec{{Name: Index, Shards: 5, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(cluster.Stop)
	sidestep, err := harness.StartFront(ctx, binary, cluster.URLs())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, harness.Close(sidestep, nil, t.Failed())) })
	stage := &Stage{Stage: harness.Stage{Binary: binary}, Sidestep: sidestep, Logf: t.Logf}
	require.NoError(t, sidestep.AwaitReady(ctx))
	desk, err := OpenDesk(ctx, stage, "../..")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, desk.Close()) })

	load := StartLoad(ctx, 50, sidestep.URL)
	require.NoError(t, stage.settle(ctx))
	const counted = 12 * time.Second // the counters of nodes that are well are read every 10 s: without them it may be a collection
	require.NoError(t, harness.Pause(ctx, counted))
	const node = "node-3"
	w := Watch{Surfaces: desk.Surfaces, Node: node, Right: []string{"pause"}, Limit: time.Minute}
	require.NoError(t, w.Before(ctx))
	began := time.Now()
	cluster.Nodes()[2].SetFault(simcluster.Fault{Pause: true})
	time.AfterFunc(stopped, func() { cluster.Nodes()[2].SetFault(simcluster.Fault{}) })
	trial := &Trial{Fault: Fault{Right: w.Right}, Node: node, Limit: w.Limit, Findings: w.Run(ctx, began)}
	trial.Sidestep, err = load.End()
	t.Logf("\n%s", trial)
	require.NoError(t, err)
	require.Zero(t, trial.Sidestep.Failed, "failed searches")
	require.Empty(t, trial.Wrong())
	for _, f := range trial.Findings {
		require.NotEmpty(t, f.Text, f.Surface)
	}
}

func TestCommandsTellWhatIsWrong(t *testing.T) {
	stage := &Stage{Stage: harness.Stage{Binary: "false"}, Sidestep: &harness.Front{AdminURL: "http://127.0.0.1:1"}}
	_, err := stage.Top().Look(t.Context(), time.Now())
	require.ErrorContains(t, err, "sidestep top: exit status 1")
	_, err = stage.Explain().Look(t.Context(), time.Now())
	require.ErrorContains(t, err, "sidestep explain: exit status 1")
}
