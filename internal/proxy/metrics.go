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
	requests  *counters
	duration  *series[prometheus.Observer]
	overhead  prometheus.Histogram
	items     *prometheus.CounterVec
	observed  *prometheus.CounterVec
	failovers *counters
	hedges    *counters
	probes    *prometheus.CounterVec
	asks      *prometheus.CounterVec
	probeTime *prometheus.HistogramVec
	sniffs    *counters
	bulk      *bulkMetrics
	routed    *counters
	admission *admissionMetrics
}

// nativeBucketFactor gives native histograms a resolution of about 10 %.
const nativeBucketFactor = 1.1

// durationBuckets, in seconds, are shared by everything that is compared with the time of
// searches.
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newMetrics(reg prometheus.Registerer, p *Proxy) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		requests: newCounters(auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_requests_total",
			Help: "Client requests by operation, reason of the decision and outcome for the client.",
		}, []string{"operation", "reason", "outcome"})),
		duration: newObservers(auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "sidestep_request_duration_seconds",
			Help:                        "Time from the request's head to the end of the answer.",
			Buckets:                     durationBuckets,
			NativeHistogramBucketFactor: nativeBucketFactor,
		}, []string{"operation"})),
		overhead: auto.NewHistogram(prometheus.HistogramOpts{
			Name:                        "sidestep_overhead_seconds",
			Help:                        "What sidestep itself adds before the answer begins: total time less waiting for client and upstreams.",
			Buckets:                     []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .1},
			NativeHistogramBucketFactor: nativeBucketFactor,
		}),
		items: newItemCounter(auto),
		observed: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_observed_decisions_total",
			Help: "Decisions made but not applied in mode observe, by reason.",
		}, []string{"reason"}),
		failovers: newCounters(auto.NewCounterVec(prometheus.CounterOpts{
			Name: "sidestep_failovers_total",
			Help: "Attempts that were followed by another one, by cause.",
		}, []string{"cause"})),
	}
	m.hedges = newCounters(auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_hedges_total",
		Help: "Hedges: second attempts for overdue searches, by result; over_budget and unlikely were not made.",
	}, []string{"result"}))
	for _, result := range []string{hedgeWon, hedgeLost, hedgeOverBudget, hedgeUnlikely} {
		m.hedges.with(result)
	}
	m.registerProbes(auto)
	m.sniffs = newCounters(auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_sniffs_total",
		Help: "Requests of clients for the nodes' addresses by result: passed (clients learn them and can go around sidestep), rewritten (clients learn sidestep's).",
	}, []string{"result"}))
	for _, result := range []string{sniffPassed, sniffRewritten} {
		m.sniffs.with(result)
	}
	for _, c := range attempt.Causes() {
		m.failovers.with(string(c))
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
	m.bulk = newBulkMetrics(reg, p)
	m.routed = newCounters(auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_routed_reads_total",
		Help: "Operations by routing on indices with logical shards (bulk.routing_size), by result for the routing; each search of a multi-search counts.",
	}, []string{"result"}))
	for _, r := range routedResults() {
		m.routed.with(string(r))
	}
	m.admission = newAdmissionMetrics(reg, p)
	reg.MustRegister(newNodeCollector(p))
	return m
}

// registerProbes registers the metrics of probes.
func (m *metrics) registerProbes(auto promauto.Factory) {
	m.probes = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_probes_total",
		Help: "Probes: tiny searches of sidestep's own that test a node, by result.",
	}, []string{"result"})
	for _, result := range []string{probeAnswered, probeFailed, probeUnfit} {
		m.probes.WithLabelValues(result)
	}
	m.asks = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_asks_total",
		Help: "Nodes of late searches that were asked whether they answer at all, by result.",
	}, []string{"result"})
	for _, result := range []string{askAnswered, askUnanswered} {
		m.asks.WithLabelValues(result)
	}
	m.probeTime = auto.NewHistogramVec(prometheus.HistogramOpts{
		Name:                        "sidestep_probe_duration_seconds",
		Help:                        "Time of probes, by the state of their node when they were sent; an unanswered probe counts as one second.",
		Buckets:                     durationBuckets,
		NativeHistogramBucketFactor: nativeBucketFactor,
	}, []string{"state"})
	for _, state := range []selection.State{selection.Fine, selection.Busy, selection.Slow, selection.Failing, selection.Ramping} {
		m.probeTime.WithLabelValues(state.String())
	}
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
