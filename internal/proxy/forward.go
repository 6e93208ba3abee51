package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// maxSteered is how many sets of copies a search is tried on before it is sent as
// the client wrote it.
const maxSteered = 2

// errNoUpstream says that no node and no seed could be reached.
var errNoUpstream = errors.New("no upstream can be reached")

// search sends a search to the best copies, then to the next best, and last as
// the client wrote it. It returns the best answer seen.
func (p *Proxy) search(x *exchange, r *http.Request) (*http.Response, error) {
	var best answer
	var avoid []*selection.Node
	d := x.decision
	for try := range maxSteered {
		if try > 0 {
			before := d.Nodes
			d = &selection.Decision{}
			p.o.Selector.Choose(d, p.selectionRequest(x, avoid), time.Now())
			if d.Reason == selection.Overloaded && best.resp != nil && !x.decision.Reason.Lists() {
				return best.response(x) // to the request as written; sent again it were one more
			}
			if d.Reason == selection.Overloaded || slices.Equal(before, d.Nodes) {
				break // no other copies
			}
		}
		t, err := p.prepare(x, r, d, kindFailover)
		if err != nil {
			if errors.Is(err, errTooLong) {
				x.reason = reasonTooLong
			}
			break
		}
		a := p.try(x, r, t, try == 0)
		x.suspect(a)
		if a.final() {
			if a.resp.StatusCode == http.StatusOK {
				p.convict(x)
			}
			best.discard()
			return a.response(x)
		}
		p.metrics.failovers.WithLabelValues(a.cause).Inc()
		best = better(best, a)
		if x.gone(r) || x.consumed {
			break // nobody is waiting, or the body cannot be sent again
		}
		if a.cause == causeForbidden {
			p.suspend()
			x.reason = reasonForbidden
			break
		}
		if a.cause == causeRefused {
			break
		}
		avoid = append(avoid, a.blamed...)
	}
	return p.lastResort(x, r, best)
}

// once sends a request that leaves something behind, or reads by id, to the best
// copies, with a preference that leaves the engine its own fallback. It is sent
// again, as the client wrote it, only where nothing can have been done.
func (p *Proxy) once(x *exchange, r *http.Request) (*http.Response, error) {
	t, err := p.prepare(x, r, x.decision, kindFirst)
	if err != nil {
		if errors.Is(err, errTooLong) {
			x.reason = reasonTooLong
		}
		return p.lastResort(x, r, answer{})
	}
	a := p.try(x, r, t, false)
	switch {
	case a.cause == causeForbidden:
		p.suspend()
		x.reason = reasonForbidden
	case a.cause == causeRefused:
	case a.err != nil && (notSent(a.err) || x.repeatable()):
	default:
		return a.response(x)
	}
	p.metrics.failovers.WithLabelValues(a.cause).Inc()
	return p.lastResort(x, r, a)
}

// try sends an attempt, hedged if it may be, and accounts for it.
func (p *Proxy) try(x *exchange, r *http.Request, t *attempt, hedged bool) answer {
	start := time.Now()
	if hedged {
		t = p.race(x, r, t)
	} else {
		p.send(x, r, t)
		x.stepEnded(t.step, r, t.answer)
	}
	took := time.Since(start)
	x.upstream += took
	x.nodes, x.coordinator = names(t.decision.Nodes), t.upstream.node.Name
	a := t.answer
	x.consumed = x.streams && (a.err == nil || !notSent(a.err))
	if a.final() && a.resp.StatusCode == http.StatusOK && x.steering() == es.SteerSearch {
		p.hedges.Observe(x.kind(), took)
	}
	return a
}

// lastResort sends the search as the client wrote it: what comes back is what the
// client would have got without sidestep. An earlier answer that is better wins.
func (p *Proxy) lastResort(x *exchange, r *http.Request, best answer) (*http.Response, error) {
	if x.consumed || (x.attempts > 0 && x.gone(r)) {
		return best.response(x)
	}
	x.nodes = nil
	resp, err := p.pass(x, r)
	if err == nil && p.mayPass(x, r, resp) {
		_ = resp.Body.Close()
		resp, err = p.pass(x, r)
	}
	if err != nil {
		if best.resp != nil {
			return best.response(x)
		}
		return nil, err
	}
	last := p.judgeOwn(x, resp)
	if last.final() && resp.StatusCode == http.StatusOK {
		p.convict(x)
	}
	return better(best, last).response(x)
}

// settleTime is how long a cluster that loses a node while it gets another back is
// given before a search is sent once more.
const settleTime = 250 * time.Millisecond

// mayPass reports, after settleTime, whether the engine's verdict may be another by
// then: a 500 or 503 while some node comes or goes. It takes from the budget for
// second attempts, as the cluster may be down for good.
func (p *Proxy) mayPass(x *exchange, r *http.Request, resp *http.Response) bool {
	down := resp.StatusCode == http.StatusInternalServerError || resp.StatusCode == http.StatusServiceUnavailable
	if !down || !x.repeatable() || x.consumed || !p.hedges.Spend() {
		return false
	}
	if !settle(r.Context()) {
		return false
	}
	x.upstream += settleTime
	return true
}

