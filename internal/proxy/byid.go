package proxy

import (
	"net/http"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// locate finds the copies of the documents that a read by id touches. What it does
// not know yet it asks to be learned. A plan is nil for the reason given.
func (x *exchange) locate(p *Proxy, s *cluster.Snapshot) (*cluster.Plan, string) {
	docs, why := x.documents()
	if why != "" {
		return nil, why
	}
	plan, miss := s.Locate(docs)
	if miss == cluster.MissUnknownTarget {
		for i, doc := range docs {
			if i == 0 || doc.Index != docs[i-1].Index {
				p.o.LearnLayout(doc.Index)
			}
		}
	}
	return plan, string(miss)
}

// documents returns what a read by id reads, or why that is left alone.
func (x *exchange) documents() ([]es.Document, string) {
	r := x.request
	switch {
	case r.Operation == es.TermVectors && !es.KeepsDocument(x.body):
		return nil, string(es.PassUnreadableBody)
	case r.Operation != es.MGet:
		return []es.Document{{Index: r.Target, ID: r.ID, Routing: r.Routing}}, ""
	case r.Unverifiable && x.mayForbid():
		return nil, string(es.PassUnverifiable) // see judgeRead
	}
	docs, ok := es.MGetDocuments(x.body, r.Target, r.Routing)
	if !ok {
		return nil, string(es.PassUnreadableBody)
	}
	return docs, ""
}

// judgeRead looks whether the answer to a read by id is about the preference that
// was added for d. Any other is the engine's verdict: it tries every copy there is,
// the preferred ones first.
func (p *Proxy) judgeRead(x *exchange, resp *http.Response, d *selection.Decision) answer {
	a := answer{resp: resp}
	switch {
	case refuses(resp, d):
		a.cause = causeRefused
	case !x.mayForbid():
	case resp.StatusCode == http.StatusForbidden && x.method == http.MethodHead:
		a.cause = causeRefused // by what, there is no body to tell
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusOK && x.request.Operation == es.MGet:
		// A multi get says it of each document, so of the first one, too.
		switch head := readHead(resp, nil); {
		case es.IsWeightedRoutingError(head):
			a.cause = causeForbidden
		case len(head) == 0:
			a.cause = causeRefused // a coding that cannot be read
		}
	}
	return a
}
