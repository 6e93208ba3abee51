package diagnosis

import (
	"slices"
	"time"
)

const (
	// afterTrouble is how long after the end of a spike counters still count for it.
	afterTrouble = 3 * time.Second
	// The service time is taken from while the bout began, the usual one from before the
	// first one.
	serviceFrom, serviceUntil = -3 * time.Second, 10 * time.Second
	usualFrom, usualUntil     = -before, -6 * time.Second
)

// facts are the figures of one bout that causes are judged by. Times are in ms.
type facts struct {
	rec *Record
	Bout
	// steps are the rates from one reading of the counters to the next, from the last
	// reading before the bout to its end.
	steps       []Rates
	normal      Rates // before the record
	normalKnown bool
	previous    *Counters  // the last reading before the bout, nil if there is none
	readings    []Counters // of the bout

	direct, via        way
	addressed          bool // the node's own address is known
	refused            int  // connections that were refused or broken
	restarted          bool
	answered           bool // after the bout began
	asked              time.Time
	silence            float64 // from the first question until the first answer, or the end
	settled            float64 // how long captures took after the first answer: the median
	service, usual     float64 // of a query: during and before; 0 if unknown
	othersService      float64
	poll, probe        float64 // medians during the bout; 0 if unknown
	usualPoll          float64
	queue              float64 // the longest
	active             float64 // the most search threads at work, as polled
	hot                map[string]float64
	fetching, querying int // snapshots of search threads
}

// gather computes the figures of one bout of a record.
func gather(rec *Record, bout Bout) *facts {
	f := &facts{rec: rec, Bout: bout, hot: map[string]float64{}, direct: way{name: "over HTTP"}, via: way{name: "through other nodes"}}
	f.counters()
	f.captures()
	f.samples()
	for _, h := range rec.HotThreads {
		if h.At.Before(bout.Began.Time) || (bout.Ended != nil && h.At.After(bout.Ended.Add(afterTrouble))) {
			continue
		}
		cpu := map[string]float64{}
		for _, t := range h.Threads {
			cpu[t.Pool] += t.CPU / 100
			switch t.Pool {
			case poolSearch, poolWorker, poolSlices:
				f.fetching, f.querying = f.fetching+t.Fetch, f.querying+t.Query
			}
		}
		for pool, v := range cpu {
			f.hot[pool] = max(f.hot[pool], v)
		}
	}
	return f
}

// counters computes the rates between readings.
func (f *facts) counters() {
	stats := slices.Clone(f.rec.Stats)
	slices.SortStableFunc(stats, func(a, b Counters) int { return a.At.Compare(b.At.Time) })
	first := slices.IndexFunc(stats, func(c Counters) bool { return c.At.After(f.Began.Time) })
	if first < 0 {
		first = len(stats)
	}
	// Normal is what came before the first bout: before a later one the node may have
	// been in trouble.
	if n := slices.IndexFunc(stats, func(c Counters) bool { return c.At.After(f.rec.Began.Time) }); n >= 2 {
		f.normal, f.normalKnown = usual(stats[:n])
	}
	if first > 0 {
		f.previous = &stats[first-1]
	}
	anchor := max(0, first-1) // the reading that the next one is compared with
	for i := first; i < len(stats); i++ {
		if end := f.Ended; end != nil && stats[i].At.After(end.Add(afterTrouble)) {
			break
		}
		f.readings = append(f.readings, stats[i])
		// The readings before may be of long ago, and the restart as well.
		f.restarted = f.restarted || stats[i].Uptime < stats[anchor].Uptime && stats[i].started().After(f.Began.Add(-before))
		if rates, ok := between(stats[anchor], stats[i]); !ok || rates.Elapsed >= leastStep {
			if ok {
				f.steps = append(f.steps, rates)
			}
			anchor = i
		}
	}
}

// captures collects how long the node took to answer, on both ways.
func (f *facts) captures() {
	var later []float64
	for _, c := range f.rec.Captures {
		if !c.askedDirect() && !c.askedVia() && c.Status == 0 || c.At.Before(f.Began.Time) {
			continue // a note, or of another bout
		}
		if end := f.Ended; end != nil && c.At.After(end.Time) && f.tries() > 0 {
			f.firstAnswer(c)
			break // it has recovered
		}
		f.addressed = f.addressed || c.Took != nil
		if c.askedDirect() {
			f.direct.add(*c.Took, c.Error)
			if c.Error != "" && *c.Took < millis(statsDeadline)/2 {
				f.refused++
			}
		}
		if c.askedVia() {
			f.via.add(*c.ViaTook, c.ViaError)
		}
		if f.answered {
			later = append(later, quickest(c))
		}
		f.firstAnswer(c)
	}
	f.settled = median(later)
}

