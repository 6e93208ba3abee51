package lab

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sidestep/internal/selection"
)

// bucket is the grain of loads over time.
const bucket = 100 * time.Millisecond

// measure is what one run brought.
type measure struct {
	sc       *Scenario
	latency  *hdrhistogram.Histogram // µs, of searches begun in the measured window and not failed
	failed   int64                   // begun in the measured window, too
	flooded  int64                   // those of the flood that did not fail, which are not part of the two above
	attempts int64                   // of searches begun in the measured window
	answered int64                   // complete answers that came within the window
	load     [][]int32               // shard queries sent to each node, by bucket
	blamed   map[string]int          // nodes that a sidestep sent away for being slow, and how often
	// ejected counts by node how often a sidecar ceased to use it.
	ejected  map[string]int
	inFlight int64 // searches
	awaited  int64 // of these, those begun in the measured window

	rejections int64     // shard queries that nodes rejected
	gaveUp     int64     // clients that closed their connections
	refused    int64     // searches answered 429 without being sent
	limits     []float64 // mean limit of the nodes, by second
	flow       flow
}

// floodClass is the class of the flood's searches; that of the others is 0.
const floodClass = 1

func newMeasure(sc *Scenario, nodes int) *measure {
	m := &measure{
		sc:      sc,
		latency: hdrhistogram.New(1, time.Hour.Microseconds(), 3),
		load:    make([][]int32, nodes),
		blamed:  map[string]int{},
		ejected: map[string]int{},
	}
	for i := range m.load {
		m.load[i] = make([]int32, int(sc.length/bucket)+1)
	}
	return m
}

// changed notes the change of a node's state at a sidecar.
func (m *measure) changed(c selection.Change) {
	if c.After == selection.Slow {
		m.blamed[c.Node.Name]++
	}
	if !ejects(c.Before) && ejects(c.After) {
		m.ejected[c.Node.Name]++
	}
}

// ejects reports whether a node in this state is ejected.
func ejects(s selection.State) bool {
	switch s {
	case selection.Slow, selection.Failing, selection.Unreachable:
		return true
	}
	return false
}

// rate returns how many a second of the measured window a count is.
func (m *measure) rate(count int64) float64 {
	return float64(count) / (m.sc.length - m.sc.warmup).Seconds()
}

// within reports whether t is in the measured window.
func (m *measure) within(t time.Duration) bool { return t >= m.sc.warmup && t < m.sc.length }

func (m *measure) begin(start time.Duration) {
	count(&m.flow.asked, start)
	m.inFlight++
	if m.within(start) {
		m.awaited++
	}
}

// attempt counts an attempt of a search that began at start.
func (m *measure) attempt(start, now time.Duration) {
	count(&m.flow.sent, now)
	if m.within(start) {
		m.attempts++
	}
}

func (m *measure) finish(s *search, now time.Duration, ok bool) {
	m.inFlight--
	if ok {
		count(&m.flow.answered, now)
		if m.within(now) {
			m.answered++
		}
	}
	if !m.within(s.start) {
		return
	}
	m.awaited--
	switch {
	case ok && s.class == floodClass:
		m.flooded++
	case ok:
		// The range of the histogram is longer than any scenario.
		_ = m.latency.RecordValue(max(1, (now - s.start).Microseconds()))
	case s.class != floodClass:
		m.failed++
	}
}

// close counts what was never answered as failed.
func (m *measure) close() { m.failed += m.awaited }

// dispatch counts a shard query sent to a node.
func (m *measure) dispatch(node int, at time.Duration) {
	if i := int(at / bucket); i < len(m.load[node]) {
		m.load[node][i]++
	}
}

// Numbers are the figures of one run, or a quantile of them over seeds. Times in
// milliseconds; NaN where a figure does not apply.
type Numbers struct {
	Throughput     float64 // complete answers per second
	P50, P90, P99  float64 // +Inf where more failed
	P999           float64
	Failed         float64 // share of searches, 0..1
	BadShare       float64 // of shard queries that went to bad nodes while they were bad
	Avoid, Return  float64 // ms until a bad node got a quarter of its share, and half of it again
	MaxShare       float64 // largest share of a node, as a multiple of the mean
	ShareVariation float64 // mean over nodes of the deviation of its share from one second to the next, relative
}

