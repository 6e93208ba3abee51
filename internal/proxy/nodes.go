package proxy

import (
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/selection/account"
)

// NodeStatus is one node as shown on /nodes.
type NodeStatus struct {
	account.Node
	// Load is the limit, and what is admitted and waits, in shard queries; absent while
	// admission is off.
	*admission.Load
	// Writes is the same of writes, in tasks of the write pool; absent while their
	// admission is off.
	Writes  *admission.Load `json:"writes,omitempty"`
	Address string          `json:"address"`
	Roles   []string        `json:"roles"`
	Zone    string          `json:"zone,omitempty"`
}

// Nodes describes every node known.
func (p *Proxy) Nodes() []NodeStatus {
	v := p.view.Load()
	out := make([]NodeStatus, len(v.nodes))
	now := time.Now()
	for i, n := range account.Nodes(p.o.Selector, v.nodes, now) {
		known := v.snapshot.Nodes[i]
		out[i] = NodeStatus{Node: n, Load: p.admission.view(n.ID, p.AdmissionMode(), now), Writes: p.writes.view(n.ID, p.writes.inForce(), now), Roles: known.Roles, Zone: p.o.Zone.of(known)}
		if u := known.URL; u != nil {
			out[i].Address = u.Host
		}
	}
	return out
}
