package record

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/es"
	"sidestep/internal/selection/account"
)

// Why a record is kept. The set is closed: it is shown.
const (
	keptSlow     = "slow"
	keptFailed   = "failed"
	keptFailover = "failover"
	keptHedge    = "hedge"
)

// Rules says which requests are recorded.
type Rules struct {
	// Slow is how long a request must take to be slow; 0: none is.
	Slow time.Duration
	// Keep is how many records are kept in each ring; 0: none.
	Keep int
	// AccessLog gets a Share of all requests, from 0 to 1, SlowLog all slow ones; nil:
	// nothing is logged. They must neither block nor change the record.
	AccessLog func(*Record)
	Share     float64
	SlowLog   func(*Record)
}

// Recorder decides which requests are recorded, and keeps the last ones that were slow,
// failed, or took several attempts. These outlive a reload. It is safe for concurrent use;
// only requests that are kept take its lock.
type Recorder struct {
	rules atomic.Pointer[Rules]

	mu    sync.Mutex
	rings map[ringKey]ring
}

// ringKey is the first reason why a record is kept, and whether its operation is steered if that is that it was slow. Each has a
// ring of its own, so that slow bulks do not displace searches, and a burst of hedges does not displace slow requests.
type ringKey struct {
	why     string
	steered bool
}

// ring keeps the last records, the oldest first.
type ring []*Record

// NewRecorder returns a Recorder that records nothing until [Recorder.Use].
func NewRecorder() *Recorder {
	r := &Recorder{rings: map[ringKey]ring{}}
	r.rules.Store(&Rules{})
	return r
}

// Use sets the rules from the next request on. Records stay as far as there is room.
func (r *Recorder) Use(rules Rules) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rings {
		r.rings[i] = r.rings[i].last(rules.Keep)
	}
	r.rules.Store(&rules)
}

// Last returns the records kept, newest first, at most limit.
func (r *Recorder) Last(limit int) []*Record {
	r.mu.Lock()
	all := []*Record{}
	for _, ring := range r.rings {
		all = append(all, ring...)
	}
	r.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *Record) int { return b.ended.Compare(a.ended) })
	return all[:min(len(all), limit)]
}

// Decided describes the first decision about a request, with what is known when it has
// ended; nil if none was made.
type Decided interface{ Account() *account.Account }

// Take records the request of a trail that ended at end, if the rules say so. by is
// called only for records that are kept.
func (r *Recorder) Take(t *Trail, request *http.Request, end time.Time, by Decided) {
	rules := r.rules.Load()
	slow := rules.Slow > 0 && end.Sub(t.Began) >= rules.Slow
	var why []string
	if slow || t.Failed || len(t.Attempts) > 1 {
		why = t.keptFor(slow)
	}
	kept := rules.Keep > 0 && len(why) > 0
	logged := rules.AccessLog != nil && (rules.Share >= 1 || rand.Float64() < rules.Share) //nolint:gosec // a sample, not a secret
	slowLogged := slow && rules.SlowLog != nil
	if !kept && !logged && !slowLogged {
		return
	}
	rec := t.record(request, end)
	if kept || slowLogged {
		rec.Kept, rec.Decision = why, by.Account()
	}
	if kept {
		r.keep(rec, rules.Keep)
	}
	if logged {
		rules.AccessLog(rec)
	}
	if slowLogged {
		rules.SlowLog(rec)
	}
}

// keptFor returns why a record of the request is kept, what matters most first.
func (t *Trail) keptFor(slow bool) (kept []string) {
	made := func(k Kind) bool {
		return slices.ContainsFunc(t.Attempts, func(a Attempt) bool { return a.Kind == k })
	}
	for _, reason := range []struct {
		why string
		is  bool
	}{{keptSlow, slow}, {keptFailed, t.Failed}, {keptFailover, made(Failover)}, {keptHedge, made(Hedge)}} {
		if reason.is {
			kept = append(kept, reason.why)
		}
	}
	return kept
}

// keep puts a record into the ring it belongs to.
func (r *Recorder) keep(rec *Record, most int) {
	k := ringKey{why: rec.Kept[0]}
	k.steered = k.why == keptSlow && rec.Operation.Steering() != es.SteerNone
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings[k] = append(r.rings[k], rec).last(most)
}

// last returns the last records, so many at most.
func (r ring) last(most int) ring {
	over := max(0, len(r)-most)
	clear(r[:over]) // what is before a slice stays in memory
	return r[over:]
}
