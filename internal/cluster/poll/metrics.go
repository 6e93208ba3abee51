package poll

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are those of the conversation with the cluster.
type metrics struct {
	polls         *prometheus.CounterVec
	pollDuration  *prometheus.HistogramVec
	refreshes     *prometheus.CounterVec
	state         *prometheus.GaugeVec
	statsInterval prometheus.Gauge
	source        *prometheus.GaugeVec
	sourceChanges *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
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
		refreshes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_cluster_placement_refreshes_total",
			Help: "Fetches of the placement by source and result.",
		}, []string{"source", "result"}),
		state: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sidestep_cluster_state",
			Help: "1 for the state of the conversation with the cluster, 0 for the others.",
		}, []string{"state"}),
		statsInterval: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_cluster_stats_interval_seconds",
			Help: "Longest interval at which a node that serves what is searched is asked for its statistics while something goes by them; 0 while a relay tells.",
		}),
		source: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sidestep_cluster_source",
			Help: "1 for where what is known of the cluster comes from: a relay, or own polls.",
		}, []string{"source"}),
		sourceChanges: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_cluster_source_changes_total",
			Help: "How often what is known of the cluster began to come from this source.",
		}, []string{"source"}),
	}
	for _, source := range []string{FromRelay, FromPolls} {
		m.sourceChanges.WithLabelValues(source)
	}
	m.sourceIs("")
	return m
}

// sourceIs says where what is known comes from.
func (m *metrics) sourceIs(now string) { setOne(m.source, now, FromRelay, FromPolls) }

func (m *metrics) stateIs(now State) {
	setOne(m.state, now, StateConnecting, StateOK, StateUnreachable, StateUnauthorized, StateNotAnEngine, StateNoShardsAPI)
}

// setOne sets the series of one of these values of a label to 1, and those of the others to 0.
func setOne[T ~string](g *prometheus.GaugeVec, one T, all ...T) {
	for _, value := range all {
		is := 0.0
		if value == one {
			is = 1
		}
		g.WithLabelValues(string(value)).Set(is)
	}
}
