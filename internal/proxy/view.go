package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/leg"
	"sidestep/internal/selection"
)

// view is a snapshot with the proxy's own data of its nodes: statistics and connections,
// parallel to Snapshot.Nodes. It is immutable once published.
type view struct {
	snapshot  *cluster.Snapshot // nil until an engine was recognised
	nodes     []*selection.Node
	upstreams []*upstream // nil where the node has no address of its own
	// coordinating are the nodes that requests may be sent through.
	coordinating []*selection.Node
	// spare are those without data that coordinate, if requests are not to be sent through them
	// while another node can be reached.
	spare       []*selection.Node
	preferences *preferences
}

// newView makes the view of s. It keeps statistics and connections of the view before.
func newView(s *cluster.Snapshot, before *view, o Options) *view {
	if before.snapshot != nil && slices.Equal(before.snapshot.Nodes, s.Nodes) {
		same := *before // most snapshots only confirm the placement
		same.snapshot = s
		return &same
	}
	infos := make([]selection.NodeInfo, len(s.Nodes))
	for i, n := range s.Nodes {
		infos[i] = selection.NodeInfo{ID: n.ID, Name: n.Name, Processors: n.Processors, Zone: o.Zone.of(n), NoData: !n.Data(), CoordinatingOnly: o.CoordinatingOnly && !n.Data() && n.Coordinating(), Announced: string(n.Leaving)}
	}
	v := &view{
		snapshot:  s,
		nodes:     o.Selector.Update(infos),
		upstreams: make([]*upstream, len(s.Nodes)),

		preferences: new(preferences),
	}
	for i, n := range s.Nodes {
		if n.URL == nil {
			continue
		}
		old := before.upstream(v.nodes[i])
		switch {
		case old == nil || *old.url != *n.URL:
			old = newUpstream(v.nodes[i], n.URL, o.Transport)
		case old.node != v.nodes[i]: // something else of the node has changed
			old = &upstream{node: v.nodes[i], url: old.url, leg: old.leg, transport: old.transport}
		}
		v.upstreams[i] = old
		if n.Data() || infos[i].CoordinatingOnly {
			v.coordinating = append(v.coordinating, v.nodes[i])
		} else if n.Coordinating() {
			v.spare = append(v.spare, v.nodes[i])
		}
	}
	for _, u := range before.upstreams {
		kept := func(w *upstream) bool { return w != nil && w.leg == u.leg }
		if u != nil && !slices.ContainsFunc(v.upstreams, kept) {
			u.close()
		}
	}
	return v
}

// upstream returns the connections to n, nil if it has no address.
func (v *view) upstream(n *selection.Node) *upstream {
	for i, m := range v.nodes {
		if m.Same(n) {
			return v.upstreams[i]
		}
	}
	return nil
}

// upstream is a node's address and its connections. The leg carries nearly all requests,
// the transport those that stream.
type upstream struct {
	node      *selection.Node
	url       *url.URL
	leg       *leg.Pool
	transport *http.Transport
}

func newUpstream(n *selection.Node, u *url.URL, template *http.Transport) *upstream {
	return &upstream{node: n, url: u, leg: leg.New(legOptions(u, template)), transport: newTransport(u, template)}
}

func (u *upstream) close() {
	u.leg.Close()
	u.transport.CloseIdleConnections()
}

// not are upstreams that a request is not to be sent to: those tried before, and those of
// the nodes that failed it, by whatever address.
type not struct {
	tried  []*upstream
	failed []*selection.Node
}

// leaves reports whether u may be picked.
func (out not) leaves(v *view, u *upstream) bool {
	return u != nil && !slices.Contains(out.tried, u) && !slices.ContainsFunc(out.failed, func(n *selection.Node) bool {
		f := v.upstream(n)
		return f != nil && f.url.Host == u.url.Host
	})
}

// pick returns where to send a request: to the wanted node if it has an address, else to
// the better of two coordinating nodes, else to a spare one or a seed; nil if none is left.
func (p *Proxy) pick(v *view, wanted *selection.Node, out not, now time.Time) *upstream {
	if wanted != nil && wanted.Alive() {
		if u := v.upstream(wanted); out.leaves(v, u) {
			return u
		}
	}
	for _, nodes := range [...][]*selection.Node{v.coordinating, v.spare} {
		n := p.o.Selector.Coordinator(nodes, func(n *selection.Node) bool {
			return n.Alive() && out.leaves(v, v.upstream(n))
		}, now)
		if n != nil {
			return v.upstream(n)
		}
	}
	return p.pickSeed(v, out, now)
}

// pickSeed returns a seed, nil if none is left.
func (p *Proxy) pickSeed(v *view, out not, now time.Time) *upstream {
	var seeds []*selection.Node
	for _, u := range p.seeds {
		if out.leaves(v, u) {
			seeds = append(seeds, u.node)
		}
	}
	n := p.o.Selector.Coordinator(seeds, func(*selection.Node) bool { return true }, now)
	for _, u := range p.seeds {
		if u.node == n {
			return u
		}
	}
	return nil
}
