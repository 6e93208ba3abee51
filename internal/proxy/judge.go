package proxy

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"sidestep/internal/attempt"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// answer is the result of one attempt.
type answer struct {
	resp      *http.Response
	err       error
	head      es.Head
	cause     attempt.Cause // why it should not be the client's answer; empty if it may be
	full      bool          // shards failed as queues were full
	ofRequest bool          // shards failed for what is asked of them
	blamed    []*selection.Node
	// begin is the part of the body that was read to judge it, and readErr how reading
	// ended: io.EOF if begin is the whole body.
	begin   []byte
	readErr error
	// small or large is under begin; nil if there is none.
	small *[smallBuffer]byte
	large *[copyBuffer]byte
}

// discard closes an answer that is not used.
func (a *answer) discard() {
	if a.resp != nil {
		_ = a.resp.Body.Close()
	}
	if a.small != nil {
		smallBuffers.Put(a.small)
	}
	if a.large != nil {
		buffers.Put(a.large)
	}
	*a = answer{err: a.err, cause: a.cause}
}

// headLimit bounds the start of an answer that is judged, decoded.
const headLimit = 8 << 10

// judgeSearch judges the start of the answer to a steered search.
func (t *try) judgeSearch() {
	resp := t.resp
	switch {
	case resp.StatusCode == http.StatusOK && !t.refuses():
		t.judgeShards()
		if t.head.NoCopies() {
			t.x.p.o.Refresh()
		}
		if t.cause == attempt.Partial {
			head := t.readHead(headLimit, nil)
			t.full, t.ofRequest = es.QueuesFull(head, true), t.head.Missing == 0 && es.ShardsRefuse(head, true)
		}
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		t.judgeFailure()
	case resp.StatusCode == http.StatusBadRequest && es.IsNoNodesError(t.readHead(headLimit, nil)):
		t.cause = attempt.NoCopy
		t.x.p.o.Refresh()
	case resp.StatusCode == http.StatusForbidden && es.IsWeightedRoutingError(t.readHead(headLimit, nil)):
		t.cause = attempt.Forbidden
	case t.refuses():
		t.cause = attempt.Refused
	}
	t.blamed = t.blame()
}

// judgeFailure finds the cause of a 429 or a 5xx.
func (t *try) judgeFailure() {
	switch t.resp.StatusCode {
	case http.StatusTooManyRequests:
		t.cause = attempt.Rejected
	case http.StatusGatewayTimeout: // also of a gateway, which waits as long for any other attempt
		t.cause = attempt.TimedOut
	default:
		t.cause = attempt.EngineError
	}
	head := t.readHead(headLimit, nil)
	t.full, t.ofRequest = es.QueuesFull(head, false), es.ShardsRefuse(head, false)
	switch es.FailureOf(head) {
	case es.FailureBreaker:
		t.cause = attempt.Breaker
	case es.FailureTimeout:
		t.cause = attempt.TimedOut
	case es.FailureRequest:
		t.cause = attempt.Request
	}
}

// refuses reports whether the answer may be due to the preference that was added: it cannot be read, and copies were left
// out, or it is an error of which the text may be. Either the operation takes no preference, or the text quotes the
// request line or a position in it ("no handler found for uri", "missing authentication
// credentials for REST request", "byte offset: #744"), or all copies failed and the text
// is that of the last copy tried. The client is to read what it would have read without
// sidestep. One in a coding that it did not offer is passed on: the next would come in that, too.
func (t *try) refuses() bool {
	if !t.lists() {
		return false
	}
	switch t.resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusMethodNotAllowed:
		return true
	case http.StatusForbidden:
		return !t.readable()
	case http.StatusOK:
		return !t.soft && !t.readable() && !decodable(joined(t.x.r.Header["Accept-Encoding"]))
	}
	return false
}

// readable reports whether the answer is in a coding that can be read.
func (a *answer) readable() bool { return decodable(a.resp.Header.Get("Content-Encoding")) }

