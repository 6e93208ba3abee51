package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sidestep/internal/selection"
)

// metrics of the data plane. Labels come from closed sets; node names come from
// the cluster.
type metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	overhead  prometheus.Histogram
	items     *prometheus.CounterVec
	observed  *prometheus.CounterVec
	failovers *prometheus.CounterVec
	hedges    *prometheus.CounterVec
	probes    *prometheus.CounterVec
	sniffs    *prometheus.CounterVec
}

// nativeBucketFactor gives native histograms a resolution of about 10 %.
const nativeBucketFactor = 1.1

func newMetrics(reg prometheus.Registerer, p *Proxy) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_requests_total",
			Help: "Client requests by operation, reason of the decision and outcome for the client.",
		}, []string{"operation", "reason", "outcome"}),
		duration: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "sidestep_request_duration_seconds",
			Help:                        "Time from the request's head to the end of the answer.",
			Buckets:                     []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
			NativeHistogramBucketFactor: nativeBucketFactor,
		}, []string{"operation"}),
		overhead: auto.NewHistogram(prometheus.HistogramOpts{
			Name:                        "sidestep_overhead_seconds",
			Help:                        "What sidestep itself adds before the answer begins: total time less waiting for client and upstreams.",
			Buckets:                     []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .1},
			NativeHistogramBucketFactor: nativeBucketFactor,
		}),
		items: newItemCounter(auto),
		observed: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_observed_decisions_total",
			Help: "Decisions made but not acted upon in mode observe, by reason.",
		}, []string{"reason"}),
		failovers: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_failovers_total",
			Help: "Attempts that were followed by another one, by cause.",
		}, []string{"cause"}),
	}
	m.hedges = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_hedges_total",
		Help: "Second attempts for overdue searches by result; over_budget were not made.",
	}, []string{"result"})
	for _, result := range []string{hedgeWon, hedgeLost, hedgeOverBudget} {
		m.hedges.WithLabelValues(result)
	}
	m.probes = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_probes_total",
		Help: "Searches of sidestep's own that find out how a node is, by result.",
	}, []string{"result"})
	for _, result := range []string{probeAnswered, probeFailed, probeUnfit} {
		m.probes.WithLabelValues(result)
	}
	m.sniffs = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_sniffs_total",
		Help: "Questions of clients for the nodes' own addresses by result: passed, they learn these and go around sidestep; rewritten, they learn sidestep's.",
	}, []string{"result"})
	for _, result := range []string{sniffPassed, sniffRewritten} {
		m.sniffs.WithLabelValues(result)
	}
	for _, c := range causes {
		m.failovers.WithLabelValues(c)
	}
	for _, mode := range Modes() {
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "sidestep_routing_mode",
			Help:        "1 for the mode in force.",
			ConstLabels: prometheus.Labels{"mode": string(mode)},
		}, func() float64 {
			if p.Mode() == mode {
				return 1
			}
			return 0
		})
	}
	reg.MustRegister(&nodeCollector{p: p, descs: nodeDescs(), state: prometheus.NewDesc("sidestep_node_state",
		"1 for the state that the node is in.", []string{"node", "node_id", "state"}, nil)})
	return m
}

// newItemCounter counts the searches in multi-searches.
func newItemCounter(auto promauto.Factory) *prometheus.CounterVec {
	items := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_msearch_items_total",
		Help: "Searches in multi-searches by reason of the decision.",
	}, []string{"reason"})
	for _, r := range selection.Reasons() {
		items.WithLabelValues(string(r))
	}
	return items
}

// nodeMetric is one series per node.
type nodeMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// value in the unit of the series; NaN-free. ok is false where there is none.
	value func(v selection.NodeView) (value float64, ok bool)
}

func nodeDescs() []nodeMetric {
	def := func(name, help string, kind prometheus.ValueType, value func(selection.NodeView) (float64, bool)) nodeMetric {
		d := prometheus.NewDesc("sidestep_node_"+name, help, []string{"node", "node_id"}, nil)
		return nodeMetric{d, kind, value}
	}
	seconds := func(ms float64) float64 { return ms * float64(time.Millisecond) / float64(time.Second) }
	always := func(f func(selection.NodeView) float64) func(selection.NodeView) (float64, bool) {
		return func(v selection.NodeView) (float64, bool) { return f(v), true }
	}
	return []nodeMetric{
		def("poll_age_seconds", "Time since the node last answered a poll of its statistics.", prometheus.GaugeValue, func(v selection.NodeView) (float64, bool) {
			if v.PollAge == nil {
				return 0, false
			}
			return *v.PollAge, true
		}),
		def("rank", "C3 rank of the node in milliseconds, lower is better.", prometheus.GaugeValue, func(v selection.NodeView) (float64, bool) {
			if v.Rank == nil {
				return 0, false
			}
			return *v.Rank, true
		}),
		def("response_time_seconds", "EWMA of the response time of a shard search on the node, as seen from outside of it.", prometheus.GaugeValue,
			always(func(v selection.NodeView) float64 { return seconds(v.Parts.ResponseTime) })),
		def("service_time_seconds", "EWMA of the time a shard search takes on the node itself.", prometheus.GaugeValue,
			always(func(v selection.NodeView) float64 { return seconds(v.Parts.ServiceTime) })),
		def("http_overhead_seconds", "EWMA of response time less took when the node coordinates.", prometheus.GaugeValue,
			always(func(v selection.NodeView) float64 { return seconds(v.Overhead) })),
		def("queue", "EWMA of the polled queue of the search thread pool.", prometheus.GaugeValue,
			always(func(v selection.NodeView) float64 { return v.Parts.Queue })),
		def("outstanding", "Searches, and reads by id, sent to a set with the node and not answered yet.", prometheus.GaugeValue,
			always(func(v selection.NodeView) float64 { return float64(v.Outstanding) })),
		def("searches_total", "Searches, and reads by id, whose list had the node.", prometheus.CounterValue,
			always(func(v selection.NodeView) float64 { return float64(v.Searches) })),
		def("failures_total", "Failures blamed on the node.", prometheus.CounterValue,
			always(func(v selection.NodeView) float64 { return float64(v.Failures) })),
		def("up", "1 while the node answers its polls.", prometheus.GaugeValue, always(func(v selection.NodeView) float64 {
			switch v.State {
			case selection.Unknown.String(), selection.Unresponsive.String(), selection.Unreachable.String():
				return 0
			}
			return 1
		})),
	}
}

// nodeCollector reads the statistics of all nodes at scrape time, so that series
// of nodes that left disappear.
type nodeCollector struct {
	p     *Proxy
	descs []nodeMetric
	state *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d.desc
	}
	ch <- c.state
}

// Collect implements prometheus.Collector.
func (c *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	views := c.p.o.Selector.View(c.p.view.Load().nodes, time.Now())
	for _, v := range views {
		for _, d := range c.descs {
			if value, ok := d.value(v); ok {
				ch <- prometheus.MustNewConstMetric(d.desc, d.kind, value, v.Name, v.ID)
			}
		}
		for _, state := range selection.States() {
			value := 0.0
			if state.String() == v.State {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, value, v.Name, v.ID, state.String())
		}
	}
}