// unanswered reports whether the node was asked and did not answer on any way.
func (f *facts) unanswered() bool { return f.tries() > 0 && !f.answered }

// tries is how often it was asked, on both ways.
func (f *facts) tries() int { return len(f.direct.times) + len(f.via.times) }

// firstAnswer notes when the node first answered.
func (f *facts) firstAnswer(c Capture) {
	if f.answered {
		return
	}
	// Silence counts from the first question: before that it is unknown.
	if f.asked.IsZero() {
		f.asked = c.At.Time
	}
	f.answered = c.answeredDirect() || c.answeredVia() || c.Status != 0
	f.silence = millis(c.At.Sub(f.asked)) + quickest(c)
}

// quickest is how long the quicker answer of a capture took or, without an answer, how
// long it was waited for.
func quickest(c Capture) float64 {
	switch {
	case c.Status != 0:
		return *c.Took
	case c.answeredDirect() && c.answeredVia():
		return min(*c.Took, *c.ViaTook)
	case c.answeredDirect():
		return *c.Took
	case c.answeredVia():
		return *c.ViaTook
	case c.Took != nil && c.ViaTook != nil:
		return max(*c.Took, *c.ViaTook)
	case c.Took != nil:
		return *c.Took
	default:
		return *c.ViaTook
	}
}

// samples collects what sidestep itself measured.
func (f *facts) samples() {
	at := f.rec.Samples.At
	if len(f.rec.Samples.Nodes) == 0 {
		return
	}
	own := f.rec.Samples.Nodes[0]
	in := func(s Series, from, until time.Duration) []float64 {
		var values []float64
		for i := range min(len(s), len(at)) {
			if d := at[i].Sub(f.Began.Time); d >= from && d <= until && s[i] == s[i] {
				values = append(values, float64(s[i]))
			}
		}
		return values
	}
	during := serviceUntil
	if end := f.Ended; end != nil {
		during = min(during, end.Sub(f.Began.Time))
	}
	f.service = max(median(in(own.Service, serviceFrom, during)), f.slowestService())
	first := f.rec.Began.Sub(f.Began.Time) // before a later bout the node may have been in trouble
	f.usual = median(in(own.Service, first+usualFrom, first+usualUntil))
	f.poll = median(in(own.Poll, 0, during))
	f.usualPoll = median(in(own.Poll, first+usualFrom, first+usualUntil))
	f.probe = median(in(own.Probe, 0, during))
	for _, q := range in(own.Queue, serviceFrom, during) {
		f.queue = max(f.queue, q)
	}
	for _, n := range in(own.Active, serviceFrom, during) {
		f.active = max(f.active, n)
	}
	for _, c := range f.readings {
		f.queue = max(f.queue, float64(c.Search.Queue+c.Worker.Queue))
	}
	if len(f.rec.Samples.Nodes) > 1 {
		f.othersService = median(in(f.rec.Samples.Nodes[1].Service, serviceFrom, during))
	}
}

// fewQueries is the least number of queries that a service time is computed from.
const fewQueries = 5

// slowestService is the longest service time between two readings.
func (f *facts) slowestService() (slowest float64) {
	for _, s := range f.steps {
		if s.Queries*s.Elapsed >= fewQueries {
			slowest = max(slowest, s.Service)
		}
	}
	return slowest
}

// serviceFactor is the ratio of the service time to the usual one, here or on the other
// nodes; 0 if that is unknown.
func (f *facts) serviceFactor() float64 {
	usual := max(f.usual, f.othersService)
	if f.service == 0 || usual == 0 {
		return 0
	}
	return f.service / max(usual, leastService)
}

// endsQueries reports whether queries ended during the bout: else the service time that is known is that of before.
func (f *facts) endsQueries() bool {
	return len(f.steps) < 2 || slices.ContainsFunc(f.steps[1:], func(s Rates) bool { return s.Queries > 0 })
}

// lately are the rates of the bout: since its first reading, if there was another one and the last reading before is
// minutes ago.
func (f *facts) lately() []Rates {
	if len(f.steps) < 2 || f.steps[0].Elapsed < before.Seconds() {
		return f.steps
	}
	return f.steps[1:]
}

// leastService, in ms, replaces shorter service times: the engines count whole
// milliseconds.
const leastService = 1.0

// compared is the score of work that may be as usual: where that is unknown, as in a sidestep that follows a relay,
// it is told and not named.
func (f *facts) compared(score float64) float64 {
	if f.normalKnown || f.rec.Others.Elapsed > 0 {
		return score
	}
	return min(score, unnamed)
}

// most returns the largest figure of all steps.
func (f *facts) most(figure func(Rates) float64) (largest float64) {
	for _, s := range f.steps {
		largest = max(largest, figure(s))
	}
	return largest
}

// leastStep, in seconds, is the least time between readings that a rate is computed from.
const leastStep = 0.5
