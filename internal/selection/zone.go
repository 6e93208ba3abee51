package selection

import "math"

// local reports whether the node is in this client's zone, or zones do not count.
func (s *Selector) local(n *Node) bool { return s.o.Zone == "" || n.Zone == s.o.Zone }

// locate notes which candidates are in another zone than this client. Where all
// are, or none, zones do not count.
func (d *Decision) locate(s *Selector) {
	remote := 0
	for _, c := range d.order {
		if c.remote = !s.local(c.Node); c.remote {
			remote++
		}
	}
	d.remote = 0 < remote && remote < len(d.order)
}

// Zoned reports whether some of the copies are in this client's zone, and some are not.
func (d *Decision) Zoned() bool { return d.remote }

// staysLocal reports whether a shard is to be served in this client's zone: it has
// a copy there that fits, and the best of those elsewhere that do does
// not rank better by more than factor.
func (d *Decision) staysLocal(copies []int, may fitness, factor float64) bool {
	local, remote := math.Inf(1), math.Inf(1)
	for _, p := range copies {
		c := &d.candidates[p]
		switch {
		case !may.fits(c):
		case c.remote:
			remote = min(remote, c.Rank)
		default:
			local = min(local, c.Rank)
		}
	}
	return !math.IsInf(local, 1) && local <= factor*remote+noise // the product may be infinite
}
