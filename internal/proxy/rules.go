package proxy

import (
	"net/http"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/es"
)

// rule is one row of the table of what is done with each kind of request.
type rule struct {
	attempt.Rule
	judge    func(t *try)                // whether an answer is the last word
	lease    func(t *try, now time.Time) // counts the attempt as outstanding; nil: it is not counted on the nodes listed
	teaches  bool                        // how long it takes tells of the nodes
	searches bool                        // its successes and failures count towards the budget of searches
}

// The table. What creates state (a scroll, a point in time, an asynchronous search) is
// sent once, whatever else it is.
var ( //nolint:gochecknoglobals // a table
	ruleSearch = rule{Rule: attempt.Rule{Steered: 2, Hedged: true, Repeatable: true, Answers: true}, judge: (*try).judgeSearch, lease: (*try).leaseSearch, teaches: true, searches: true}
	ruleOnce   = rule{Rule: attempt.Rule{Steered: 1}, judge: (*try).judgeSearch}
	ruleByID   = rule{Rule: attempt.Rule{Steered: 1, Repeatable: true}, judge: (*try).judgeRead, lease: (*try).leaseRead}
	ruleItems  = rule{Rule: attempt.Rule{Steered: 1, Repeatable: true}, judge: (*try).judgeItems, lease: (*try).leaseItems}
	rulePass   = rule{}
)

// followRule finds the row of the request.
func (x *exchange) followRule() {
	var r rule
	switch {
	case x.first == nil:
		r = rulePass
		r.searches = x.steering() == es.SteerSearch
		r.Repeatable = x.steering() != es.SteerNone && x.steering() != es.SteerOnce || x.Method == http.MethodGet || x.Method == http.MethodHead
	case x.steering() == es.SteerByID:
		r = ruleByID
	case x.steering() == es.SteerItems:
		r = ruleItems
	case x.steering() == es.SteerOnce || x.request.Scroll:
		r = ruleOnce
	default:
		r = ruleSearch
		r.Hedged = !x.soft
	}
	if x.streams || x.createsState() {
		r.Repeatable, r.Hedged = false, false
	}
	x.rule = r
}

// createsState reports whether the request leaves something behind on the engine, or
// moves on what is there, although it may look like a read.
func (x *exchange) createsState() bool {
	return x.request.Scroll || x.Operation == es.Scroll || x.steering() == es.SteerOnce
}

// leaseSearch counts a search as outstanding on every node listed.
func (t *try) leaseSearch(now time.Time) { t.x.p.o.Selector.Acquire(&t.decision, now) }

// leaseRead counts a read by id. It is load, but how long it takes says nothing of a
// search: no more of it than a search's usual time counts, and no node is silent for
// owing it.
func (t *try) leaseRead(now time.Time) { t.x.p.o.Selector.AcquireItems(&t.decision, 1, now) }
