package proxy

import (
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
)

// Reasons for passing a request that are the proxy's own.
const (
	reasonGone         = "client_gone" // before the decision
	reasonOff          = "mode_off"
	reasonObserve      = "observe"
	reasonOperationOff = "operation_off" // switched off for this operation alone
	reasonStale        = "stale_placement"
	reasonTooLong      = "request_line_too_long"
	reasonTooMany      = "too_many_items"       // in a multi-search or multi get
	reasonForbidden    = "preference_forbidden" // strict weighted routing
	reasonFailing      = "failing_everywhere"   // second attempts fail, too: the request is sent once, as the client wrote it
)

// resolve finds the copies of every shard that the request touches. Without a plan
// x.Reason says why.
func (x *exchange) resolve() {
	x.now, x.ruledOut = time.Now(), x.Reason
	if es.AsksAddresses(x.Method, x.Path) {
		x.sniff = x.p.addressFor(x)
		return
	}
	if x.mayDecide(x.now) && x.steering() != es.SteerItems {
		x.plan, x.Reason = x.planAt(x.view.snapshot, x.now)
	}
}

// mayDecide reports whether there is to be a decision about the request.
func (x *exchange) mayDecide(now time.Time) bool {
	switch {
	case x.Reason != "":
		return false
	case x.mode() == ModeOff:
		x.Reason = reasonOff
		return false
	}
	if x.Reason = x.barred(now); x.Reason != "" {
		if x.Reason == reasonForbidden {
			x.p.o.Selector.Undecided()
		}
		return false
	}
	x.p.o.Touch()
	return true
}

// barred returns why requests of this kind all pass at the moment; empty if they do not.
func (x *exchange) barred(now time.Time) string {
	switch {
	case x.p.suspended.holds(now):
		return reasonForbidden
	case x.steering() == es.SteerSearch && !x.p.searchBudget.Allows():
		return reasonFailing
	}
	return ""
}

// planAt finds the copies in a snapshot for a request that is to be served: they are in use from now on. If the plan is
// nil the second result is the reason.
func (x *exchange) planAt(s *cluster.Snapshot, now time.Time) (*cluster.Plan, string) {
	plan, why := x.copiesAt(s, now)
	if plan != nil {
		x.p.o.Use(plan)
		x.p.probes.recent.add(plan, now)
	}
	return plan, why
}

// copiesAt finds the copies in a snapshot. If the plan is nil the second result is the reason.
func (x *exchange) copiesAt(s *cluster.Snapshot, now time.Time) (*cluster.Plan, string) {
	switch {
	case s == nil:
		return nil, string(cluster.MissNoPlacement)
	case x.p.tooOld(s, now):
		return nil, reasonStale
	}
	if x.steering() == es.SteerByID {
		return x.locateDocuments(s)
	}
	return x.locateTarget(s)
}

// tooOld reports whether it could not be confirmed for long where copies are.
func (p *Proxy) tooOld(s *cluster.Snapshot, now time.Time) bool {
	return !s.PlacedAt.IsZero() && now.Sub(s.PlacedAt) > p.o.MaxPlacementAge
}

// locateTarget finds the copies of the shards of the target.
func (x *exchange) locateTarget(s *cluster.Snapshot) (*cluster.Plan, string) {
	plan, miss := s.Resolve(x.request.Target, x.request.Routing)
	if miss == cluster.MissUnknownTarget || (plan != nil && !plan.Exact) {
		x.p.o.Learn(x.request.Target, x.request.Routing)
	}
	return plan, string(miss)
}

// locateDocuments finds the copies of the documents that a read by id touches. It asks
// for unknown layouts to be learned.
func (x *exchange) locateDocuments(s *cluster.Snapshot) (*cluster.Plan, string) {
	docs, why := x.documents()
	if why != "" {
		return nil, why
	}
	plan, miss := s.Locate(docs)
	if miss == cluster.MissUnknownTarget {
		for i, doc := range docs {
			if i == 0 || doc.Index != docs[i-1].Index {
				x.p.o.LearnLayout(doc.Index)
			}
		}
	}
	return plan, string(miss)
}

// fits reports whether the engines take the client's own request line, unless they are set to take longer ones.
func (x *exchange) fits() bool { return es.FitsRequestLine(x.Method, x.Path, x.query) }

// documents returns what a read by id reads, or why it is not steered.
func (x *exchange) documents() ([]es.Document, string) {
	r := x.request
	switch {
	case !x.fits(): // nor would it with a list, and what is in it would be looked at for each document
		return nil, reasonTooLong
	case r.Operation == es.TermVectors && !es.KeepsDocument(x.body):
		return nil, string(es.PassUnreadableBody)
	case r.Operation != es.MGet:
		return []es.Document{{Index: r.Target, ID: r.ID, Routing: r.Routing}}, ""
	}
	docs, ok := es.MGetDocuments(x.body, r.Target, r.Routing)
	switch {
	case !ok:
		return nil, string(es.PassUnreadableBody)
	case len(docs) > es.MaxItems:
		return nil, reasonTooMany
	}
	if r.Routing == "" { // else classify recorded the request line
		for _, doc := range docs {
			x.noteByID(doc.Index, doc.Routing)
		}
	}
	return docs, ""
}
