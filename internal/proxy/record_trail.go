package proxy

import (
	"net/http"
	"time"

	"sidestep/internal/selection"
)

// attemptKind says why an attempt was made. The set is closed: it is logged.
type attemptKind string

const (
	kindFirst    attemptKind = "first"
	kindFailover attemptKind = "failover" // an attempt before it failed
	kindHedge    attemptKind = "hedge"    // one that goes on was overdue
)

// Ends of an attempt beside the causes of failovers. The set is closed: it is logged.
const (
	endAnswered  = "answered"
	endAbandoned = "abandoned" // another attempt was sooner
	endCanceled  = "canceled"  // the client left
)

// usualAttempts is how many attempts are noted without an allocation.
const usualAttempts = 2

// trail is what is noted of the attempts of an exchange while it goes on, for a record
// that may be wanted in the end. The handler's goroutine alone touches it.
type trail struct {
	steps []step
	room  [usualAttempts]step
}

// step is one attempt.
type step struct {
	kind     attemptKind
	node     *selection.Node     // that it was sent to
	decision *selection.Decision // whose nodes were listed; nil: sent as the client wrote it
	began    time.Duration       // after the exchange
	took     time.Duration       // until the head of the answer, its failure or its end
	end      string              // empty while it goes on
	status   int
	err      error
}

// step notes that an attempt begins now and returns which one it is.
func (x *exchange) step(kind attemptKind, node *selection.Node, d *selection.Decision) int {
	t := &x.trail
	if t.steps == nil {
		t.steps = t.room[:0]
	}
	if len(t.steps) == 0 {
		kind = kindFirst
	}
	t.steps = append(t.steps, step{kind: kind, node: node, decision: d, began: time.Since(x.began)})
	return len(t.steps) - 1
}

// stepEnded notes how an attempt ended.
func (x *exchange) stepEnded(i int, r *http.Request, a answer) {
	s := &x.trail.steps[i]
	s.took, s.err = time.Since(x.began)-s.began, a.err
	switch {
	case a.err != nil && x.gone(r):
		s.end = endCanceled
	case a.cause != "":
		s.end = a.cause
	case a.err != nil:
		s.end = causeTransport
	default:
		s.end = endAnswered
	}
	if a.resp != nil {
		s.status = a.resp.StatusCode
	}
}

// stepAbandoned notes that an attempt was given up for a sooner one.
func (x *exchange) stepAbandoned(i int) {
	s := &x.trail.steps[i]
	s.took, s.end = time.Since(x.began)-s.began, endAbandoned
}
