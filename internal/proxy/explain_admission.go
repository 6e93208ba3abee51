package proxy

import (
	"fmt"
	"slices"
	"time"

	"sidestep/internal/admission"
)

// AdmissionExplanation says what admission would do with a request at this moment.
type AdmissionExplanation struct {
	Mode  admission.Mode `json:"mode"` // in force
	Class string         `json:"class"`
	// Would is what would be done: admit, wait or refuse. Reason is of a refusal.
	Would   string           `json:"would"`
	Reason  admission.Reason `json:"reason,omitempty"`
	Waiting int              `json:"waiting"` // searches of the class that wait
	Summary string           `json:"summary"`
	// Nodes are those that the request would be sent to; none: any node.
	Nodes []AdmissionNode `json:"nodes,omitempty"`
}

// AdmissionNode is the load of a node, and what a request would add to it.
type AdmissionNode struct {
	Node   string  `json:"node"`
	NodeID string  `json:"node_id"`
	Adds   float64 `json:"adds"` // shard queries, by their expected share
	admission.Load
}

// explainAdmission tells what admission would do with x; nil while it is off, and of what
// is no load of the search threads.
func explainAdmission(x *exchange) *AdmissionExplanation {
	if x.admitter == nil {
		return nil
	}
	a, t, now := x.admitter, &x.ticket, time.Now()
	t.Class = a.classOf(x)
	e := &AdmissionExplanation{Mode: a.inForce()}
	a.mu.Lock()
	defer a.mu.Unlock()
	verdict, why := a.control.Preview(t, now)
	e.Class = a.classes[t.Class].Name
	e.Waiting = a.control.Classes()[t.Class].Waiting
	switch {
	case verdict == admission.Refused:
		e.Would, e.Reason, e.Summary = "refuse", why, "It would be answered 429: "+refusals[why]+"."
	case verdict == admission.Waits:
		e.Would, e.Summary = "wait", fmt.Sprintf("It would wait. Of its class %d wait now.", e.Waiting)
	case t.Unmeasured:
		e.Would, e.Summary = "admit", "It would be sent at once, as nothing is known of the load of its nodes."
	default:
		e.Would, e.Summary = "admit", "It would be sent at once."
	}
	if e.Mode == admission.Observe && verdict != admission.Admitted {
		e.Summary += " As the mode is observe, it is sent at once and counted."
	}
	for _, part := range t.Parts {
		n := AdmissionNode{NodeID: part.Node, Adds: part.Tasks, Load: a.control.View(part.Node, now)}
		if at, ok := x.view.snapshot.Position(part.Node); ok {
			n.Node = x.view.snapshot.Nodes[at].Name
		}
		e.Nodes = append(e.Nodes, n)
	}
	return e
}

// AdmissionClassStatus is what became of the searches of a class since the start.
type AdmissionClassStatus struct {
	Class      string `json:"class"`
	Waiting    int    `json:"waiting"` // now
	Admitted   int64  `json:"admitted"`
	Downgraded int64  `json:"downgraded"` // to its lower class
	Refused    int64  `json:"refused"`
	Dropped    int64  `json:"dropped"`
	// WouldWait and WouldRefuse are what mode observe found.
	WouldWait   int64 `json:"would_wait"`
	WouldRefuse int64 `json:"would_refuse"`
}

// AdmissionClasses describes the classes. It costs what [Proxy.Totals] does.
func (p *Proxy) AdmissionClasses() []AdmissionClassStatus {
	refused, dropped := by(p.metrics.admission.refusals, "class"), by(p.metrics.admission.dropped, "class")
	var out []AdmissionClassStatus
	for _, k := range slices.Concat(p.admission.classViews(), p.writes.classViews()) {
		s := AdmissionClassStatus{
			Class: k.Name, Waiting: k.Waiting, Admitted: k.Admitted, Downgraded: k.Downgraded, Refused: refused[k.Name], Dropped: dropped[k.Name], WouldWait: k.WouldWait,
		}
		for _, n := range k.WouldRefuse {
			s.WouldRefuse += n
		}
		out = append(out, s)
	}
	return out
}
