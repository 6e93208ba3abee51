package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/selection"
	"sidestep/internal/selection/account"
)

// NodeStatus is one node as shown on /nodes.
type NodeStatus struct {
	selection.Figures
	// Load is the limit, and what is admitted and waits, in shard queries; absent while
	// admission is off.
	*admission.Load
	// Writes is the same of writes, in tasks of the write pool; absent while their
	// admission is off.
	Writes  *admission.Load `json:"writes,omitempty"`
	Address string          `json:"address"`
	Roles   []string        `json:"roles"`
	Zone    string          `json:"zone,omitempty"`
	// NotPolled says that the node neither holds shards nor is sent requests, as a dedicated manager: its state stays
	// unknown.
	NotPolled bool `json:"not_polled,omitempty"`
}

// Nodes describes every node known.
func (p *Proxy) Nodes() []NodeStatus {
	v := p.view.Load()
	out := make([]NodeStatus, len(v.nodes))
	now := time.Now()
	for i, n := range account.Nodes(p.o.Selector, v.nodes, now) {
		known := v.snapshot.Nodes[i]
		out[i] = NodeStatus{Figures: n, Load: p.admission.view(n.ID, now), Writes: p.writes.view(n.ID, now), Roles: known.Roles, Zone: p.o.Zone.of(known), NotPolled: !known.Coordinating()}
		if u := known.URL; u != nil {
			out[i].Address = u.Host
		}
	}
	return out
}

// ErrNoNode says that there is no such node, ErrSeveralNodes that there are several of that name.
var (
	ErrNoNode       = errors.New("there is no such node")
	ErrSeveralNodes = errors.New("there are several nodes of this name")
)

// Drain keeps the node with this name or id from new requests, as far as others can take them,
// for a while; 0: no longer.
func (p *Proxy) Drain(node string, length time.Duration) error {
	var found []*selection.Node
	var names, ids []string
	for _, n := range p.view.Load().nodes {
		names = append(names, n.Name)
		if n.ID == node || n.Name == node {
			found, ids = append(found, n), append(ids, n.ID)
		}
	}
	switch {
	case len(names) == 0:
		return fmt.Errorf("%w: %s; no node is known yet: /-/ready says why", ErrNoNode, node)
	case len(found) == 0:
		return fmt.Errorf("%w: %s; there are %s", ErrNoNode, node, strings.Join(names, ", "))
	case len(found) > 1:
		return fmt.Errorf("%w: %s; give an id: %s", ErrSeveralNodes, node, strings.Join(ids, ", "))
	}
	var until time.Time
	if length > 0 {
		until = time.Now().Add(length)
	}
	p.o.Selector.Leave(found[0], until)
	return nil
}
