package proxy

import (
	"net/http"

	"sidestep/internal/es"
)

// Explain says which clients may ask for decisions. A decision shows which indices exist,
// how many shards they have and which nodes serve them.
type Explain string

// Values of [Explain].
const (
	ExplainOff Explain = "off"
	// ExplainAuthenticated: clients that the engine has allowed to read what they asked
	// for.
	ExplainAuthenticated Explain = "authenticated"
	ExplainOn            Explain = "on"
)

// explains reports whether any client may ask.
func (p *Proxy) explains() bool {
	return p.o.Explain == ExplainOn || p.o.Explain == ExplainAuthenticated && p.o.Open()
}

// mayExplain reports whether the client may see the decision about the answer of t. If
// the cluster has security the client needs credentials, an answer 2xx, and an answer
// over the same shards that sidestep resolved: a user with fewer rights gets an answer
// over fewer shards.
func (x *exchange) mayExplain(t *try) bool {
	if x.p.explains() {
		return true
	}
	status := t.resp.StatusCode
	if x.p.o.Explain != ExplainAuthenticated || !x.authenticated() || status < http.StatusOK || status >= http.StatusMultipleChoices {
		return false
	}
	switch {
	case x.items != nil:
		return false // each item has an answer of its own
	case t.head.HasShards:
		return x.plan != nil && t.head.Total == len(x.plan.Shards)
	}
	if x.steering() == es.SteerNone {
		return true // nothing was looked up
	}
	return x.steering() == es.SteerByID && x.request.ID != "" // it was allowed to read the document
}

// authenticated reports whether the request carries credentials.
func (x *exchange) authenticated() bool {
	return x.r.Header["Authorization"] != nil || x.r.Header["Es-Secondary-Authorization"] != nil
}
