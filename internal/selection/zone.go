package selection

import "math"

// locate notes which candidates are in another zone than this client. Where all
// are, or none, zones do not count.
func (d *Decision) locate(zone string) {
	d.remote = false
	if zone == "" {
		return
	}
	local := false
	for _, c := range d.order {
		c.remote = c.Node.Zone != zone
		d.remote = d.remote || c.remote
		local = local || !c.remote
	}
	d.remote = d.remote && local
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
	return !math.IsInf(local, 1) && local <= factor*remote+noise
}
