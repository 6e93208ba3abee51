package proxy

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sidestep/internal/bulk"
)

// Values of labels of the metrics of bulks. The sets are closed.
const (
	operationPlanned = "planned" // beside the reasons of package bulk
	bulkOneShard     = "one_shard"
	bulkOneSlot      = "one_slot"
	bulkMixed        = "mixed"
	bulkPassed       = "passed"
	itemOK           = "ok"
	itemRejected     = "rejected"
	itemFailed       = "failed"
	repeatPrepared   = "prepared"
	repeatSent       = "sent"
	repeatRemembered = "remembered"
	repeatMatched    = "matched"
)

// bulkMetrics are the metrics of bulks that sidestep reads.
type bulkMetrics struct {
	bulks, operations, items, choices, repeats *prometheus.CounterVec
	retried                                    prometheus.Counter
	sizes                                      prometheus.Histogram
}

func newBulkMetrics(reg prometheus.Registerer, p *Proxy) *bulkMetrics {
	auto := promauto.With(reg)
	m := &bulkMetrics{
		bulks: newCounter(auto, "sidestep_bulks_total",
			"Bulks while bulk.single_shard or bulk.routing_size names indices, by result: one_shard (all operations were given a routing), one_slot (the same, some in place of the client's routing), mixed (some operations were given one), passed.",
			"result", []string{bulkOneShard, bulkOneSlot, bulkMixed, bulkPassed}),
		operations: newCounter(auto, "sidestep_bulk_operations_total",
			"Operations of these bulks: planned (given a routing), or the reason why they stayed unchanged.",
			"plan", append(bulk.Reasons(), operationPlanned)),
		items: newCounter(auto, "sidestep_bulk_items_total",
			"Items of the answers to these bulks by outcome, where the answer could be read.",
			"outcome", []string{itemOK, itemRejected, itemFailed}),
		choices: newCounter(auto, "sidestep_bulk_choices_total",
			"Shards chosen for bulks: even (no shard is in trouble), avoided (one that is not in trouble), bound (the others have as much as bulk.max_skew allows, so those in trouble get some), all_sick.",
			"choice", bulk.Choices()),
		repeats: newCounter(auto, "sidestep_bulk_repeats_total",
			"With bulk.idempotent: bulks prepared to be repeated, repeated after a connection broke, remembered as it is unknown whether they were stored, and recognised when the client sent them again.",
			"event", []string{repeatPrepared, repeatSent, repeatRemembered, repeatMatched}),
		retried: auto.NewCounter(prometheus.CounterOpts{
			Name: "sidestep_bulk_retried_items_total",
			Help: "With bulk.retry_rejected: operations that were repeated after the engine rejected them.",
		}),
		sizes: auto.NewHistogram(prometheus.HistogramOpts{
			Name:                        "sidestep_bulk_documents",
			Help:                        "Operations in a bulk.",
			Buckets:                     []float64{1, 10, 100, 500, 1000, 5000, 10000, 50000},
			NativeHistogramBucketFactor: nativeBucketFactor,
		}),
	}
	reg.MustRegister(&skewCollector{p: p, desc: prometheus.NewDesc("sidestep_bulk_skew",
		"Documents of the fullest shard relative to the mean, of what was written since sidestep first wrote to the index; absent before that is eight bulks a shard.", []string{"index"}, nil)})
	return m
}

// passed counts a bulk that is not read.
func (m *bulkMetrics) passed(why bulk.Reason) {
	m.bulks.WithLabelValues(bulkPassed).Inc()
	m.operations.WithLabelValues(string(why)).Inc()
}

// observe counts a bulk that has ended.
func (m *bulkMetrics) observe(b *bulkWrite, t *bulk.Tally) {
	result := bulkMixed
	switch t.Planned {
	case 0:
		result = bulkPassed
	case t.Operations:
		if result = bulkOneShard; slotted(t.Placed) {
			result = bulkOneSlot
		}
	}
	m.bulks.WithLabelValues(result).Inc()
	m.sizes.Observe(float64(t.Operations))
	m.operations.WithLabelValues(operationPlanned).Add(float64(t.Planned))
	for why, n := range t.Passed {
		m.operations.WithLabelValues(string(why)).Add(float64(n))
	}
	m.items.WithLabelValues(itemOK).Add(float64(b.items.ok))
	m.items.WithLabelValues(itemRejected).Add(float64(b.items.rejected))
	m.items.WithLabelValues(itemFailed).Add(float64(b.items.other))
}

// itemCount counts the items in the answer to a bulk by their status, while it streams. A
// key cannot be found in a message, where quotes are escaped. It can in a source that an
// update returns on request: there, what looks like a status counts as an item.
type itemCount struct {
	ok, rejected, other int
	// room begins with the rest of the last part, where a status may have begun.
	room [2 * statusRoom]byte
	rest int
}

// statusRoom is the longest text of a status: `"status" : 201,` with some room.
const statusRoom = 24

var statusKey = []byte(`"status"`) //nolint:gochecknoglobals // a constant

// scan reads the next part of an answer. The last statusRoom bytes wait for the next
// part, so that each status is counted when it is complete.
func (c *itemCount) scan(part []byte) {
	joint := append(c.room[:c.rest], part[:min(len(part), statusRoom)]...) // within the room
	if len(part) > statusRoom {
		c.count(joint, c.rest)
	} else {
		part = joint
	}
	end := max(0, len(part)-statusRoom)
	c.count(part, end)
	c.rest = copy(c.room[:], part[end:])
}

// count counts the statuses that begin before end.
func (c *itemCount) count(b []byte, end int) {
	for at := 0; ; {
		i := bytes.Index(b[at:], statusKey)
		if i < 0 || at+i >= end {
			return
		}
		at += i + len(statusKey)
		digits := bytes.TrimLeft(b[at:], " :")
		switch {
		case len(digits) < 3 || digits[0] < '1' || digits[0] > '5':
		case digits[0] == '2':
			c.ok++
		case string(digits[:3]) == "429":
			c.rejected++
		default:
			c.other++
		}
	}
}

// refused reports whether an item was not stored.
func (c *itemCount) refused() bool { return c.rejected+c.other > 0 }

// end counts what is left at the end of the answer.
func (c *itemCount) end() {
	c.count(c.room[:c.rest], c.rest)
	c.rest = 0
}

// skewCollector reads the books at scrape time, as indices appear and disappear.
type skewCollector struct {
	p    *Proxy
	desc *prometheus.Desc
}

// skewAge is how long an index is shown after the last write to it, and maxSkews bounds
// the number of indices.
const (
	skewAge  = time.Hour
	maxSkews = 200
)

// Describe implements prometheus.Collector.
func (c *skewCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *skewCollector) Collect(ch chan<- prometheus.Metric) {
	skews := c.p.o.Bulk.Books.Skews(time.Now().Add(-skewAge))
	indices := slices.Sorted(maps.Keys(skews)) // the same ones each time
	for _, index := range indices[:min(len(indices), maxSkews)] {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, skews[index], index)
	}
}
