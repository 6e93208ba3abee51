package proxy

import (
	"slices"

	"sidestep/internal/cluster"
)

// Zone says in which zone sidestep runs. Zones are ignored while Local is empty.
type Zone struct {
	Attribute string // of nodes, whose values are the zones
	Local     string // sidestep's own
}

// of returns the zone of n, empty if it is in none.
func (z Zone) of(n *cluster.Node) string {
	return n.Attributes[z.Attribute]
}

// checkZone warns when no node is in sidestep's own zone, as a misspelt name would
// otherwise go unnoticed. It warns once, and again when the zone had nodes in between.
func (p *Proxy) checkZone(s *cluster.Snapshot) {
	z := p.o.Zone
	if z.Local == "" || len(s.Nodes) == 0 {
		return
	}
	var zones []string
	for _, n := range s.Nodes {
		zones = append(zones, z.of(n))
	}
	missing := !slices.Contains(zones, z.Local)
	if missing && !p.zoneMissing {
		slices.Sort(zones)
		p.o.Logger.Warn("no node is in sidestep's own zone", "zone", z.Local, "attribute", z.Attribute, "zones", slices.Compact(zones))
	}
	p.zoneMissing = missing
}