// settle waits for settleTime. It reports false if ctx ended.
func settle(ctx context.Context) bool {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// connectPatience is for how long a request is kept whose connections could not be
// made in time. upstream.dial_timeout is short, so that another node is tried soon,
// but on a machine that has no processor to spare it passes at every node: who
// connects without sidestep waits longer than for all of them.
const connectPatience = 30 * time.Second

// pass sends a request as the client wrote it to a good node. A connection that
// could not be made is tried elsewhere: nothing was sent, so nothing is done
// twice. Reads without a body are repeated after any transport error.
func (p *Proxy) pass(x *exchange, r *http.Request) (*http.Response, error) {
	began := time.Now()
	for {
		resp, late, err := p.passOnce(x, r)
		if err == nil || !late || x.gone(r) || time.Since(began) >= connectPatience {
			return resp, err
		}
		settle(r.Context())
	}
}

// passOnce is pass with one attempt at each node. late says that it failed as a
// connection was not made in time, and nothing was sent.
func (p *Proxy) passOnce(x *exchange, r *http.Request) (resp *http.Response, late bool, err error) {
	var tried []*upstream
	last := errNoUpstream
	for {
		now := time.Now()
		u := p.pick(x.view, nil, slices.Concat(tried, x.tried), now)
		if u == nil {
			u = p.pick(x.view, nil, tried, now)
		}
		if u == nil {
			return nil, late, last
		}
		x.attempts++
		step := x.step(kindFailover, u.node, nil)
		u.node.Begin()
		resp, err = x.roundTrip(u, x.outbound(r, u, r.URL.RawQuery), x.tracePass(u))
		u.node.End()
		x.stepEnded(step, r, answer{resp: resp, err: err})
		x.upstream += time.Since(now)
		x.consumed = x.streams && (err == nil || !notSent(err))
		if err == nil {
			x.coordinator = u.node.Name
			return resp, false, nil
		}
		if x.gone(r) {
			return nil, false, err
		}
		if !notSent(err) && !x.repeatable() {
			// The engines hang up on what they do not understand (a method of no known
			// name): whether the node is gone the polls tell.
			return nil, false, err
		}
		late = late || notSent(err) && timedOut(err)
		p.blameTransport(u, err)
		p.metrics.failovers.WithLabelValues(causeTransport).Inc()
		tried, last = append(tried, u), err
	}
}

// roundTrip sends out to u.
func (x *exchange) roundTrip(u *upstream, out *http.Request, trace *attemptTrace) (*http.Response, error) {
	trace.send(out)
	send := u.transport.RoundTrip
	if !x.repeatable() {
		send = func(out *http.Request) (*http.Response, error) { return sendOnce(u.transport, out) }
	}
	resp, err := send(out)
	trace.answered(resp, err)
	if err != nil {
		return nil, fmt.Errorf("send to %s: %w", u.node.Name, err)
	}
	return resp, nil
}

// outbound returns the request to send to u. The path is the client's, byte for
// byte.
func (x *exchange) outbound(r *http.Request, u *upstream, query string) *http.Request {
	out := r.WithContext(r.Context())
	target := *r.URL
	target.Scheme, target.Host, target.RawQuery = u.url.Scheme, u.url.Host, query
	if strings.HasPrefix(x.path, "//") { // which net/url would take for the start of a host
		target.RawPath = escapeOdd(x.path)
		target.Path, _ = url.PathUnescape(target.RawPath) // the server has accepted it
	} else {
		target.Opaque = x.path
	}
	out.URL, out.Trailer = &target, x.trailer
	if x.streams {
		// The transport closes a body even when it could not connect; the next
		// node must still be able to read it.
		out.Body = io.NopCloser(r.Body)
	}
	if x.body != nil {
		carry(out, x.body)
	}
	return out
}

// carry gives out a body that can be sent again.
func carry(out *http.Request, body []byte) {
	if len(out.Trailer) == 0 { // which come after chunks alone
		out.ContentLength, out.TransferEncoding = int64(len(body)), nil
	}
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(body)), nil
	}
}

// escapeOdd escapes what may not stand in a path but does, and leaves the rest as
// it is.
func escapeOdd(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}#", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// repeatable reports whether the request may be sent again although it may have
// been received: it changes nothing and its body is at hand.
func (x *exchange) repeatable() bool {
	if x.streams {
		return false
	}
	read := x.method == http.MethodGet || x.method == http.MethodHead
	switch x.steering() {
	case es.SteerItems, es.SteerByID:
		return true
	case es.SteerSearch:
		return read || !x.request.Scroll
	}
	return read
}

// blameTransport notes that u failed to carry a request.
func (p *Proxy) blameTransport(u *upstream, err error) {
	p.o.Selector.MarkUnreachable(u.node, err.Error(), time.Now())
}

// gone reports whether the client has left.
func (x *exchange) gone(r *http.Request) bool {
	return x.clientGone.Load() || r.Context().Err() != nil
}

// notSent reports whether err shows that not a byte of the request can have
// reached the node.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// timedOut reports whether err is that something took too long.
func timedOut(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// fail answers a request that no upstream answered, in the engine's own shape.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := r.Context().Value(exchangeKey{}).(*exchange)
	if x.gone(r) {
		panic(http.ErrAbortHandler) // nobody is there to be answered
	}
	x.outcome = outcomeUnreachable
	p.complaints.Do(func() {
		p.o.Logger.Warn("no upstream answered; the metric sidestep_requests_total counts how many requests, this is said once in ten seconds",
			"method", x.method, "operation", x.request.Operation, "attempts", x.attempts, "err", err)
	})
	status, typ := http.StatusServiceUnavailable, "no_upstream_exception"
	if !notSent(err) && !errors.Is(err, errNoUpstream) {
		status, typ = http.StatusBadGateway, "upstream_connection_exception"
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	x.writeDecision(w.Header())
	w.WriteHeader(status)
	_, _ = w.Write(es.ErrorBody(status, typ, "sidestep: "+err.Error()))
}
