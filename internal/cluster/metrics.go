package cluster

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	placementMetrics
	polls         *prometheus.CounterVec
	pollDuration  *prometheus.HistogramVec
	nodes         prometheus.Gauge
	learnedTarget prometheus.Gauge
	learns        *prometheus.CounterVec
	state         *prometheus.GaugeVec
	statsInterval prometheus.Gauge
	source        *prometheus.GaugeVec
	sourceChanges *prometheus.CounterVec
	relayed       *prometheus.CounterVec
	relayedBytes  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, placedAt func() time.Time) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		placementMetrics: newPlacementMetrics(auto, placedAt),
		polls: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_cluster_polls_total",
			Help: "Polls of the cluster by kind and result.",
		}, []string{"kind", "result"}),
		pollDuration: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "sidestep_cluster_poll_duration_seconds",
			Help:                            "Duration of polls of the cluster by kind, failed ones too.",
			Buckets:                         []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"kind"}),
		nodes: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_nodes", Help: "Nodes of the cluster that are known.",
		}),
		learnedTarget: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_learned_targets",
			Help: "Aliases, wildcards and other index expressions whose shards are known.",
		}),
		learns: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_cluster_learns_total",
			Help: "Look-ups of index expressions by result.",
		}, []string{"result"}),
		statsInterval: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_stats_interval_seconds",
			Help: "Longest interval at which a node that serves what is searched is asked for its statistics.",
		}),
		state: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sidestep_cluster_state",
			Help: "1 for the state of the conversation with the cluster, 0 for the others.",
		}, []string{"state"}),
	}
	m.registerRelay(auto)
	return m
}

// registerRelay registers what is about relays.
func (m *metrics) registerRelay(auto promauto.Factory) {
	m.source = auto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sidestep_cluster_source",
		Help: "1 for where what is known of the cluster comes from: a relay, or own polls.",
	}, []string{"source"})
	m.sourceChanges = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_cluster_source_changes_total",
		Help: "How often what is known of the cluster began to come from this source.",
	}, []string{"source"})
	m.relayed = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_relay_answers_total",
		Help: "Requests of other sidesteps for the snapshot, by result.",
	}, []string{"result"})
	m.relayedBytes = auto.NewCounter(prometheus.CounterOpts{
		Name: "sidestep_relay_bytes_total",
		Help: "Bytes of snapshots that were sent to other sidesteps.",
	})
	for _, result := range []string{relayedReport, relayedTarget, relayedUses, relayedRefused, relayedFailed} {
		m.relayed.WithLabelValues(result)
	}
	for _, source := range []string{sourceRelay, sourcePolls} {
		m.sourceChanges.WithLabelValues(source)
	}
	m.sourceIs("")
}

// placementMetrics are those of the placement.
type placementMetrics struct {
	indices, shards, copies prometheus.Gauge
	unsettled               *prometheus.GaugeVec
	refreshes               *prometheus.CounterVec
}

func newPlacementMetrics(auto promauto.Factory, placedAt func() time.Time) placementMetrics {
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
	return placementMetrics{
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
		refreshes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_cluster_placement_refreshes_total",
			Help: "Fetches of the placement by source and result.",
		}, []string{"source", "result"}),
	}
}

// sourceIs says where what is known comes from.
func (m *metrics) sourceIs(now string) {
	for _, source := range []string{sourceRelay, sourcePolls} {
		value := 0.0
		if source == now {
			value = 1
		}
		m.source.WithLabelValues(source).Set(value)
	}
}

func (m *metrics) placed(t *table) {
	m.indices.Set(float64(t.indices.Len()))
	m.shards.Set(float64(t.shards))
	m.copies.Set(float64(t.copies[atStarted] + t.copies[atRelocating]))
	for state, at := range map[string]int{"relocating": atRelocating, "initializing": atInitializing, "unassigned": atUnassigned, "closed": atClosed} {
		m.unsettled.WithLabelValues(state).Set(float64(t.copies[at]))
	}
}

func (m *metrics) stateIs(now State) {
	for _, s := range []State{StateConnecting, StateOK, StateUnreachable, StateUnauthorized, StateNotAnEngine, StateNoShardsAPI} {
		value := 0.0
		if s == now {
			value = 1
		}
		m.state.WithLabelValues(string(s)).Set(value)
	}
}
