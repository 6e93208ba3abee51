package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/selection"
	"sidestep/internal/selection/account"
)

// nodeMetric is one series per node.
type nodeMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// value is in the unit of the series, never NaN. ok is false if there is none.
	value func(v selection.Figures) (value float64, ok bool)
}

func nodeDescs() []nodeMetric {
	def := func(name, help string, kind prometheus.ValueType, value func(selection.Figures) (float64, bool)) nodeMetric {
		d := prometheus.NewDesc("sidestep_node_"+name, help, []string{"node", "node_id"}, nil)
		return nodeMetric{d, kind, value}
	}
	seconds := func(ms float64) float64 { return ms * float64(time.Millisecond) / float64(time.Second) }
	always := func(f func(selection.Figures) float64) func(selection.Figures) (float64, bool) {
		return func(v selection.Figures) (float64, bool) { return f(v), true }
	}
	measured := func(f func(selection.Figures) float64) func(selection.Figures) (float64, bool) {
		return func(v selection.Figures) (float64, bool) {
			if v.Rank == nil { // nothing is known of it, as of a dedicated manager
				return 0, false
			}
			return f(v), true
		}
	}
	return []nodeMetric{
		def("poll_age_seconds", "Time since the node last answered a poll of its statistics.", prometheus.GaugeValue, func(v selection.Figures) (float64, bool) {
			if v.PollAge == nil {
				return 0, false
			}
			return *v.PollAge, true
		}),
		def("rank", "Rank of the node, the time until a shard query is done there, in milliseconds: lower is better.", prometheus.GaugeValue,
			measured(func(v selection.Figures) float64 { return *v.Rank })),
		def("response_time_seconds", "EWMA of the response time of a shard search on the node, as seen from outside of it.", prometheus.GaugeValue,
			measured(func(v selection.Figures) float64 { return seconds(v.Parts.ResponseTime) })),
		def("service_time_seconds", "EWMA of the time a shard search takes on the node itself.", prometheus.GaugeValue,
			measured(func(v selection.Figures) float64 { return seconds(v.Parts.ServiceTime) })),
		def("http_overhead_seconds", "EWMA of response time less took when the node coordinates.", prometheus.GaugeValue,
			measured(func(v selection.Figures) float64 { return seconds(v.Overhead) })),
		def("queue", "EWMA of the polled queue of the search thread pool.", prometheus.GaugeValue,
			measured(func(v selection.Figures) float64 { return v.Parts.Queue })),
		def("outstanding", "Searches, and reads by id, sent to a set with the node and not answered yet.", prometheus.GaugeValue,
			always(func(v selection.Figures) float64 { return float64(v.Outstanding) })),
		def("share_ratio", "The node's part of the expected shard queries of the last minute, 0 to 1.", prometheus.GaugeValue,
			always(func(v selection.Figures) float64 { return v.Share })),
		def("coordinated_total", "Requests sent through the node, steered or not, each attempt of them; 0 under static discovery.", prometheus.CounterValue,
			always(func(v selection.Figures) float64 { return float64(v.Coordinated) })),
		def("searches_total", "Searches, and reads by id, whose list had the node.", prometheus.CounterValue,
			always(func(v selection.Figures) float64 { return float64(v.Searches) })),
		def("failures_total", "Failures blamed on the node.", prometheus.CounterValue,
			always(func(v selection.Figures) float64 { return float64(v.Failures) })),
		def("leaving", "1 while the node is said to be about to leave, and others are used in its place.", prometheus.GaugeValue, always(func(v selection.Figures) float64 {
			if v.Leaving != "" {
				return 1
			}
			return 0
		})),
	}
}

// nodeCollector reads the statistics of all nodes at scrape time, so that the series of
// nodes that left disappear.
type nodeCollector struct {
	p      *Proxy
	descs  []nodeMetric
	up     *prometheus.Desc
	state  *prometheus.Desc
	probes *prometheus.Desc
}

func newNodeCollector(p *Proxy) *nodeCollector {
	return &nodeCollector{
		p:     p,
		descs: nodeDescs(),
		up: prometheus.NewDesc("sidestep_node_up",
			"1 while the node answers its polls; there is none of a node that is not polled, as a dedicated manager.", []string{"node", "node_id"}, nil),
		state: prometheus.NewDesc("sidestep_node_state",
			"1 for the state that the node is in: unknown, fine, busy, ramping, slow, failing, unresponsive or unreachable.", []string{"node", "node_id", "state"}, nil),
		probes: prometheus.NewDesc("sidestep_node_probe_duration_seconds",
			"Time of probes of the node that were answered, or were not within a second.", []string{"node", "node_id"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d.desc
	}
	ch <- c.up
	ch <- c.state
	ch <- c.probes
}

// Collect implements prometheus.Collector.
func (c *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	known := c.p.view.Load()
	for i, v := range account.Nodes(c.p.o.Selector, known.nodes, time.Now()) {
		for _, d := range c.descs {
			if value, ok := d.value(v); ok {
				ch <- prometheus.MustNewConstMetric(d.desc, d.kind, value, v.Name, v.ID)
			}
		}
		if known.snapshot.Nodes[i].Coordinating() {
			ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, up(v), v.Name, v.ID)
		}
		ch <- prometheus.MustNewConstSummary(c.probes, uint64(v.Probes), v.ProbeTime.Seconds(), nil, v.Name, v.ID) //nolint:gosec // a count
		for _, state := range selection.States() {
			value := 0.0
			if state.String() == v.State {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, value, v.Name, v.ID, state.String())
		}
	}
}

// up is 1 for a node that answers its polls.
func up(v selection.Figures) float64 {
	switch v.State {
	case selection.Unknown.String(), selection.Unresponsive.String(), selection.Unreachable.String():
		return 0
	}
	return 1
}
