package relay

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of a request to a relay. The set is closed: used as a metric label.
const (
	relayedReport  = "report"
	relayedTarget  = "target"
	relayedUses    = "uses"
	relayedRefused = "refused" // 4xx, too many readers, nothing good to tell
	relayedFailed  = "failed"  // the reader went away, or a look-up failed
)

// serverMetrics are those of a relay.
type serverMetrics struct {
	answers *prometheus.CounterVec
	bytes   prometheus.Counter
}

func newServerMetrics(reg prometheus.Registerer) *serverMetrics {
	auto := promauto.With(reg)
	m := &serverMetrics{
		answers: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_relay_answers_total",
			Help: "Requests of other sidesteps for the snapshot, by result.",
		}, []string{"result"}),
		bytes: auto.NewCounter(prometheus.CounterOpts{
			Name: "sidestep_relay_bytes_total",
			Help: "Bytes of snapshots that were sent to other sidesteps.",
		}),
	}
	for _, result := range []string{relayedReport, relayedTarget, relayedUses, relayedRefused, relayedFailed} {
		m.answers.WithLabelValues(result)
	}
	return m
}
