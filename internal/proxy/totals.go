package proxy

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Totals are the requests served since the proxy was made.
type Totals struct {
	Requests int64
	// Decisions are the requests by reason. Observed are decisions that were made but not
	// applied, by their reason.
	Decisions, Observed map[string]int64
	// Outcomes are the requests by how they ended for the client.
	Outcomes map[string]int64
	// Failovers are by cause, Hedges and Sniffs by result.
	Failovers, Hedges, Sniffs map[string]int64
	// Waiting searches and writes wait for admission now. Refused and Dropped were not admitted.
	Waiting, Refused, Dropped int64
	// Bulks are by result, their operations by plan.
	Bulks, BulkOperations map[string]int64
}

// Totals reads the counters. The cost grows with the number of series: it is for pages,
// not for the hot path.
func (p *Proxy) Totals() Totals {
	t := Totals{Decisions: map[string]int64{}, Outcomes: map[string]int64{}}
	for _, series := range read(p.metrics.requests) {
		t.Requests += series.count
		t.Decisions[series.labels["reason"]] += series.count
		t.Outcomes[series.labels["outcome"]] += series.count
	}
	t.Observed = by(p.metrics.observed, "reason")
	t.Failovers = by(p.metrics.failovers, "cause")
	t.Hedges = by(p.metrics.hedges, "result")
	t.Sniffs = by(p.metrics.sniffs, "result")
	for _, class := range slices.Concat(p.admission.classViews(), p.writes.classViews()) {
		t.Waiting += int64(class.Waiting)
	}
	for _, series := range read(p.metrics.admission.refusals) {
		t.Refused += series.count
	}
	for _, series := range read(p.metrics.admission.dropped) {
		t.Dropped += series.count
	}
	t.Bulks = by(p.metrics.bulk.bulks, "result")
	t.BulkOperations = by(p.metrics.bulk.operations, "plan")
	return t
}

// by returns the counts by the values of one label.
func by(c prometheus.Collector, label string) map[string]int64 {
	counts := map[string]int64{}
	for _, series := range read(c) {
		counts[series.labels[label]] += series.count
	}
	return counts
}

// tally is one series of a counter.
type tally struct {
	labels map[string]string
	count  int64
}

func read(c prometheus.Collector) []tally {
	metrics := make(chan prometheus.Metric)
	go func() {
		c.Collect(metrics)
		close(metrics)
	}()
	var out []tally
	for metric := range metrics {
		var m dto.Metric
		if metric.Write(&m) != nil {
			continue // cannot happen: it was registered
		}
		labels := make(map[string]string, len(m.GetLabel()))
		for _, label := range m.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		out = append(out, tally{labels, int64(m.GetCounter().GetValue())})
	}
	return out
}
