package proxy

import (
	"math"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
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
	spare []*selection.Node
	// longestBody is how many bytes of a body each node takes.
	longestBody int64
	// coordinatingOnly is Options.CoordinatingOnly of the proxy that made it.
	coordinatingOnly bool
}

// views holds the view in use. A proxy and the one that replaces it have it in common.
type views struct {
	atomic.Pointer[view]
	mu sync.Mutex // serialises UseSnapshot and Close
}

// usualLongestBody is what the engines take of a body by default (http.max_content_length).
const usualLongestBody = 100 << 20

// newView makes the view of s. It keeps statistics and connections of the view before.
func newView(s *cluster.Snapshot, before *view, o Options, now time.Time) *view {
	if before.snapshot != nil && before.coordinatingOnly == o.CoordinatingOnly && slices.Equal(before.snapshot.Nodes, s.Nodes) {
		same := *before // most snapshots only confirm the placement
		same.snapshot = s
		return &same
	}
	infos := make([]selection.NodeInfo, len(s.Nodes))
	for i, n := range s.Nodes {
		infos[i] = selection.NodeInfo{ID: n.ID, Name: n.Name, Processors: n.Processors, Zone: o.Zone.of(n), NoData: !n.Data(), CoordinatingOnly: o.CoordinatingOnly && !n.Data() && n.Coordinating(), EphemeralID: n.EphemeralID, Announced: string(n.Leaving)}
	}
	v := &view{
		snapshot:  s,
		nodes:     o.Selector.Update(infos, now),
		upstreams: make([]*upstream, len(s.Nodes)),

		longestBody:      longestBody(s.Nodes),
		coordinatingOnly: o.CoordinatingOnly,
	}
	for i, n := range s.Nodes {
		if n.URL == nil {
			continue
		}
		old := before.upstream(v.nodes[i])
		switch {
		case old == nil || *old.url != *n.URL:
			old = newUpstream(v.nodes[i], n.URL, o)
		case old.node != v.nodes[i]: // something else of the node has changed
			old = &upstream{node: v.nodes[i], url: old.url, leg: old.leg}
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
			u.leg.Close()
		}
	}
	return v
}

// longestBody returns how many bytes of a body each of the nodes takes.
func longestBody(nodes []*cluster.Node) int64 {
	least := int64(math.MaxInt64)
	for _, n := range nodes {
		if n.MaxBody > 0 {
			least = min(least, n.MaxBody)
		}
	}
	if least == math.MaxInt64 {
		return usualLongestBody
	}
	return least
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

// upstream is a node's address and its connections.
type upstream struct {
	node *selection.Node
	url  *url.URL
	leg  *leg.Pool
}

func newUpstream(n *selection.Node, u *url.URL, o Options) *upstream {
	return &upstream{node: n, url: u, leg: leg.New(legTo(u, o.Leg))}
}

// pick returns where to send a request: to the wanted node if that may be (see named), else to the
// best coordinating nodes in turn, but to none that has failed it. If none is said to have, a spare
// one or a seed comes at last. It does not pick upstreams in tried again; nil if none is left.
func (p *Proxy) pick(v *view, wanted *selection.Node, tried []*upstream, failed []*selection.Node, now time.Time) *upstream {
	left := func(n *selection.Node) bool {
		return n.Alive() && (len(tried) == 0 || !slices.Contains(tried, v.upstream(n))) && !slices.ContainsFunc(failed, n.Same)
	}
	if u := p.named(v, wanted, now); u != nil && left(wanted) {
		return u
	}
	if n := p.o.Selector.Coordinator(v.coordinating, left, now); n != nil {
		return v.upstream(n)
	}
	if len(failed) > 0 {
		return nil
	}
	if n := p.o.Selector.Coordinator(v.spare, left, now); n != nil {
		return v.upstream(n)
	}
	return p.pickSeed(tried, now)
}

// named returns where to send a request for which a node is named, or nil; nil if another one is to be picked.
func (p *Proxy) named(v *view, wanted *selection.Node, now time.Time) *upstream {
	if wanted == nil || !wanted.Alive() || p.o.Selector.Leaves(wanted, now) {
		return nil
	}
	return v.upstream(wanted)
}

// pickSeed returns a seed that was not tried, nil if none is left.
func (p *Proxy) pickSeed(tried []*upstream, now time.Time) *upstream {
	seeds := make([]*selection.Node, len(p.seeds))
	for i, u := range p.seeds {
		seeds[i] = u.node
	}
	n := p.o.Selector.Coordinator(seeds, func(n *selection.Node) bool {
		return !slices.ContainsFunc(tried, func(u *upstream) bool { return u.node == n })
	}, now)
	for _, u := range p.seeds {
		if u.node == n {
			return u
		}
	}
	return nil
}
