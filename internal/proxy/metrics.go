package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sidestep/internal/attempt"
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
	asks      *prometheus.CounterVec
	probeTime *prometheus.HistogramVec
	sniffs    *prometheus.CounterVec
	routed    *prometheus.CounterVec
	bulk      *bulkMetrics
	admission *admissionMetrics
}

// nativeBucketFactor gives native histograms a resolution of about 10 %.
const nativeBucketFactor = 1.1

// durationBuckets, in seconds, are shared by everything that is compared with the time of
// searches.
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// newCounter registers a counter with one label, of which these values are shown before they have come.
func newCounter[T ~string](auto promauto.Factory, name, help, label string, values []T) *prometheus.CounterVec {
	c := auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		c.WithLabelValues(string(value))
	}
	return c
}

// newTimes registers a histogram of times with one label.
func newTimes(auto promauto.Factory, name, help, label string) *prometheus.HistogramVec {
	return auto.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: durationBuckets, NativeHistogramBucketFactor: nativeBucketFactor,
	}, []string{label})
}

// showMode registers a gauge of the mode in force.
func showMode[T ~string](auto promauto.Factory, name string, modes []T, inForce func() T) {
	for _, mode := range modes {
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: "1 for the mode in force.", ConstLabels: prometheus.Labels{"mode": string(mode)},
		}, func() float64 {
			if inForce() == mode {
				return 1
			}
			return 0
		})
	}
}

func newMetrics(reg prometheus.Registerer, p *Proxy) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_requests_total",
			Help: "Client requests by operation, reason of the decision and outcome for the client.",
		}, []string{"operation", "reason", "outcome"}),
		duration: newTimes(auto, "sidestep_request_duration_seconds",
			"Time from the request's head to the end of the answer.", "operation"),
		overhead: auto.NewHistogram(prometheus.HistogramOpts{
			Name:                        "sidestep_overhead_seconds",
			Help:                        "What sidestep itself adds before the answer begins: total time less waiting for client and upstreams.",
			Buckets:                     []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .1},
			NativeHistogramBucketFactor: nativeBucketFactor,
		}),
		items: newCounter(auto, "sidestep_msearch_items_total",
			"Searches in multi-searches by reason of the decision.", "reason", selection.Reasons()),
		observed: newCounter[string](auto, "sidestep_observed_decisions_total",
			"Decisions made but not applied in mode observe, by reason.", "reason", nil),
		failovers: newCounter(auto, "sidestep_failovers_total",
			"Attempts that were followed by another one, by cause.", "cause", attempt.Causes()),
		hedges: newCounter(auto, "sidestep_hedges_total",
			"Hedges: second attempts for overdue searches, by result; over_budget and unlikely were not made.",
			"result", []string{hedgeWon, hedgeLost, hedgeOverBudget, hedgeUnlikely}),
		probes: newCounter(auto, "sidestep_probes_total",
			"Probes: tiny searches of sidestep's own that test a node, by result.",
			"result", []string{probeAnswered, probeFailed, probeUnfit}),
		asks: newCounter(auto, "sidestep_asks_total",
			"Nodes of late searches that were asked whether they answer at all, by result.",
			"result", []string{askAnswered, askUnanswered}),
		probeTime: newTimes(auto, "sidestep_probe_duration_seconds",
			"Time of probes, by the state of their node when they were sent; an unanswered probe counts as one second.", "state"),
		sniffs: newCounter(auto, "sidestep_sniffs_total",
			"Requests of clients for the nodes' addresses by result: passed (clients learn them and can go around sidestep), rewritten (clients learn sidestep's).",
			"result", []string{sniffPassed, sniffRewritten}),
		routed: newCounter(auto, "sidestep_routed_reads_total",
			"Operations by routing on indices with logical shards (bulk.routing_size), by result for the routing; each search of a multi-search counts.",
			"result", routedResults()),
		bulk:      newBulkMetrics(reg, p),
		admission: newAdmissionMetrics(reg, p),
	}
	for _, state := range []selection.State{selection.Fine, selection.Busy, selection.Slow, selection.Failing, selection.Ramping} {
		m.probeTime.WithLabelValues(state.String())
	}
	showMode(auto, "sidestep_routing_mode", Modes(), p.Mode)
	reg.MustRegister(newNodeCollector(p))
	return m
}
