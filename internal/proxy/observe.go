package proxy

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// outcome is how a request ended for its client. The set is closed: it is a
// metric label.
type outcome string

const (
	outcomeOK          outcome = "ok"
	outcomePartial     outcome = "partial"
	outcomeClientError outcome = "client_error" // 4xx but 429
	outcomeEngineError outcome = "engine_error" // 429, 5xx
	outcomeCanceled    outcome = "canceled"     // the client left
	outcomeUnreachable outcome = "unreachable"  // sidestep's own 502 or 503
)

// outcomeOf returns the outcome that a status stands for.
func outcomeOf(status int) outcome {
	switch {
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return outcomeEngineError
	case status >= http.StatusBadRequest:
		return outcomeClientError
	default:
		return outcomeOK
	}
}

// observe feeds the outcome of one attempt, whose answer has just begun, into the
// statistics.
func (p *Proxy) observe(x *exchange, t *attempt) {
	a := t.answer
	o := selection.Outcome{
		ResponseTime: time.Since(t.began),
		Took:         a.head.Took,
		HasTook:      a.head.HasTook,
	}
	switch {
	case x.steering() == es.SteerByID:
		return // the engine may have fallen back on any copy
	case a.cause != "":
		return // see convict
	case a.resp.StatusCode != http.StatusOK:
		return // an error of the client's teaches nothing about speed
	case x.steering() != es.SteerSearch:
		return // nor does what takes another time than searches
	}
	if t.decision.Reason.Lists() {
		p.allowed()
	}
	p.o.Selector.Observe(t.decision, o, time.Now())
}

// suspect notes whose fault a bad answer may be.
func (x *exchange) suspect(a answer) {
	switch a.cause {
	case causeForbidden, causeRefused, causeTransport:
		return // nobody's fault; or known at once, see blameTransport
	case causeNoCopy:
		return // the placement's fault, not a node's
	case "":
		// Another attempt of a pair may have failed.
	default:
		x.failure = a.cause
	}
	x.suspects = append(x.suspects, a.blamed...)
}

// convict holds what failed against the nodes that are blamed for it, because the
// same search went well on others. What fails everywhere is the search's own fault:
// a client that repeats it must not cost the cluster its good nodes.
func (p *Proxy) convict(x *exchange) {
	if len(x.suspects) == 0 {
		return
	}
	p.o.Selector.Observe(x.decision, selection.Outcome{
		Failed: true, Blamed: x.suspects, Message: "search failed: " + cmp.Or(x.failure, causeEngineError),
	}, time.Now())
}

// completeAnswer does what is left to do to an answer on its way to the client.
func completeAnswer(resp *http.Response) error {
	x := resp.Request.Context().Value(exchangeKey{}).(*exchange)
	x.headAt = time.Now()
	if x.outcome == "" {
		x.outcome = outcomeOf(resp.StatusCode)
	}
	x.writeDecision(resp.Header)
	return nil
}

// finish counts the exchange, and records it if that is wanted.
func (p *Proxy) finish(x *exchange, r *http.Request, w *plainWriter) {
	now := time.Now()
	if x.gone(r) {
		x.outcome = outcomeCanceled
	}
	if x.reason == "" {
		x.reason = reasonGone
	}
	op := string(x.request.Operation)
	p.metrics.requests.WithLabelValues(op, x.reason, string(x.outcome)).Inc()
	p.metrics.duration.WithLabelValues(op).Observe(now.Sub(x.began).Seconds())
	x.endTrace(w.status)
	if !x.headAt.IsZero() {
		own := x.headAt.Sub(x.began) - x.upstream - x.reading
		p.metrics.overhead.Observe(max(0, own.Seconds()))
	}
	p.record(x, r, w, now)
}

// writeDecision tells a client that asked who served it and why.
func (x *exchange) writeDecision(h http.Header) {
	if !x.explain {
		return
	}
	var b strings.Builder
	b.WriteString("mode=" + string(x.mode) + "; reason=" + x.reason)
	b.WriteString("; nodes=" + strings.Join(x.nodes, ","))
	b.WriteString("; attempts=" + strconv.Itoa(x.attempts))
	b.WriteString("; coordinator=" + x.coordinator)
	h.Set(decisionHeader, b.String())
}

// names returns the names of nodes.
func names(nodes []*selection.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}
