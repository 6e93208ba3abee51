package proxy

import (
	"time"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// NodeStatus is one node as shown on /nodes.
type NodeStatus struct {
	selection.NodeView
	Address string   `json:"address"`
	Roles   []string `json:"roles"`
	Zone    string   `json:"zone,omitempty"`
}

// Nodes describes every node known.
func (p *Proxy) Nodes() []NodeStatus {
	v := p.view.Load()
	out := make([]NodeStatus, len(v.nodes))
	for i, n := range p.o.Selector.View(v.nodes, time.Now()) {
		known := v.snapshot.Nodes[i]
		out[i] = NodeStatus{NodeView: n, Roles: known.Roles, Zone: p.o.Zone.of(known)}
		if u := known.URL; u != nil {
			out[i].Address = u.Host
		}
	}
	return out
}

// Explanation says what would be done with a search on a target, and why.
type Explanation struct {
	Target  string `json:"target"`
	Routing string `json:"routing,omitempty"`
	Mode    Mode   `json:"mode"`
	Policy  string `json:"policy"`
	// Steered says whether such a search would be rewritten; Reason why (not).
	Steered     bool     `json:"steered"`
	Reason      string   `json:"reason"`
	Preference  string   `json:"preference,omitempty"`
	Nodes       []string `json:"nodes,omitempty"` // names of the set chosen
	Coordinator string   `json:"coordinator,omitempty"`
	// Exact is false while the routing is not resolved: then more shards are
	// covered than the search will touch.
	Exact  bool               `json:"exact"`
	Shards []ShardExplanation `json:"shards,omitempty"`
}

// ShardExplanation shows the copies of one shard.
type ShardExplanation struct {
	Index  string            `json:"index"`
	Shard  int               `json:"shard"`
	Copies []CopyExplanation `json:"copies"`
}

// CopyExplanation shows one copy that may serve.
type CopyExplanation struct {
	Node   string          `json:"node"`
	NodeID string          `json:"node_id"`
	State  string          `json:"state"`
	Rank   *float64        `json:"rank"`
	Parts  selection.Parts `json:"parts"`
	Listed bool            `json:"listed"`
}

// Explain decides about a search on target with routing without sending it. A
// target not seen before is learned in the background: ask again.
func (p *Proxy) Explain(target, routing string) Explanation {
	x := &exchange{
		method:  "POST",
		path:    "/" + target + "/_search",
		mode:    p.Mode(),
		view:    p.view.Load(),
		request: es.Request{Operation: es.Search, Target: target, Routing: routing},
	}
	e := Explanation{Target: target, Routing: routing, Mode: x.mode, Policy: p.o.Selector.Policy()}
	now := time.Now()
	if !x.resolve(p, now) {
		e.Reason = x.reason
		return e
	}
	if p.off(es.Search) {
		e.Reason = reasonOperationOff
		return e
	}
	x.decision = &selection.Decision{}
	p.o.Selector.Preview(x.decision, p.selectionRequest(x, nil), now)
	e.Exact = x.plan.Exact
	e.Reason = string(x.decision.Reason)
	e.Nodes = names(x.decision.Nodes)
	if c := x.decision.Coordinator; c != nil {
		e.Coordinator = c.Name
	}
	e.Steered = x.mode == ModeRoute && x.decision.Reason != selection.NoChoice && x.decision.Reason != selection.NoOutlier
	if query, _ := x.rewrite(x.decision, ""); e.Steered {
		e.Preference = query
	}
	e.Shards = p.explainShards(x, now)
	return e
}

func (p *Proxy) explainShards(x *exchange, now time.Time) []ShardExplanation {
	views := p.o.Selector.View(x.view.nodes, now)
	listed := map[string]bool{}
	for _, n := range x.decision.Nodes {
		listed[n.ID] = true
	}
	out := make([]ShardExplanation, len(x.plan.Shards))
	for i, copies := range x.plan.Shards {
		out[i] = ShardExplanation{Index: x.plan.Names[i].Index, Shard: x.plan.Names[i].Number}
		for _, pos := range copies {
			v := views[pos]
			out[i].Copies = append(out[i].Copies, CopyExplanation{
				Node: v.Name, NodeID: v.ID, State: v.State, Rank: v.Rank, Parts: v.Parts, Listed: listed[v.ID],
			})
		}
	}
	return out
}
