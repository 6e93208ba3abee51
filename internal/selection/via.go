package selection

import (
	"slices"
	"time"
)

// Via says why a request goes through the nodes that it goes through. The set is closed: it is told to operators.
type Via string

// Why a request goes through a node that has copies or is there to coordinate, or else, which takes the place of these,
// what speaks against the one of them that is best to coordinate.
const (
	// ViaCopy: the node alone can serve the request, so nothing travels between nodes.
	ViaCopy Via = "has_copy"
	// ViaTurns: the nodes that are listed take turns, and those that only coordinate, if these are to be used.
	ViaTurns Via = "in_turn"
	// ViaCoordinatingOnly: the nodes only coordinate, and are better at it than those that are listed.
	ViaCoordinatingOnly Via = "coordinating_only"

	ViaLeaving     Via = "leaving"     // it is about to leave
	ViaUnreachable Via = "unreachable" // it cannot be reached
	ViaEjected     Via = "ejected"     // it is ejected or avoided
	ViaSilent      Via = "silent"      // it is silent
	ViaNotFine     Via = "not_fine"    // it answers no polls, or with errors, or is in slow start
	ViaBusy        Via = "busy"        // its CPUs are, or it rejects searches
	ViaSlowHTTP    Via = "slow_http"   // its overhead is large
)

// Vias returns the closed set.
func Vias() []Via {
	return []Via{ViaCopy, ViaTurns, ViaCoordinatingOnly, ViaLeaving, ViaUnreachable, ViaEjected, ViaSilent, ViaNotFine, ViaBusy, ViaSlowHTTP}
}

// Turns returns the nodes that take turns in coordinating what is decided as d now, until d is used again.
func (d *Decision) Turns() []*Node {
	if len(d.inTurn) == 0 && d.Coordinator != nil { // all of them coordinate too much already
		return []*Node{d.Coordinator}
	}
	return d.inTurn
}

// Via says why [Decision.Turns] are what they are. If something speaks against the nodes that would be in their place, it also
// returns the best of these. It is called at the moment of the choice.
func (s *Selector) Via(d *Decision, now time.Time) (why Via, of *Node) {
	p, turns, at := &d.through, d.Turns(), s.since(now)
	if !slices.ContainsFunc(turns, func(n *Node) bool { return !n.in(p.nodes) }) {
		switch {
		case !slices.ContainsFunc(turns, func(n *Node) bool { return n.in(d.Nodes) }):
			return ViaCoordinatingOnly, nil
		case len(d.Nodes) == 1:
			return ViaCopy, nil
		}
		return ViaTurns, nil
	}
	n := p.nodes[slices.Index(p.ranks, p.best)]
	unfit := p.best >= unfitRank
	switch {
	case unfit && n.leaves(at):
		return ViaLeaving, n
	case unfit && !n.Alive():
		return ViaUnreachable, n
	case unfit && !n.usable():
		return ViaEjected, n
	case unfit && n.owes(at):
		return ViaSilent, n
	case unfit:
		return ViaNotFine, n
	case n.busy(at) > 0 || twice*p.busy >= float64(len(p.nodes)):
		return ViaBusy, n
	}
	return ViaSlowHTTP, n
}
