package proxy

import (
	"net/http"
	"slices"
	"strings"

	"sidestep/internal/es"
)

// explainHeader asks for decisionHeader in the answer.
const (
	explainHeader  = "X-Sidestep-Explain"
	decisionHeader = "X-Sidestep-Decision"
)

// asksFirst reports whether a client asks before it sends its body. The server takes a list for that, too, as long as this
// is in it, and tells the client to send once the body is read.
func asksFirst(expect string) bool {
	words := strings.FieldsFunc(expect, func(r rune) bool { return strings.ContainsRune(" ,\t", r) })
	return slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, "100-continue") })
}

// classify finds out what the request is, from its request line and headers, and starts
// its span.
func (x *exchange) classify() {
	r, p := x.r, x.p
	x.Method, x.Path, x.Mode = r.Method, rawPath(r), string(p.Mode())
	x.explain = r.Header[explainHeader] != nil
	// To any other expectation the engines answer 417 at once. They take what follows for the next request, although a body
	// may be sent: its answers would go to others that use the connection. So none other is passed on.
	x.asking = r.ContentLength != 0 && asksFirst(r.Header.Get("Expect"))
	x.classifyAs(es.Classify(r.Method, x.Path, r.URL.RawQuery), p.acceptanceOf(r.Header))
	x.protocol = protocolOf(r)
	if x.trailer = r.Trailer; x.trailer == nil && r.ContentLength < 0 {
		x.trailer = make(http.Header) // receives trailers that were not announced
		r.Trailer = x.trailer
	}
	if p.o.Tracer != nil {
		x.Span = p.o.Tracer.Request(r, &x.Trail)
	}
}

// classifyAs records the operation, and what rules out steering. [Proxy.Explain] uses it,
// too.
func (x *exchange) classifyAs(request es.Request, a acceptance) {
	p := x.p
	x.request = request
	x.Operation, x.Target, x.Routed = request.Operation, request.Target, request.Routing != ""
	if p.affinity.passes(request) {
		x.request.Pass = es.PassClientPreference
	}
	items := x.steering() == es.SteerItems
	if items && x.request.Pass == es.PassNone && !a.lines {
		x.request.Pass = es.PassUnreadableBody
	}
	// Strict weighted routing forbids preferences for each search or document, in an answer of 200.
	if (items || x.Operation == es.MGet) && x.request.Pass == es.PassNone && x.mayForbid() && (request.Unverifiable || a.hidesItems) {
		x.request.Pass = es.PassUnverifiable
	}
	x.Reason = string(x.request.Pass)
	if p.off(request.Operation) {
		x.Reason = reasonOperationOff
	}
	x.admitter = x.findAdmitter()
	x.soft = p.o.PreferNodes || request.Unverifiable || request.Scroll || x.steering() != es.SteerSearch || a.hidesShards
}

// acceptance is what the headers of a request say about the answer.
type acceptance struct {
	// hidesShards: a partial result may not be visible in it. hidesItems: the results of
	// the items of a multi-search, or of the documents of a multi get, may not be visible.
	hidesShards, hidesItems bool
	lines                   bool // the body is lines of JSON that can be read
}

// acceptanceOf reads the headers that determine the form of the answer. If a client accepts several content codings
// the engines use gzip, but for one that prefers deflate, or accepts snappy. That is trusted until an answer has come in
// another one that the client accepts, too.
func (p *Proxy) acceptanceOf(h http.Header) acceptance {
	codings := strings.ToLower(joined(h["Accept-Encoding"]))
	readable := decodable(codings)
	trusts := !readable && strings.Contains(codings, "gzip") && !strings.Contains(codings, "snappy") && !p.comesIn(codings)
	hides := !readable && !trusts || !es.AcceptsJSON(joined(h["Accept"]))
	return acceptance{
		hidesShards: hides || !es.AcceptsJSON(joined(h["Content-Type"])),
		hidesItems:  hides,
		lines:       readsLines(h),
	}
}

// comesIn reports whether answers have come in one of these codings that cannot be read.
func (p *Proxy) comesIn(codings string) (comes bool) {
	codings = strings.ReplaceAll(codings, " ", "")
	all := strings.Contains(codings, "*") && !strings.Contains(codings, "*;q=0,") && !strings.HasSuffix(codings, "*;q=0")
	p.unreadable.Range(func(coding, _ any) bool {
		comes = all || strings.Contains(codings, coding.(string))
		return !comes
	})
	return comes
}

// readsLines reports whether a body is lines of JSON that can be read.
func readsLines(h http.Header) bool {
	return es.ReadsLines(joined(h["Content-Type"])) && len(h["Content-Encoding"]) == 0
}

// joined returns the lines of a header as one.
func joined(lines []string) string {
	if len(lines) == 1 {
		return lines[0]
	}
	return strings.Join(lines, ",")
}

// decodable reports whether the proxy can decode every content coding of a list.
func decodable(codings string) bool {
	for coding := range strings.SplitSeq(codings, ",") {
		name, _, _ := strings.Cut(coding, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "", "gzip", "x-gzip", "deflate", "identity":
		default:
			return false
		}
	}
	return true
}

// off reports whether steering is switched off for an operation.
func (p *Proxy) off(op es.Operation) bool { return slices.Contains(p.o.Off, string(op)) }

// mayForbid reports whether the engine knows strict weighted routing.
func (x *exchange) mayForbid() bool {
	s := x.view.snapshot
	return s != nil && s.Engine.Distribution == "opensearch"
}

// rawPath returns the path as it is on the request line. net/url keeps that only where
// decoding would lose something.
func rawPath(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if strings.HasPrefix(path, "/") {
		return path
	}
	if _, rest, ok := strings.Cut(path, "://"); ok { // absolute form
		if _, path, ok = strings.Cut(rest, "/"); ok {
			return "/" + path
		}
	}
	return r.URL.EscapedPath() // "*", or no path
}

// mode returns the mode that the exchange is served in.
func (x *exchange) mode() Mode { return Mode(x.Mode) }
