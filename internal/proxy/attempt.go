package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// attempt is one try of a search on one set of copies. Between prepare and the
// end of send it belongs to the goroutine that sends it.
type attempt struct {
	decision *selection.Decision
	upstream *upstream
	query    string
	began    time.Time
	ctx      context.Context //nolint:containedctx // it ends with the attempt, before the request's
	cancel   context.CancelFunc
	state    atomic.Int32
	answer   answer
	step     int // in the exchange's trail
	trace    *attemptTrace
}

// States of an attempt: whoever moves it away from pending decides what becomes
// of its answer.
const (
	pending   int32 = iota
	answered        // the answer is handed on
	abandoned       // another attempt was sooner: the answer is given up
)

// errTooLong says that the list of nodes does not fit in a request line.
var errTooLong = errors.New("the request line would be too long")

// prepare makes an attempt on the nodes of d and acquires its lease. What is sent
// once has none: how long it is outstanding says nothing of the nodes' load.
func (p *Proxy) prepare(x *exchange, r *http.Request, d *selection.Decision, kind attemptKind) (*attempt, error) {
	query, fits := x.rewrite(d, r.URL.RawQuery)
	if !fits {
		return nil, errTooLong
	}
	now := time.Now()
	u := p.pick(x.view, d.Coordinator, x.tried, now)
	if u == nil {
		return nil, errNoUpstream
	}
	d.Coordinator = u.node
	x.tried = append(x.tried, u)
	x.attempts++
	switch x.steering() {
	case es.SteerSearch:
		p.o.Selector.Acquire(d, now)
	case es.SteerByID:
		// It is load, but how long it takes says nothing of a search: no more of it
		// than a search's usual time counts, and nobody is silent for owing it.
		p.o.Selector.AcquireItems(d, 1, now)
	}
	t := &attempt{decision: d, upstream: u, query: query, began: now, step: x.step(kind, u.node, d)}
	t.ctx, t.cancel = context.WithCancel(r.Context())
	t.trace = x.traceSteered(kind, u, d)
	return t, nil
}

// send sends the attempt, judges its answer and learns from it. The lease is
// returned when the answer has been read or given up.
func (p *Proxy) send(x *exchange, r *http.Request, t *attempt) {
	out := x.outbound(r, t.upstream, t.query).WithContext(t.ctx)
	resp, err := x.roundTrip(t.upstream, out, t.trace) //nolint:bodyclose // the answer holds it
	if err != nil {
		t.answer = answer{err: err, cause: causeTransport, blamed: []*selection.Node{t.upstream.node}}
		switch {
		case t.state.Load() == abandoned:
			p.o.Selector.Abandon(t.decision, time.Now())
		case !x.gone(r):
			p.blameTransport(t.upstream, err)
		}
		t.decision.Release()
		t.cancel()
		return
	}
	t.answer = p.judge(x, resp, t.decision)
	t.trace.judged(t.answer.cause)
	p.observe(x, t)
	release := t.cancel
	if t.answer.final() {
		release = func() {
			t.decision.Release()
			t.cancel()
		}
	} else {
		t.decision.Release()
	}
	resp.Body = &leasedBody{ReadCloser: resp.Body, release: release}
}

// abandon gives up an attempt that lost to another. If its answer came at the
// last moment it is in results.
func (x *exchange) abandon(t *attempt, results <-chan *attempt) {
	x.stepAbandoned(t.step)
	t.trace.abandon()
	if t.state.CompareAndSwap(pending, abandoned) {
		t.cancel() // closes the connection, which cancels the search on the engine
		return
	}
	(<-results).answer.discard()
}
