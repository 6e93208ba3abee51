package proxy

import (
	"cmp"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// rewrite prepares what goes upstream: the header fields, which all attempts share, and
// the preference of the first one.
func (x *exchange) rewrite() {
	if x.first != nil && !x.first.rewrite() {
		x.Reason = reasonTooLong
		x.first.release()
		x.first = nil
		x.followRule()
	}
	if x.bulk != nil {
		x.bulk.sending(x.now)
	}
	x.fields = appendFields(x.fields[:0], x.r.Header, x.leavesOut())
}

// rewrite sets the query string and the body that make the engine use the nodes of the
// attempt, and reports whether they fit in a request. Nothing but the preference differs
// from the client's, and where the engine's own selection is to decide nothing does.
func (t *try) rewrite() bool {
	x := t.x
	t.query, t.body = x.query, x.body
	switch {
	case x.items != nil:
		t.body = es.SetPreferences(x.body, x.items.items, x.items.preferences)
		return true
	case !t.lists():
		return true
	}
	t.query = es.SetPreference(t.query, x.view.preferences.of(t.decision.Nodes, x.soft))
	return es.FitsRequestLine(x.Method, x.Path, t.query)
}

// preferences keeps the values of preferences for sets of nodes, of which a cluster has
// few in use at a time. It is safe for concurrent use without locks.
type preferences [64]atomic.Pointer[preference]

type preference struct {
	nodes []*selection.Node
	soft  bool
	value string
}

// of returns the preference that lists nodes.
func (c *preferences) of(nodes []*selection.Node, soft bool) string {
	h := uint64(len(nodes))
	for _, n := range nodes {
		h = h*31 + uint64(len(n.ID)) + uint64(n.ID[0]) + uint64(n.ID[len(n.ID)-1])<<8
	}
	slot := &c[h%uint64(len(c))]
	if p := slot.Load(); p != nil && p.soft == soft && slices.Equal(p.nodes, nodes) {
		return p.value
	}
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	p := &preference{nodes: slices.Clone(nodes), soft: soft, value: es.OnlyNodes(ids)}
	if soft {
		p.value = es.PreferNodes(ids)
	}
	slot.Store(p)
	return p.value
}

// leavesOut returns the names of headers that do not go upstream beside the hop-by-hop
// ones: those that the client's Connection lists, and where the answer is to be read its
// Accept-Encoding (a client that accepts gzip takes it uncompressed, too).
func (x *exchange) leavesOut() []string {
	var out []string
	for _, line := range x.r.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				out = append(out, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
	if x.sniff != "" || x.bulk.repeats() {
		out = append(out, "Accept-Encoding")
	}
	return out
}

// appendFields appends the fields of a header that go to the next hop (RFC 9110, 7.6.1),
// without framing, Host and what is meant for sidestep.
func appendFields(dst []byte, h http.Header, but []string) []byte {
	for name, values := range h {
		if isHopByHop(name) || slices.Contains(but, name) {
			continue
		}
		for _, value := range values {
			dst = append(dst, name...)
			dst = append(dst, ": "...)
			dst = append(dst, value...)
			dst = append(dst, "\r\n"...)
		}
	}
	return dst
}

// isHopByHop reports whether a header belongs to one connection, or frames a message.
func isHopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Content-Length", "Host", "Expect", explainHeader:
		return true
	}
	return false
}

// appendHead appends the head of the request as the attempt sends it: with the client's
// path byte for byte, and with fields, the header.
func (t *try) appendHead(dst, fields []byte) []byte {
	x := t.x
	dst = append(dst, x.Method...)
	dst = append(dst, ' ')
	dst = appendTarget(dst, cmp.Or(x.Path, "/"))
	if t.query != "" || x.r.URL.ForceQuery {
		dst = append(dst, '?')
		dst = appendTarget(dst, t.query)
	}
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, t.upstream.url.Host...)
	dst = append(dst, "\r\n"...)
	dst = append(dst, fields...)
	if len(t.body) > 0 || x.r.Header["Content-Length"] != nil || takesBody(x.Method) {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(t.body)), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// takesBody reports whether a request of the method that has no body must say so.
func takesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// appendTarget appends a part of a request target. What would end it, which HTTP/2 lets
// through, is escaped.
func appendTarget(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f {
			dst = append(dst, '%', hex[c>>4], hex[c&0xf])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}