// judgeRead finds out whether the answer to a read by id is about the preference that was
// added, or is an error of a node, as of one that stops, which another node may not give. Any other answer counts: the
// engine tries every copy, the preferred ones first.
func (t *try) judgeRead() {
	x, status := t.x, t.resp.StatusCode
	switch {
	case unavailable(status):
		t.cause = attempt.EngineError
	case t.refuses():
		t.cause = attempt.Refused
	case !x.mayForbid():
	case status == http.StatusForbidden && x.Method == http.MethodHead:
		t.cause = attempt.Refused // there is no body that tells by what
	case status == http.StatusForbidden, status == http.StatusOK && x.Operation == es.MGet:
		// A multi get reports it for each document, so for the first one, too.
		switch head := t.readHead(headLimit, nil); {
		case es.IsWeightedRoutingError(head):
			t.cause = attempt.Forbidden
		case len(head) == 0:
			t.cause = attempt.Refused // a coding that cannot be read
		}
	}
}

// unavailable reports whether another node may give another answer than an error of this status: clients ask one.
func unavailable(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// judgeItems finds out whether the answer to a multi-search is about the preferences.
// Under strict weighted routing they are refused for all steered items or for none. So
// the first one is judged, if it begins within what may be held, of this answer and of all.
func (t *try) judgeItems() {
	x, status := t.x, t.resp.StatusCode
	switch {
	case status == http.StatusBadRequest: // see refuses
		t.cause = attempt.Refused
	case status == http.StatusOK && x.mayForbid():
		next, forbidden, beyondRoom := 0, false, t.beyondRoom(1, 0)
		head := t.readHead(int(x.p.o.MaxHeldBody), func(prefix []byte, complete bool) (done bool) {
			full := beyondRoom(prefix, complete)
			if len(prefix) < next && !complete && !full {
				return false
			}
			next = 2 * len(prefix) // so that each byte is read at most twice, on average
			forbidden, done = es.ItemForbidden(prefix, complete, x.items.first)
			return done || full
		})
		switch {
		case forbidden:
			t.cause = attempt.Forbidden
		case len(head) == 0:
			t.cause = attempt.Refused // a coding that cannot be read
		}
	case status == http.StatusTooManyRequests || status > http.StatusInternalServerError:
		// A 500 is for lines that the engine cannot parse. A search that fails is part of
		// a 200.
		x.items.blame(x, t)
	}
}

// beyondRoom returns a function that stops reading an answer once there is no memory to hold so many times what is more
// than is judged of any: it is held until the client has read it. Up to least it is read all the same, and counted.
func (t *try) beyondRoom(times int64, least int) func(prefix []byte, _ bool) (stop bool) {
	x, taken := t.x, int64(0)
	return func(prefix []byte, _ bool) bool {
		more := times*int64(len(prefix)-headLimit) - taken
		if more <= 0 {
			return false
		}
		taken += more
		if len(prefix) <= least || x.bulk.repeats() && x.bulk.again.create { // the latter as what is stored must not be sent again; bodies are refused meanwhile
			x.p.o.Held.Add(more)
			x.held += more
			return false
		}
		return !x.reserve(more)
	}
}

// judgeOwn judges the answer to the request as the client wrote it, which is the client's
// in any case.
func (t *try) judgeOwn() {
	x, status := t.x, t.resp.StatusCode
	switch {
	case x.rule.searches && (status == http.StatusTooManyRequests || status >= http.StatusInternalServerError):
		t.judgeFailure()
	case unavailable(status) && x.steering() == es.SteerByID:
		t.cause = attempt.EngineError
	case status == http.StatusOK && (x.rule.Steered > 1 || x.rule.searches && (x.explain || x.Reason == reasonFailing)):
		t.judgeShards()
	}
}

// judgeShards finds out whether the answer is partial.
func (t *try) judgeShards() {
	t.readHead(headLimit, func(prefix []byte, complete bool) (done bool) {
		t.head, done = es.ScanHead(prefix, complete)
		return done
	})
	if t.head.Lost() > 0 && (t.head.HasShards || !t.brokeOff()) { // a list of failures may be longer than what is judged
		t.cause = attempt.Partial
	}
}

// blame returns the nodes at fault for a bad answer: those that it names. If an error names
// none, it is the answering node. Of a partial result none is known to be then, as where
// shards had no copy to ask, nor if what is judged of an error ends before the
// shards that failed.
func (t *try) blame() []*selection.Node {
	var named func(n *selection.Node) bool
	switch t.cause {
	case attempt.Partial:
		named = func(n *selection.Node) bool { return slices.Contains(t.head.FailedNodes, n.ID) }
	case attempt.Rejected, attempt.EngineError, attempt.Breaker, attempt.TimedOut:
		body := t.readHead(headLimit, nil)
		if es.ShardsUnread(body) {
			return nil
		}
		named = func(n *selection.Node) bool { return bytes.Contains(body, []byte(n.ID)) }
	default:
		return nil
	}
	var blamed []*selection.Node
	for _, n := range t.decision.Nodes {
		if named(n) {
			blamed = append(blamed, n)
		}
	}
	if len(blamed) > 0 || t.cause == attempt.Partial {
		return blamed
	}
	return []*selection.Node{t.upstream.node}
}

// readHead reads the decoded start of the body, up to limit bytes or until enough returns
// true. A body that cannot be decoded has no start.
func (a *answer) readHead(limit int, enough func(prefix []byte, complete bool) bool) []byte {
	switch strings.ToLower(a.resp.Header.Get("Content-Encoding")) {
	case "", "identity":
		return a.readPlain(limit, enough)
	case "gzip", "x-gzip":
		z := gzipReaders.Get().(*gzip.Reader)
		defer gzipReaders.Put(z)
		if z.Reset(&rewound{a: a, most: limit + copyBuffer}) == nil {
			return decoded(z, limit, enough)
		}
	case "deflate":
		if z, err := zlib.NewReader(&rewound{a: a, most: limit + copyBuffer}); err == nil {
			return decoded(z, limit, enough)
		}
	}
	return nil
}

func (a *answer) readPlain(limit int, enough func([]byte, bool) bool) []byte {
	for a.readErr == nil && len(a.begin) < limit {
		a.more()
		if enough != nil && enough(a.begin, a.readErr != nil) {
			return a.begin
		}
	}
	if enough != nil {
		enough(a.begin, a.readErr != nil)
	}
	return a.begin
}

// more reads once from the body.
func (a *answer) more() {
	if len(a.begin) == cap(a.begin) {
		a.enlarge()
	}
	var n int
	n, a.readErr = a.resp.Body.Read(a.begin[len(a.begin):cap(a.begin)])
	a.begin = a.begin[:len(a.begin)+n]
}

// enlarge makes room for more of the body.
func (a *answer) enlarge() {
	switch {
	case cap(a.begin) == 0 && a.resp.ContentLength <= smallBuffer: // or the length is unknown
		a.small = smallBuffers.Get().(*[smallBuffer]byte)
		a.begin = a.small[:0]
	case a.large == nil:
		a.large = buffers.Get().(*[copyBuffer]byte)
		a.begin = append(a.large[:0], a.begin...)
		if a.small != nil {
			smallBuffers.Put(a.small)
			a.small = nil
		}
	default:
		a.begin = slices.Grow(a.begin, len(a.begin))
	}
}

// rewound reads the body of an answer and keeps what was read. It ends after about most bytes: what
// is decoded may stay short, however long what is read becomes.
type rewound struct {
	a    *answer
	at   int
	most int
}

// Read implements io.Reader.
func (r *rewound) Read(p []byte) (int, error) {
	for r.at == len(r.a.begin) {
		if r.at >= r.most {
			return 0, io.ErrUnexpectedEOF
		}
		if r.a.readErr != nil {
			return 0, r.a.readErr
		}
		r.a.more()
	}
	n := copy(p, r.a.begin[r.at:])
	r.at += n
	return n, nil
}

// gzipReaders saves an allocation of 40 kB for each compressed answer. The engines use deflate only for clients that
// prefer it.
var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }} //nolint:gochecknoglobals // a pool is shared by nature

// decoded reads what z decodes, as readHead does.
func decoded(z io.Reader, limit int, enough func([]byte, bool) bool) []byte {
	prefix := make([]byte, 0, 1024)
	for len(prefix) < limit {
		if len(prefix) == cap(prefix) {
			prefix = slices.Grow(prefix, len(prefix))
		}
		n, err := z.Read(prefix[len(prefix):cap(prefix)])
		prefix = prefix[:len(prefix)+n]
		if (enough != nil && enough(prefix, err != nil)) || err != nil {
			break
		}
	}
	return prefix
}