// numbers boils a run down.
func (m *measure) numbers() Numbers {
	at := func(q float64) float64 { return percentile(m.latency, m.failed, q) }
	n := Numbers{
		Throughput: m.rate(m.answered),
		P50:        at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Failed:   float64(m.failed) / math.Max(1, float64(m.latency.TotalCount()+m.failed)),
		BadShare: math.NaN(), Avoid: math.NaN(), Return: math.NaN(),
	}
	n.MaxShare, n.ShareVariation = m.spread()
	bad, from, to := m.sc.bad()
	if len(bad) == 0 {
		return n
	}
	to = min(to, m.sc.length)
	n.BadShare = m.share(bad, max(from, m.sc.warmup), to)
	fair := float64(len(bad)) / float64(m.sc.nodes)
	if from > 0 {
		n.Avoid = m.until(from, to, func(share float64) bool { return share <= fair/4 }, bad)
	}
	if to < m.sc.length {
		n.Return = m.until(to, m.sc.length, func(share float64) bool { return share >= fair/2 }, bad)
	}
	return n
}

// percentile returns within what time, in ms, q percent of all searches were answered:
// those that failed never were. Else a policy would be the faster the more it fails.
func percentile(answered *hdrhistogram.Histogram, failed int64, q float64) float64 {
	all := answered.TotalCount() + failed
	rank := int64(math.Ceil(q / 100 * float64(all)))
	if rank > answered.TotalCount() {
		return math.Inf(1)
	}
	return float64(answered.ValueAtQuantile(q*float64(all)/float64(max(1, answered.TotalCount())))) / 1000
}

// percentile returns the time within which q percent of the searches were answered, in
// ms; those that failed count with the time after which clients give up.
func (m *measure) percentile(q float64) float64 {
	return min(percentile(m.latency, m.failed, q), millis(m.sc.patience))
}

// share returns the share of shard queries that went to nodes in [from, to); NaN
// if there were none at all.
func (m *measure) share(nodes []int, from, to time.Duration) float64 {
	a, b := int(from/bucket), int(to/bucket)
	var all, some int64
	for n := range m.load {
		for _, v := range m.load[n][a:min(b, len(m.load[n]))] {
			all += int64(v)
		}
	}
	for _, n := range nodes {
		for _, v := range m.load[n][a:min(b, len(m.load[n]))] {
			some += int64(v)
		}
	}
	if all == 0 {
		return math.NaN()
	}
	return float64(some) / float64(all)
}

// until returns how long after from, in ms, the share of nodes over a second first
// satisfies done; NaN if it does not before to.
func (m *measure) until(from, to time.Duration, done func(float64) bool, nodes []int) float64 {
	for t := from; t+time.Second <= to; t += bucket {
		if s := m.share(nodes, t, t+time.Second); !math.IsNaN(s) && done(s) {
			return millis(t - from)
		}
	}
	return math.NaN()
}

// spread returns the largest share of a data node as a multiple of the mean, and
// how much shares vary from second to second: the deviation over the mean,
// averaged over nodes.
func (m *measure) spread() (largest, variation float64) {
	perSecond := int(time.Second / bucket)
	from, to := int(m.sc.warmup/time.Second), int(m.sc.length/time.Second)
	totals := make([]float64, m.sc.nodes)
	var all float64
	for n := range m.sc.nodes {
		var sum, squares float64
		for s := from; s < to; s++ {
			var second float64
			for _, v := range m.load[n][s*perSecond : (s+1)*perSecond] {
				second += float64(v)
			}
			sum += second
			squares += second * second
		}
		totals[n] = sum
		all += sum
		if k := float64(to - from); sum > 0 && k > 1 {
			mean := sum / k
			variation += math.Sqrt(math.Max(0, squares/k-mean*mean)) / mean / float64(m.sc.nodes)
		}
	}
	for _, t := range totals {
		largest = math.Max(largest, t/math.Max(1, all)*float64(m.sc.nodes))
	}
	return largest, variation
}
