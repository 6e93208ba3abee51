package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"sidestep/internal/es"
)

// Sniff says what the answer to a request for the nodes' addresses is. Client libraries
// that sniff send it, and then talk to these addresses directly.
type Sniff struct {
	// Rewrite puts sidestep's address in place of every node's.
	Rewrite bool
	// Address is sidestep's own, host:port as clients reach it. If empty it is the
	// address at which the client's connection arrived.
	Address string
}

// Results of a sniff. The set is closed: it is a metric label.
const (
	sniffPassed    = "passed"
	sniffRewritten = "rewritten"
)

// maxSniffed bounds the list of nodes that is rewritten: about ten thousand nodes.
const maxSniffed = 16 << 20

// sureSniffed is how long a list may be that is rewritten although there is no memory: about two thousand nodes of what
// clients ask for. One that passes has its client go around sidestep for as long as that runs.
const sureSniffed = 1 << 20

// addressFor returns the address to put in place of the nodes' in the answer; empty if it
// is to stay unchanged.
func (p *Proxy) addressFor(x *exchange) string {
	address := p.o.Sniff.address(x.r)
	if address == "" {
		p.metrics.sniffs.WithLabelValues(sniffPassed).Inc()
		p.sniffed.Do(func() {
			p.o.Logger.Info("a client asks for the nodes' addresses and may go around sidestep: clients.sniff: rewrite keeps it", "path", x.Path)
		})
	}
	return address
}

// address returns the address to publish; empty if there is none.
func (s Sniff) address(r *http.Request) string {
	switch {
	case !s.Rewrite:
		return ""
	case s.Address != "":
		return s.Address
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return local.String()
	}
	return ""
}

// rewriteAddresses puts the address in place of the nodes' in an answer. An answer that
// cannot be parsed stays unchanged.
func (x *exchange) rewriteAddresses(t *try) {
	result := sniffPassed
	defer func() { x.p.metrics.sniffs.WithLabelValues(result).Inc() }()
	h := t.resp.Header
	if t.resp.StatusCode != http.StatusOK || h.Get("Content-Encoding") != "" || !es.AcceptsJSON(h.Get("Content-Type")) {
		return
	}
	body := t.readHead(maxSniffed+1, t.beyondRoom(2, sureSniffed)) // it is held as it came and as it goes
	if !errors.Is(t.readErr, io.EOF) || len(body) > maxSniffed {
		return
	}
	if body, ok := es.PublishAddress(body, x.sniff); ok {
		result = sniffRewritten
		t.begin, t.resp.ContentLength = body, int64(len(body))
		h.Set("Content-Length", strconv.Itoa(len(body)))
		h.Del("ETag") // it is of the answer before
	}
}
