package proxy

import (
	"cmp"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// rewrite prepares the outbound request: the header fields, which all attempts share, and
// the preference of the first one.
func (x *exchange) rewrite() {
	switch {
	case x.first == nil || x.first.rewrite():
	case x.first.decision.Unlist() && x.first.rewrite(): // none stands out: it need not be listed
		x.Reason = string(x.first.decision.Reason)
	default:
		x.Reason = reasonTooLong
		x.first.release()
		x.first = nil
	}
	x.followRule()
	if x.bulk != nil {
		x.bulk.sending(x.now)
	}
	x.fields = appendFields(x.fields[:0], x.r.Header, x.leavesOut())
}

// rewrite sets the query string and the body that make the engine use the nodes of the
// attempt, and reports whether they fit into a request. They differ from the client's
// only in the preference. If the engine's own selection is to decide they do not differ.
func (t *try) rewrite() bool {
	x := t.x
	t.query, t.body = x.query, x.body
	switch {
	case x.items != nil:
		t.body = es.SetPreferences(x.body, x.items.items, x.items.preferences)
		return true
	case !t.lists():
		return true
	case !x.fits(): // nor would it with a list, which may be written in many places
		return false
	}
	t.query = es.SetPreference(t.query, preference(t.decision.Nodes, t.soft))
	return es.FitsRequestLine(x.Method, x.Path, t.query)
}

// preference returns the preference that lists nodes; soft: the engine may use others, too.
func preference(nodes []*selection.Node, soft bool) string {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	if soft {
		return es.PreferNodes(ids)
	}
	return es.OnlyNodes(ids)
}

// leavesOut returns the names of headers that are not sent upstream, beside the
// hop-by-hop ones: those that the client's Connection lists and, if the answer is to be
// judged, Accept-Encoding. A client that accepts gzip accepts an uncompressed answer,
// too.
func (x *exchange) leavesOut() headerNames {
	out := ofConnection(x.r.Header)
	if x.sniff != "" || x.bulk.repeats() {
		out = append(out, "Accept-Encoding")
		slices.Sort(out)
	}
	return out
}

// headerNames are the names of headers that are not passed on, sorted: there may be as many as fit into a head.
type headerNames []string

// ofConnection returns what the Connection of a header lists.
func ofConnection(h http.Header) headerNames {
	var out headerNames
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				out = append(out, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
	slices.Sort(out)
	return out
}

// has reports whether a header is one of them.
func (l headerNames) has(name string) bool {
	_, found := slices.BinarySearch(l, name)
	return found
}

// appendFields appends the fields of a header that are for the next hop (RFC 9110,
// 7.6.1), without framing, Host and sidestep's own.
func appendFields(dst []byte, h http.Header, but headerNames) []byte {
	for name, values := range h {
		if !travels(name, values, but) {
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

// travels reports whether a header of a request is for the next hop: that its client takes trailers of an answer is, too.
// Other values of TE concern its connection alone.
func travels(name string, values []string, but headerNames) bool {
	if name == "Te" {
		return strings.Contains(joined(values), "trailers")
	}
	return !isHopByHop(name) && !but.has(name)
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

// appendHead appends the head of the attempt's request, with the client's path byte for
// byte.
func (t *try) appendHead(dst, fields []byte) []byte {
	x := t.x
	dst = appendTarget(dst, x.Method)
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
	switch length := t.length(); {
	case length < 0:
		for name := range x.trailer {
			if !isHopByHop(name) {
				dst = append(append(append(dst, "Trailer: "...), name...), "\r\n"...)
			}
		}
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case length > 0 || x.r.Header["Content-Length"] != nil || takesBody(x.Method):
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, length, 10)
		dst = append(dst, "\r\n"...)
	}
	if x.protocol != "" {
		dst = append(append(append(dst, "Connection: Upgrade\r\nUpgrade: "...), x.protocol...), "\r\n"...)
	}
	if x.asking { // it concerns the body, which streams
		dst = append(dst, "Expect: 100-continue\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// length returns how long the body is that goes upstream; -1 if it goes in chunks: its length is not known, or it has
// trailers.
func (t *try) length() int64 {
	x := t.x
	switch {
	case len(x.trailer) > 0, x.stream != nil && (x.longer || x.bulk != nil && x.bulk.mode == ModeRoute): // it may grow
		return -1
	case x.stream != nil:
		return x.r.ContentLength
	}
	return int64(len(t.body))
}

// takesBody reports whether a request of the method without a body needs Content-Length:
// 0.
func takesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// appendTarget appends a part of a request line. It escapes characters that would end
// the part, which HTTP/2 allows.
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
