package proxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"

	"sidestep/internal/es"
)

// Sniff says what clients learn that ask the cluster for its nodes' addresses, as
// client libraries do that sniff: they then talk to these directly.
type Sniff struct {
	// Rewrite names sidestep's address in place of every node's.
	Rewrite bool
	// Address is sidestep's, host:port as clients reach it; if empty, the one at
	// which the client's own connection arrived.
	Address string
}

// Results of a sniff. The set is closed: it is a metric label.
const (
	sniffPassed    = "passed"
	sniffRewritten = "rewritten"
)

// maxSniffed is how long the list of nodes may be to be rewritten: that of some
// ten thousand nodes.
const maxSniffed = 16 << 20

// sniff passes a client's question for the nodes' addresses and puts sidestep's
// into the answer, if it is to.
func (p *Proxy) sniff(x *exchange, r *http.Request) (*http.Response, error) {
	result := sniffPassed
	defer func() { p.metrics.sniffs.WithLabelValues(result).Inc() }()
	address := p.o.Sniff.address(r)
	if address == "" {
		p.sniffed.Do(func() {
			p.o.Logger.Info("a client asks for the nodes' addresses and may go around sidestep: clients.sniff: rewrite keeps it", "path", x.path)
		})
		return p.pass(x, r)
	}
	plain := r.Clone(r.Context())
	plain.Header.Del("Accept-Encoding") // the answer is to be read; who accepts gzip takes it uncompressed, too
	resp, err := p.pass(x, plain)
	if err == nil && publishAddress(resp, address) {
		result = sniffRewritten
	}
	return resp, err
}

// address returns the address to publish; empty if none is to be.
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

// publishAddress puts address in place of the nodes' in an answer, and reports
// whether it did. What cannot be read stays as it came.
func publishAddress(resp *http.Response, address string) bool {
	h := resp.Header
	if resp.StatusCode != http.StatusOK || h.Get("Content-Encoding") != "" || !es.AcceptsJSON(h.Get("Content-Type")) {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSniffed+1))
	if err != nil || len(body) > maxSniffed {
		resp.Body = readCloser{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
		return false
	}
	body, ok := es.PublishAddress(body, address)
	resp.Body = readCloser{bytes.NewReader(body), resp.Body}
	if ok {
		resp.ContentLength = int64(len(body))
		h.Set("Content-Length", strconv.Itoa(len(body)))
		h.Del("ETag") // of the answer as it was
	}
	return ok
}
