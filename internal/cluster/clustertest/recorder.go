package clustertest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

const (
	Soon = 3 * time.Minute       // long enough on a busy machine, with the race detector
	tick = 10 * time.Millisecond // of require.Eventually
)

// Recorder is a store under test with all that was published of it.
type Recorder struct {
	*cluster.Store
	T        *testing.T
	Registry *prometheus.Registry

	mu        sync.Mutex
	snapshots []*cluster.Snapshot
	stats     []cluster.NodeStats
}

// NewRecorder returns a recorder of a new store.
func NewRecorder(t *testing.T, o cluster.StoreOptions) *Recorder {
	w := &Recorder{T: t, Registry: prometheus.NewPedanticRegistry()}
	o.Registerer = w.Registry
	o.OnSnapshot = func(s *cluster.Snapshot) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.snapshots = append(w.snapshots, s)
	}
	w.Store = cluster.NewStore(o)
	return w
}

// Metric returns the value of the series of a counter or gauge that has these values of
// labels, 0 if there is none.
func (w *Recorder) Metric(name string, labels ...string) float64 {
	w.T.Helper()
	families, err := w.Registry.Gather()
	require.NoError(w.T, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			has := func(value string) bool {
				return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == value })
			}
			if !slices.ContainsFunc(labels, func(value string) bool { return !has(value) }) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// OnStats takes in a poll.
func (w *Recorder) OnStats(s cluster.NodeStats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats = append(w.stats, s)
}

// Published returns all snapshots so far.
func (w *Recorder) Published() []*cluster.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.snapshots)
}

// Stat returns a poll that was reported.
func (w *Recorder) Stat(node string, like func(cluster.NodeStats) bool) (cluster.NodeStats, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.stats, func(s cluster.NodeStats) bool { return s.Node == node && like(s) })
	if i < 0 {
		return cluster.NodeStats{}, false
	}
	return w.stats[i], true
}

// AllStats returns all polls that were reported.
func (w *Recorder) AllStats() []cluster.NodeStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stats)
}

// Eventually waits until something holds.
func (w *Recorder) Eventually(what string, holds func() bool) {
	w.T.Helper()
	require.Eventually(w.T, holds, Soon, tick, what)
}

// Resolves waits until a target is served by the nodes with these ids.
func (w *Recorder) Resolves(target, routing string, want ...[]string) {
	w.T.Helper()
	w.Eventually(target+" resolves", func() bool {
		s := w.Snapshot()
		return s != nil && slices.EqualFunc(NodesOf(s, target, routing), want, slices.Equal)
	})
}

// NodesOf returns the ids of the nodes that serve each shard of a target.
func NodesOf(s *cluster.Snapshot, target, routing string) [][]string {
	plan, _ := s.Resolve(target, routing)
	if plan == nil {
		return nil
	}
	var ids [][]string
	for _, positions := range plan.Shards {
		var shard []string
		for _, at := range positions {
			shard = append(shard, s.Nodes[at].ID)
		}
		ids = append(ids, shard)
	}
	return ids
}

// LastStats returns the last poll of a node that was reported.
func (w *Recorder) LastStats(node string) (cluster.NodeStats, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Backward(w.stats) {
		if s.Node == node {
			return s, true
		}
	}
	return cluster.NodeStats{}, false
}

// MissIs waits until a target misses with want.
func (w *Recorder) MissIs(target, routing string, want cluster.Miss) {
	w.T.Helper()
	w.Eventually(target+" misses with "+string(want), func() bool {
		s := w.Snapshot()
		if s == nil {
			return false
		}
		_, miss := s.Resolve(target, routing)
		return miss == want
	})
}
