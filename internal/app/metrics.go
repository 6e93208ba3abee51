package app

import (
	"cmp"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics of the process.
type metrics struct {
	reloadOK   prometheus.Gauge
	reloadTime prometheus.Gauge
}

// newMetrics registers them, and those of the pipeline in use.
func newMetrics(a *App) (*metrics, error) {
	m := &metrics{
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
			"version": a.options.Version, "revision": cmp.Or(a.options.Commit, "unknown"), "goversion": runtime.Version(),
		},
	})
	build.Set(1)
	isReady := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sidestep_ready",
		Help: "1 once placement and statistics are there, as /-/ready says. It stays 1 when the placement is outdated.",
	}, func() float64 {
		if a.Ready() != nil {
			return 0
		}
		return 1
	})
	m.reloaded(true, time.Now())
	for _, collector := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, isReady, m.reloadOK, m.reloadTime, pipelineMetrics{a},
	} {
		if err := a.options.Registry.Register(collector); err != nil {
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

// pipelineMetrics collects the metrics of the pipeline in use. After a reload that
// replaced it its counters begin at 0 again, which rate() understands.
type pipelineMetrics struct{ app *App }

// Describe implements prometheus.Collector. It sends nothing: what is collected
// changes with the pipeline.
func (pipelineMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m pipelineMetrics) Collect(ch chan<- prometheus.Metric) {
	p := m.app.current.Load()
	p.metrics.Collect(ch)
	p.registry.Collect(ch)
}
