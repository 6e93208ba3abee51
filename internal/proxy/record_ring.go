package proxy

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/es"
)

// What a record is kept for. The set is closed: it is shown.
const (
	keptSlow     = "slow"
	keptFailover = "failover"
	keptHedge    = "hedge"
)

// RecordRules says which requests are recorded.
type RecordRules struct {
	// Slow is how long a request must take to be slow; 0: none is.
	Slow time.Duration
	// Keep is how many records are kept in each ring; 0: none.
	Keep int
	// AccessLog takes a Share of all requests, from 0 to 1, SlowLog all slow ones; nil:
	// nothing is logged. They must not block nor change the record.
	AccessLog func(*Record)
	Share     float64
	SlowLog   func(*Record)
}

// Records decides which requests are recorded and keeps the last that were slow or
// took several attempts. They outlive a reload. It is safe for concurrent use; only
// requests that are kept take its lock.
type Records struct {
	rules atomic.Pointer[RecordRules]

	mu    sync.Mutex
	rings [ringCount]ring
}

// The rings. Each has its own bound, so that slow bulks do not push searches out, nor
// a burst of hedges what was slow.
const (
	ringSlow      = iota // of operations that are steered
	ringSlowOther        // of the others
	ringFailover
	ringHedge
	ringCount
)

// ring keeps the last records.
type ring struct {
	records []*Record
	next    int // where the next one goes, once full
}

// NewRecords returns a Records that records nothing until [Records.Use].
func NewRecords() *Records {
	r := &Records{}
	r.rules.Store(&RecordRules{})
	return r
}

// Use makes the recorder follow rules from the next request on. What is kept stays, as
// far as there is room.
func (r *Records) Use(rules RecordRules) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rings {
		newest := r.rings[i].newest()
		r.rings[i] = ring{records: newest[:min(len(newest), rules.Keep)]}
		slices.Reverse(r.rings[i].records)
	}
	r.rules.Store(&rules)
}

// Last returns the records kept, newest first, at most limit.
func (r *Records) Last(limit int) []*Record {
	r.mu.Lock()
	all := []*Record{}
	for i := range r.rings {
		all = append(all, r.rings[i].newest()...)
	}
	r.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *Record) int { return b.ended.Compare(a.ended) })
	return all[:min(len(all), limit)]
}

// record records the exchange, if it is to be.
func (p *Proxy) record(x *exchange, r *http.Request, w *plainWriter, end time.Time) {
	if p.o.Records == nil {
		return
	}
	rules := p.o.Records.rules.Load()
	slow := rules.Slow > 0 && end.Sub(x.began) >= rules.Slow
	kept := rules.Keep > 0 && (slow || len(x.trail.steps) > 1)
	logged := rules.AccessLog != nil && (rules.Share >= 1 || rand.Float64() < rules.Share) //nolint:gosec // a sample, not a secret
	slowLogged := slow && rules.SlowLog != nil
	if !kept && !logged && !slowLogged {
		return
	}
	rec := x.record(r, w, end)
	if kept || slowLogged {
		rec.Kept, rec.Decision = x.keptFor(slow), p.account(x, end)
	}
	if kept {
		p.o.Records.keep(rec, rules.Keep)
	}
	if logged {
		rules.AccessLog(rec)
	}
	if slowLogged {
		rules.SlowLog(rec)
	}
}

// keptFor says what a record of the exchange is kept for.
func (x *exchange) keptFor(slow bool) []string {
	var kept []string
	if slow {
		kept = append(kept, keptSlow)
	}
	for _, s := range x.trail.steps {
		if reason := map[attemptKind]string{kindFailover: keptFailover, kindHedge: keptHedge}[s.kind]; reason != "" && !slices.Contains(kept, reason) {
			kept = append(kept, reason)
		}
	}
	return kept
}

// keep puts a record into the ring it belongs to.
func (r *Records) keep(rec *Record, most int) {
	i := ringHedge
	switch {
	case slices.Contains(rec.Kept, keptSlow) && rec.Operation.Steering() != es.SteerNone:
		i = ringSlow
	case slices.Contains(rec.Kept, keptSlow):
		i = ringSlowOther
	case slices.Contains(rec.Kept, keptFailover):
		i = ringFailover
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings[i].add(rec, most)
}

// add puts a record in place of the oldest once there are most of them.
func (r *ring) add(rec *Record, most int) {
	if len(r.records) < most {
		r.records = append(r.records, rec)
		return
	}
	r.records[r.next] = rec
	r.next = (r.next + 1) % len(r.records)
}

// newest returns the records, newest first.
func (r *ring) newest() []*Record {
	out := make([]*Record, 0, len(r.records))
	for i := range r.records {
		out = append(out, r.records[(r.next+len(r.records)-1-i)%len(r.records)])
	}
	return out
}
