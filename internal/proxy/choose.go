package proxy

import (
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// choose chooses the copies for the request. If x.first stays nil the request passes, for
// x.Reason.
func (x *exchange) choose() {
	if x.steering() == es.SteerItems {
		if x.Reason == "" {
			x.chooseItems(x.now)
		}
		return
	}
	if x.plan == nil {
		return
	}
	t := newTry(x)
	t.steered = true
	x.p.o.Selector.Choose(&t.decision, x.selectionRequest(nil), x.now)
	x.expect(&t.decision)
	if x.decided(t.decision.Reason) {
		x.first = t
		return
	}
	if x.mode() == ModeRoute {
		x.near = t.decision.Near()
	}
	t.release()
}

// decided records the reason of a decision, and reports whether to act on it.
func (x *exchange) decided(why selection.Reason) bool {
	x.Reason = string(why)
	switch {
	case why == selection.NoChoice, why == selection.Overloaded:
		return false // a list would change nothing
	case x.mode() == ModeObserve:
		x.p.metrics.observed.WithLabelValues(x.Reason).Inc()
		x.Reason = reasonObserve
		return false
	}
	return true
}

// selectionRequest converts the search to the terms of package selection.
func (x *exchange) selectionRequest(avoid []*selection.Node) selection.Request {
	key, sticky := x.p.affinity.key(x.request)
	shards, weights := x.plan.CopySets()
	return selection.Request{
		Nodes: x.view.nodes, Shards: shards, Weights: weights, Outline: (*selection.Outline)(x.plan.Outline()), Avoid: avoid, Affinity: key, Sticky: sticky,
		// The engine takes any copy of a document and does not rank them.
		Outliers: x.p.o.When == WhenOutlier && len(avoid) == 0 && x.steering() != es.SteerByID,
	}
}

// kind groups searches that take about the same time.
func (x *exchange) kind() string {
	if x.Operation == es.Search {
		return x.Target
	}
	return x.Target + "/" + string(x.Operation)
}
