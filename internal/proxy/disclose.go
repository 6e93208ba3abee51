package proxy

import (
	"net/http"

	"sidestep/internal/es"
)

// Explain says who is told in an answer what was decided about the request: what
// decisions show is which indices exist, how many shards they have and which nodes serve
// them.
type Explain string

// Values of [Explain].
const (
	ExplainOff Explain = "off"
	// ExplainAuthenticated: a client that the engine has let see what it asked for.
	ExplainAuthenticated Explain = "authenticated"
	ExplainOn            Explain = "on"
)

// explains reports whether anybody may be told.
func (p *Proxy) explains() bool {
	return p.o.Explain == ExplainOn || p.o.Explain == ExplainAuthenticated && p.o.Open()
}

// mayExplain reports whether the client that gets the answer of t may be told what was
// decided. Where the cluster has security it may if it carries credentials, the engine
// answered with a 2xx, and what was searched is what sidestep resolved: a user that may
// see less gets an answer over fewer shards.
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
