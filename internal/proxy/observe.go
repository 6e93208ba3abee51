package proxy

import (
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
		Failed:       a.cause != "",
		Blamed:       a.blamed,
		Message:      "search failed: " + a.cause,
	}
	switch {
	case x.steering() == es.SteerByID:
		return // the engine may have fallen back on any copy
	case a.cause == causeForbidden, a.cause == causeRefused:
		return // nobody's fault
	case a.cause == causeNoCopy:
		return // the placement's fault, not a node's
	case a.cause == "" && a.resp.StatusCode != http.StatusOK:
		return // an error of the client's teaches nothing about speed
	case a.cause == "" && x.steering() != es.SteerSearch:
		return // nor does what takes another time than searches
	}
	if a.final() && t.decision.Reason != selection.NoOutlier {
		p.allowed()
	}
	p.o.Selector.Observe(t.decision, o, time.Now())
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

// finish counts the exchange.
func (p *Proxy) finish(x *exchange, r *http.Request) {
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
	if !x.headAt.IsZero() {
		own := x.headAt.Sub(x.began) - x.upstream - x.reading
		p.metrics.overhead.Observe(max(0, own.Seconds()))
	}
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
