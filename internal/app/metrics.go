package app

import (
	"cmp"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics of the process.
type metrics struct {
	pipeline   *pipelineMetrics
	reloadOK   prometheus.Gauge
	reloadTime prometheus.Gauge
}

// newMetrics registers them; ready is asked at each scrape.
func newMetrics(registry *prometheus.Registry, version, commit string, ready func() error) (*metrics, error) {
	m := &metrics{
		pipeline: &pipelineMetrics{},
		reloadOK: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_config_last_reload_successful",
			Help: "1 if the last reading of the configuration succeeded.",
		}),
		reloadTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sidestep_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration in force was read, in seconds since 1970.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sidestep_build_info",
		Help: "1; the labels say what was built.",
		ConstLabels: prometheus.Labels{
			"version": version, "revision": cmp.Or(commit, "unknown"), "goversion": runtime.Version(),
		},
	})
	build.Set(1)
	isReady := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sidestep_ready",
		Help: "1 once placement and statistics are there, as /-/ready says. It stays 1 when the placement is outdated.",
	}, func() float64 {
		if ready() != nil {
			return 0
		}
		return 1
	})
	m.reloaded(true, time.Now())
	for _, collector := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, isReady, m.reloadOK, m.reloadTime, m.pipeline,
	} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) reloaded(ok bool, now time.Time) {
	if !ok {
		m.reloadOK.Set(0)
		return
	}
	m.reloadOK.Set(1)
	m.reloadTime.Set(float64(now.UnixMilli()) / 1000)
}

// show makes registry the one that is collected.
func (m *metrics) show(registry *prometheus.Registry) { m.pipeline.current.Store(registry) }

// pipelineMetrics collects the metrics of the current pipeline. After a reload that
// replaced it the counters begin at 0 again, which rate() understands.
type pipelineMetrics struct {
	current atomic.Pointer[prometheus.Registry]
}

// Describe implements prometheus.Collector. It sends nothing: what is collected
// changes with the pipeline.
func (c *pipelineMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *pipelineMetrics) Collect(ch chan<- prometheus.Metric) {
	if registry := c.current.Load(); registry != nil {
		registry.Collect(ch)
	}
}
