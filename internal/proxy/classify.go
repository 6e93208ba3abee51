package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// explainHeader asks for decisionHeader in the answer.
const (
	explainHeader  = "X-Sidestep-Explain"
	decisionHeader = "X-Sidestep-Decision"
)

// exchange is one client request on its way. The handler's goroutine alone writes
// it; those of attempts read what is fixed before they start, and clientGone.
type exchange struct {
	request es.Request
	method  string
	path    string // as on the request line
	mode    Mode
	explain bool

	// body is the held request body; streams says that it was too large to hold
	// (or that the request is not steered) and goes through unread.
	body    []byte
	streams bool
	// trailer takes what the client sends after a body without length, once that
	// has been read.
	trailer http.Header
	// asking says that the client waits to be told to send its body.
	asking bool
	// consumed says that a streaming body has been read by an attempt.
	consumed bool

	view     *view
	plan     *cluster.Plan
	decision *selection.Decision // the first one, nil if none was made
	// soft says that the preference must leave the engine its own fallback
	// (_prefer_nodes), because a partial answer could not be seen or mended.
	soft     bool
	reason   string // from the closed sets of es, cluster, selection and this package
	outcome  outcome
	attempts int
	tried    []*upstream // coordinating nodes that steered attempts went through
	// clientGone is set when reading the client's body fails: what goes wrong
	// after that is nobody else's fault.
	clientGone atomic.Bool
	// suspects are the nodes that attempts so far are blamed on, failure the cause.
	suspects []*selection.Node
	failure  string
	nodes    []string // names of the nodes listed by the attempt that was answered
	// coordinator is the name of the node that the answer came through.
	coordinator string
	trail       trail
	took        time.Duration // what the engine says the answer took, -1 if it says nothing
	received    atomic.Int64  // bytes of a streaming body
	span        RequestSpan   // nil if the request is not traced

	began    time.Time
	upstream time.Duration // spent waiting for upstreams
	headAt   time.Time     // when the answer's head was ready for the client
	reading  time.Duration // spent reading the request body
}

// classify says what the request is, by its request line and headers.
func (p *Proxy) classify(r *http.Request) *exchange {
	x := &exchange{
		began:   time.Now(),
		took:    -1,
		method:  r.Method,
		path:    rawPath(r),
		mode:    p.Mode(),
		explain: r.Header.Get(explainHeader) != "",
		view:    p.view.Load(),
	}
	x.request = es.Classify(r.Method, x.path, r.URL.RawQuery)
	if p.affinity.passes(x.request) {
		x.request.Pass = es.PassClientPreference
	}
	if x.steering() == es.SteerItems && x.request.Pass == es.PassNone && !readsLines(r.Header) {
		x.request.Pass = es.PassUnreadableBody
	}
	x.reason = string(x.request.Pass)
	if p.off(x.request.Operation) {
		x.reason = reasonOperationOff
	}
	x.soft = p.o.PreferNodes || x.request.Unverifiable || x.request.Scroll || x.steering() != es.SteerSearch ||
		!es.AcceptsJSON(r.Header.Get("Accept")) || !decodable(r.Header.Get("Accept-Encoding")) ||
		!es.AcceptsJSON(r.Header.Get("Content-Type"))
	return x
}

// off reports whether an operation that could be steered is not to be.
func (p *Proxy) off(op es.Operation) bool { return slices.Contains(p.o.Off, string(op)) }

// steering is how the request is steered, if it is.
func (x *exchange) steering() es.Steering { return x.request.Operation.Steering() }

// readsLines reports whether the body of a multi-search can be read.
func readsLines(h http.Header) bool {
	return es.ReadsLines(h.Get("Content-Type")) && h.Get("Content-Encoding") == ""
}

// rawPath returns the path as it stood on the request line: net/url keeps it
// only where decoding loses something.
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

// decodable reports whether every content coding the client accepts is one whose
// beginning the proxy can read.
func decodable(acceptEncoding string) bool {
	for coding := range strings.SplitSeq(acceptEncoding, ",") {
		name, _, _ := strings.Cut(coding, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "", "gzip", "x-gzip", "identity":
		default:
			return false
		}
	}
	return true
}

// holdBody reads the body of a request that may be steered, up to limit bytes, so
// that it can be sent again; what is larger streams. A search without a target may
// carry a point in time, which allows no preference: only its body tells.
func (x *exchange) holdBody(r *http.Request, limit int64) error {
	x.asking = r.ContentLength != 0 && r.Header.Get("Expect") != ""
	if x.steering() == es.SteerNone || r.Body == nil || r.Body == http.NoBody {
		x.streams = r.ContentLength != 0
		return nil
	}
	if x.asking || x.request.Operation == es.Get { // the engine is to answer that
		x.stream()
		return nil
	}
	start := time.Now()
	var buf bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= limit {
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err := io.CopyN(&buf, r.Body, limit+1)
	x.reading = time.Since(start)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if int64(buf.Len()) > limit {
		x.stream()
		r.Body = readCloser{io.MultiReader(&buf, r.Body), r.Body}
	} else {
		x.body = buf.Bytes()
		x.lookForPIT()
	}
	return nil
}

// stream lets a body that could be held go through as it comes.
func (x *exchange) stream() {
	x.streams, x.soft = true, true
	if x.reason == "" && x.request.Operation != es.Search {
		x.reason = reasonTooLarge // what is refused could not be sent again
	}
	x.lookForPIT()
}

// lookForPIT rules out steering of an index-less search that has, or may have, a
// point in time.
func (x *exchange) lookForPIT() {
	if x.reason != "" || x.request.Target != "" || !x.request.Operation.TakesPIT() {
		return
	}
	pit, readable := es.HasTopLevelPIT(x.body)
	switch {
	case x.streams || !readable:
		x.reason = string(es.PassUnreadableBody)
	case pit:
		x.reason = string(es.PassPIT)
	}
}

// readCloser reads from one and closes the other.
type readCloser struct {
	io.Reader
	io.Closer
}
