package proxy

import (
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// Reasons for passing a search that only the proxy knows.
const (
	reasonGone         = "client_gone" // before a decision was made
	reasonOff          = "mode_off"
	reasonObserve      = "observe"
	reasonOperationOff = "operation_off" // switched off for this operation alone
	reasonStale        = "stale_placement"
	reasonTooLong      = "request_line_too_long"
	reasonTooLarge     = "body_too_large"       // no search, and its body cannot be held, or must not before the engine asks for it
	reasonTooMany      = "too_many_items"       // of a multi-search
	reasonForbidden    = "preference_forbidden" // strict weighted routing
)

// decide resolves the target and chooses the copies. It reports whether the
// search is to be steered; if not, x.reason says why.
func (x *exchange) decide(p *Proxy) bool {
	now := time.Now()
	if !x.mayDecide(p, now) || !x.resolve(p, now) {
		return false
	}
	x.decision = &selection.Decision{}
	p.o.Selector.Choose(x.decision, p.selectionRequest(x, nil), now)
	x.reason = string(x.decision.Reason)
	switch {
	case x.decision.Reason == selection.NoChoice, x.decision.Reason == selection.Overloaded:
		return false // a list could change nothing
	case x.mode == ModeObserve:
		p.metrics.observed.WithLabelValues(x.reason).Inc()
		x.reason = reasonObserve
		return false
	}
	return true
}

// mayDecide reports whether anything is to be decided at all.
func (x *exchange) mayDecide(p *Proxy, now time.Time) bool {
	switch {
	case x.reason != "":
		return false
	case x.mode == ModeOff:
		x.reason = reasonOff
		return false
	case p.suspended.holds(now):
		x.reason = reasonForbidden
		return false
	}
	p.o.Touch()
	return true
}

// resolve finds the copies of every shard that the request touches.
func (x *exchange) resolve(p *Proxy, now time.Time) bool {
	s := x.view.snapshot
	if s == nil {
		x.reason = string(cluster.MissNoPlacement)
		return false
	}
	if !s.PlacedAt.IsZero() && now.Sub(s.PlacedAt) > p.o.MaxPlacementAge {
		x.reason = reasonStale
		return false
	}
	if x.steering() == es.SteerByID {
		x.plan, x.reason = x.locate(p, s)
	} else {
		x.plan, x.reason = x.resolveTarget(p, s)
	}
	if x.reason != "" {
		return false
	}
	p.o.Use(x.plan)
	p.probes.recent.add(x.plan, now)
	return true
}

// resolveTarget finds the copies of the shards of the target. A plan is nil for the
// reason given.
func (x *exchange) resolveTarget(p *Proxy, s *cluster.Snapshot) (*cluster.Plan, string) {
	plan, miss := s.Resolve(x.request.Target, x.request.Routing)
	if miss == cluster.MissUnknownTarget || (plan != nil && !plan.Exact) {
		p.o.Learn(x.request.Target, x.request.Routing)
	}
	return plan, string(miss)
}

// selectionRequest states the search in the terms of package selection.
func (p *Proxy) selectionRequest(x *exchange, avoid []*selection.Node) selection.Request {
	key, sticky := p.affinity.key(x.request)
	shards, weights := x.plan.CopySets()
	return selection.Request{
		Nodes: x.view.nodes, Shards: shards, Weights: weights, Outline: (*selection.Outline)(x.plan.Outline()), Avoid: avoid, Affinity: key, Sticky: sticky,
		// Of the copies of a document the engine takes any, it does not rank them.
		Outliers: p.o.When == WhenOutlier && len(avoid) == 0 && x.steering() != es.SteerByID,
	}
}

// rewrite returns the query string that makes the engine use the nodes of d, and
// whether it fits in a request line. Nothing but the preference differs from the
// client's, and where the engine's own selection is to decide nothing does.
func (x *exchange) rewrite(d *selection.Decision, query string) (string, bool) {
	if !d.Reason.Lists() {
		return query, true
	}
	preference := es.OnlyNodes(ids(d.Nodes))
	if x.soft {
		preference = es.PreferNodes(ids(d.Nodes))
	}
	rewritten := es.SetPreference(query, preference)
	return rewritten, es.FitsRequestLine(x.method, x.path, rewritten)
}

// ids returns the ids of nodes.
func ids(nodes []*selection.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.ID
	}
	return out
}
