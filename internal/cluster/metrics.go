package cluster

import (
	"maps"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of look-ups of targets. The set is closed: used as a metric label.
const (
	lookUpOK       = "ok"
	lookUpEmpty    = "empty"     // no shards
	lookUpNotFound = "not_found" // the engine knows no such target
	lookUpRefused  = "refused"   // another 4xx: not a target, or not for us
	lookUpFailed   = "failed"    // no answer, overload; asked again on demand
	lookUpDropped  = "dropped"   // the queue was full
	// lookUpThrottled: too many targets that nobody knew; asked again on demand.
	lookUpThrottled = "throttled"
)

// storeMetrics are those of what is known.
type storeMetrics struct {
	indices, shards, copies prometheus.Gauge
	unsettled               *prometheus.GaugeVec
	nodes                   prometheus.Gauge
	targets                 prometheus.Gauge
	lookUps                 *prometheus.CounterVec
}

func newStoreMetrics(reg prometheus.Registerer, placedAt func() time.Time) *storeMetrics {
	auto := promauto.With(reg)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sidestep_cluster_placement_age_seconds",
		Help: "Time since the placement of shard copies was last confirmed; NaN while there is none.",
	}, func() float64 {
		at := placedAt()
		if at.IsZero() {
			return math.NaN()
		}
		return time.Since(at).Seconds()
	})
	return &storeMetrics{
		indices: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_placement_indices", Help: "Indices in the placement.",
		}),
		shards: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_placement_shards", Help: "Shards in the placement.",
		}),
		copies: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_placement_copies", Help: "Shard copies in the placement that serve searches.",
		}),
		unsettled: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sidestep_cluster_placement_unsettled_copies",
			Help: "Shard copies in the placement that are on their way, or closed with their index, by state.",
		}, []string{"state"}),
		nodes: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_nodes", Help: "Nodes of the cluster that are known.",
		}),
		targets: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_learned_targets",
			Help: "Aliases, wildcards and other index expressions whose shards are known.",
		}),
		lookUps: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_cluster_learns_total",
			Help: "Look-ups of index expressions by result.",
		}, []string{"result"}),
	}
}

// placed tells how much is placed. Copies of closed indices count as such, whatever the engine says of them.
func (m *storeMetrics) placed(k *known) {
	t := k.table
	if t == nil {
		t = newTable(nil, 0)
	}
	copies, closed := maps.Clone(t.copies), 0
	for name, why := range k.frame.leftAlone {
		p := t.get(name)
		if why != MissClosed || p == nil {
			continue
		}
		for _, shard := range p.index.Shards {
			closed += len(shard.Copies)
			for _, c := range shard.Copies {
				copies[c.State]--
			}
		}
	}
	m.indices.Set(float64(t.indices.Len()))
	m.shards.Set(float64(t.shards))
	m.copies.Set(float64(copies[Started] + copies[Relocating]))
	for state, count := range map[string]int{"relocating": copies[Relocating], "initializing": copies[Initializing], "unassigned": copies[Unassigned], "closed": closed} {
		m.unsettled.WithLabelValues(state).Set(float64(count))
	}
}
