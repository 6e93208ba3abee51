package proxy

import (
	"net/http"

	"sidestep/internal/attempt"
	"sidestep/internal/es"
)

// rule is one row of the table of what is done with each kind of request.
type rule struct {
	attempt.Rule
	judge    func(t *try) // finds whether the answer may be the client's
	searches bool         // its response time counts for the nodes, if it is steered; its repetitions are charged to the budget of searches
}

// ruleOf is the table: how requests of each way of steering are sent. A request that
// creates state (a scroll, a point in time, an asynchronous search) is sent once in any
// case.
func ruleOf(steering es.Steering) rule {
	switch steering {
	case es.SteerSearch:
		return rule{Rule: attempt.Rule{Steered: 2, Hedged: true, Repeatable: true}, judge: (*try).judgeSearch, searches: true}
	case es.SteerOnce:
		return rule{Rule: attempt.Rule{Steered: 1}, judge: (*try).judgeSearch}
	case es.SteerByID:
		return rule{Rule: attempt.Rule{Steered: 1, Repeatable: true}, judge: (*try).judgeRead}
	case es.SteerItems:
		return rule{Rule: attempt.Rule{Steered: 1, Repeatable: true}, judge: (*try).judgeItems}
	default:
		return rule{}
	}
}

// followRule finds the rule of the request.
func (x *exchange) followRule() {
	steering := x.steering()
	switch {
	case x.first == nil: // it passes
		x.rule = ruleOf(es.SteerNone)
		x.rule.searches = steering == es.SteerSearch
		x.rule.Repeatable = steering != es.SteerNone || x.Method == http.MethodGet || x.Method == http.MethodHead
	case x.request.Scroll:
		x.rule = ruleOf(es.SteerOnce)
	default:
		x.rule = ruleOf(steering)
		x.rule.Hedged = x.rule.Hedged && !x.soft
	}
	x.rule.Repeatable = x.bulk.repeats() || x.rule.Repeatable && x.stream == nil && !x.createsState()
}

// createsState reports whether the request creates or advances state on the engine,
// although it may look like a read.
func (x *exchange) createsState() bool {
	return x.request.Scroll || x.Operation == es.Scroll || x.steering() == es.SteerOnce
}
