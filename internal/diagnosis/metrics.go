package diagnosis

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The results of a capture. The set is closed: it is a metric label.
const (
	captureOK      = "ok"
	captureFailed  = "failed"  // no answer, or only some of them
	captureRefused = "refused" // the account lacks the privilege
	captureDropped = "dropped" // not attempted, because of the bounds
)

type metrics struct {
	spikes         *prometheus.CounterVec
	captures       *prometheus.CounterVec
	baselines      *prometheus.CounterVec
	records, bytes prometheus.Gauge
	writeFailures  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	auto := promauto.With(registerer)
	m := &metrics{
		spikes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_spikes_total", Help: "Recorded spikes (a node in trouble), by the cause found.",
		}, []string{"cause"}),
		captures: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_spike_captures_total", Help: "Captures of nodes in trouble, by result.",
		}, []string{"result"}),
		baselines: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_spike_baselines_total", Help: "Readings of the counters of healthy nodes, which spikes are compared with, by result.",
		}, []string{"result"}),
		records: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_spike_records", Help: "Records of spikes that are kept.",
		}),
		bytes: auto.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_spike_record_bytes", Help: "Size of the records of spikes that are kept, bounded by diagnosis.max_size.",
		}),
		writeFailures: auto.NewCounter(prometheus.CounterOpts{
			Name: "sidestep_spike_write_failures_total", Help: "Records of spikes that could not be written to diagnosis.dir.",
		}),
	}
	for _, cause := range Causes() {
		m.spikes.WithLabelValues(string(cause))
	}
	for _, result := range []string{captureOK, captureFailed, captureRefused} {
		m.baselines.WithLabelValues(result)
	}
	for _, result := range []string{captureOK, captureFailed, captureRefused, captureDropped} {
		m.captures.WithLabelValues(result)
	}
	return m
}
