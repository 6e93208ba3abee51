package proxy

import (
	"fmt"
	"strings"
	"time"

	"sidestep/internal/es"
	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// Through says through which node a request would be sent, and why.
type Through struct {
	// Coordinator is the name of the node, Coordinators are those that take turns, if several do; none if it is any node.
	Coordinator  string   `json:"coordinator,omitempty"`
	Coordinators []string `json:"coordinators,omitempty"`
	// Why is why these coordinate, InPlaceOf the node that would if what Why says did not speak against it.
	Why       selection.Via `json:"coordinator_reason"`
	InPlaceOf string        `json:"in_place_of,omitempty"`
}

// Why no node is named: the request goes through one of all nodes, in turn, or to the addresses given, whatever nodes these
// lead to.
const (
	viaAny       selection.Via = "any"
	viaAddresses selection.Via = "addresses"
)

// through says through which node x would be sent, decided as its first attempt is, if that may be acted upon.
func (x *exchange) through(acts bool, now time.Time) Through {
	unnamed := x.view.throughAny()
	if !acts || x.first == nil || x.mode() != ModeRoute {
		return unnamed
	}
	switch d := &x.first.decision; {
	case d.Reason.Lists():
	case x.steering() == es.SteerItems: // it passes as a whole
		return unnamed
	case !d.Reason.Left() && d.Near() == nil:
		return unnamed
	}
	return x.p.throughOf(x.view, &x.first.decision, now)
}

// throughAny says through which node goes what names none.
func (v *view) throughAny() Through {
	if len(v.coordinating) == 0 {
		return Through{Why: viaAddresses}
	}
	return Through{Why: viaAny}
}

// throughOf says through which nodes goes what is decided as d, where these are named.
func (p *Proxy) throughOf(v *view, d *selection.Decision, now time.Time) Through {
	var named []*selection.Node
	for _, n := range d.Turns() {
		if p.named(v, n, now) != nil {
			named = append(named, n)
		}
	}
	if len(named) == 0 {
		return v.throughAny()
	}
	why, of := p.o.Selector.Via(d, now)
	t := Through{Why: why}
	if of != nil {
		t.InPlaceOf = of.Name
	}
	if names := record.Names(named); len(names) == 1 {
		t.Coordinator = names[0]
	} else {
		t.Coordinators = names
	}
	return t
}

// viaTexts say why a request goes through a node; %s is the node that the other one is in place of.
var viaTexts = map[selection.Via]string{
	viaAny:                        " It would be sent through one of all nodes, in turn.",
	viaAddresses:                  " One of the addresses of upstream.urls gets it, whatever node that leads to.",
	selection.ViaCopy:             " itself, so that nothing travels between nodes.",
	selection.ViaTurns:            ", which coordinates: nodes with about the least coordinating overhead take turns.",
	selection.ViaCoordinatingOnly: ", which is there to coordinate.",
	selection.ViaLeaving:          ", in place of %s, which is about to leave.",
	selection.ViaUnreachable:      ", in place of %s, which cannot be reached.",
	selection.ViaEjected:          ", in place of %s, which is ejected or avoided.",
	selection.ViaSilent:           ", in place of %s, which is silent.",
	selection.ViaNotFine:          ", in place of %s, which answers no polls, or with errors, or comes back.",
	selection.ViaBusy:             ", in place of %s, as nodes with copies are busy.",
	selection.ViaSlowHTTP:         ", in place of %s, which is slow to coordinate.",
}

// maxThrough is how many nodes that take turns are named in words.
const maxThrough = 5

// text says it in words.
func (t Through) text() string {
	text, nodes := viaTexts[t.Why], t.Coordinator
	switch more := len(t.Coordinators) - maxThrough; {
	case more > 0:
		nodes = fmt.Sprintf("one of %s and %d more", strings.Join(t.Coordinators[:maxThrough], ", "), more)
	case nodes == "":
		nodes = "one of " + strings.Join(t.Coordinators, ", ")
	}
	switch {
	case t.Why == viaAny || t.Why == viaAddresses:
		return text
	case t.InPlaceOf != "":
		text = fmt.Sprintf(text, t.InPlaceOf)
	}
	return " It would be sent to " + nodes + text
}
