package proxy

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sidestep/internal/admission"
)

// admissionMetrics are the metrics of admission that are counted where things happen.
// What the control knows is read at scrape time, see [admissionCollector].
type admissionMetrics struct {
	refusals, dropped *prometheus.CounterVec
	waited            *prometheus.HistogramVec
}

func newAdmissionMetrics(reg prometheus.Registerer, p *Proxy) *admissionMetrics {
	auto := promauto.With(reg)
	m := &admissionMetrics{
		refusals: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_admission_refusals_total",
			Help: "Searches, and writes, that sidestep answered 429, by class and reason.",
		}, []string{"class", "reason"}),
		dropped: newCounter[string](auto, "sidestep_admission_dropped_total",
			"Searches, and writes, of which the client left while they waited, by class.", "class", nil),
		waited: newTimes(auto, "sidestep_admission_wait_seconds",
			"Time that searches, and writes, waited, of those that did, however that ended.", "class"),
	}
	for _, k := range slices.Concat(p.admission.classes, p.writes.classes) {
		m.dropped.WithLabelValues(k.Name)
		m.waited.WithLabelValues(k.Name)
		for _, why := range admission.Reasons() {
			m.refusals.WithLabelValues(k.Name, string(why))
		}
	}
	showMode(auto, "sidestep_admission_mode", admission.Modes(), p.AdmissionMode)
	reg.MustRegister(newAdmissionCollector(p))
	return m
}

// admissionCollector reads what the control knows.
type admissionCollector struct {
	p                                     *Proxy
	writeLimit, writesInFlight            *prometheus.Desc // by node
	limit, inFlight, waiting, others      *prometheus.Desc // by node
	admitted, downgraded, queue, observed *prometheus.Desc // by class
	changes, opened                       *prometheus.Desc
	open, utilisation, serving            *prometheus.Desc
}

func newAdmissionCollector(p *Proxy) *admissionCollector {
	node, class := []string{"node", "node_id"}, []string{"class"}
	def := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc("sidestep_"+name, help, labels, nil)
	}
	return &admissionCollector{
		p:              p,
		limit:          def("admission_limit", "Shard queries that all clients together may have in flight on the node; absent while nothing is known of its load.", node),
		inFlight:       def("admission_in_flight", "Shard queries in flight that sidestep sent, by their expected share.", node),
		writeLimit:     def("admission_write_limit", "Tasks of its write pool that all clients together may have in flight on the node; absent while nothing is known of its load, and while admission of writes is off.", node),
		writesInFlight: def("admission_writes_in_flight", "Tasks of write pools that sidestep sent and that are not answered, by their expected share; absent while admission of writes is off.", node),
		waiting:        def("admission_waiting", "Shard queries that wait for the node, by their expected share.", node),
		others:         def("admission_other_clients", "Shard queries of other clients on the node, in the mean.", node),
		admitted:       def("admission_admitted_total", "Searches, and writes, that were admitted, by class.", class),
		downgraded:     def("admission_downgraded_total", "Searches that their class gave to the lower one that it names, by class; in mode observe those that it would have.", class),
		queue:          def("admission_queue", "Searches, and writes, that wait, by class.", class),
		observed:       def("admission_observed_total", "Searches, and writes, that mode observe let go, by class and what would have been done: wait, or in the end refuse, and why.", []string{"class", "action", "reason"}),
		changes:        def("admission_limit_changes_total", "Moves of limits by reason.", []string{"reason"}),
		opened:         def("admission_fail_open_total", "Searches that were admitted although nothing is known of the load of some of their nodes, counted when their answer begins, or none comes.", nil),
		open:           def("admission_open_nodes", "Nodes that serve searches and of whose load nothing is known: no search waits for them.", nil),
		utilisation:    def("cluster_utilisation", "Part of the search threads of all nodes that is at work, by the service time and rate of shard queries, 0 to 1.", nil),
		serving:        def("cluster_serving_nodes", "Nodes that serve searches: what the utilisation is of.", nil),
	}
}

// Describe implements prometheus.Collector.
func (c *admissionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.writeLimit, c.writesInFlight, c.limit, c.inFlight, c.waiting, c.others, c.admitted, c.downgraded, c.queue, c.observed, c.changes, c.opened, c.open, c.utilisation, c.serving} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *admissionCollector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.read() { // whoever takes them may be slow, and searches need the lock
		ch <- m
	}
}

// read returns what the metrics are now.
func (c *admissionCollector) read() (all []prometheus.Metric) {
	a, now := c.p.admission, time.Now()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
	}
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...))
	}
	nodes := c.p.view.Load().nodes
	for _, n := range nodes {
		v := c.p.writes.view(n.ID, now)
		if v == nil {
			break
		}
		if v.Limit != nil {
			gauge(c.writeLimit, *v.Limit, n.Name, n.ID)
		}
		gauge(c.writesInFlight, v.Admitted, n.Name, n.ID)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range nodes {
		v := a.control.View(n.ID, now)
		if v.Limit != nil {
			gauge(c.limit, *v.Limit, n.Name, n.ID)
		}
		gauge(c.inFlight, v.Admitted, n.Name, n.ID)
		gauge(c.waiting, v.Waiting, n.Name, n.ID)
		gauge(c.others, v.Others, n.Name, n.ID)
	}
	for _, k := range slices.Concat(a.control.Classes(), c.p.writes.classViews()) {
		count(c.admitted, k.Admitted, k.Name)
		count(c.downgraded, k.Downgraded, k.Name)
		gauge(c.queue, float64(k.Waiting), k.Name)
		count(c.observed, k.WouldWait, k.Name, "wait", "")
		for _, why := range admission.Reasons() {
			count(c.observed, k.WouldRefuse[why], k.Name, "refuse", string(why))
		}
	}
	for _, why := range admission.Changes() {
		count(c.changes, a.control.LimitChanges(why), string(why))
	}
	count(c.opened, a.control.Opened())
	gauge(c.open, float64(a.control.Open(now)))
	if part, nodes := a.control.Utilisation(now); nodes > 0 {
		gauge(c.utilisation, part)
		gauge(c.serving, float64(nodes))
	}
	return all
}
