package demo

import (
	"context"
	"log/slog"
	"time"

	simcluster "sidestep/internal/sim/cluster"
)

const index = "products"

// simulated is the cluster of the demo that needs no engine: five nodes, five
// shards with a replica each, everything that comes to or from the network of
// node-3 takes 300 ms longer.
type simulated struct{ *simcluster.Cluster }

func startSimulated(logger *slog.Logger) (Cluster, error) {
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 5, Seed: 1, Adaptive: true, Logger: logger,
		Indices: []simcluster.IndexSpec{{Name: index, Shards: 5, Replicas: 1}},
	})
	if err != nil {
		return nil, err
	}
	s := simulated{c}
	const late, jitter = 300 * time.Millisecond, 50 * time.Millisecond
	s.slow().SetFault(simcluster.Fault{Extra: late, Jitter: jitter, CoordinatorDelay: late})
	return s, nil
}

func (s simulated) slow() *simcluster.Node { return s.Nodes()[2] }

func (s simulated) SlowNode() (id, name string) { return s.slow().ID(), s.slow().Name() }

func (s simulated) SetAdaptive(_ context.Context, on bool) error { return s.Cluster.SetAdaptive(on) }

func (s simulated) Close() error {
	s.Stop()
	return nil
}
