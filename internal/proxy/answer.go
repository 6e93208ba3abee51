package proxy

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/es"
)

// Sizes of the buffers that answers are copied through: most answers fit into a small one.
const (
	smallBuffer = 4 << 10
	copyBuffer  = 32 << 10
)

// smallBuffers and buffers lend them.
var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }} //nolint:gochecknoglobals // a pool is shared by nature
	buffers      = sync.Pool{New: func() any { return new([copyBuffer]byte) }}  //nolint:gochecknoglobals // as above
)

// answer sends the client the answer of an attempt, or sidestep's own if there is none.
func (x *exchange) answer(t *try) {
	resolved := x.resolveBulk(t) // what is rejected of a bulk is sent again before
	x.dismiss(t)
	switch {
	case !resolved:
		x.answerUnresolved()
		return
	case t != nil && t.resp != nil:
	case x.stalled():
		x.answerStalled()
		return
	case x.gone():
		panic(http.ErrAbortHandler) // the client has left
	default:
		x.answerUnreachable()
		return
	}
	if x.sniff != "" {
		x.rewriteAddresses(t)
	}
	if x.bulk.repeats() {
		began := time.Now()
		x.bulk.measured = x.client() != nil && t.measure()
		x.Upstream += time.Since(began)
		x.bulk.left = x.gone() // before the answer is written: the client cannot have read it
	}
	x.tookOf(t)
	if t.resp.StatusCode == http.StatusSwitchingProtocols {
		x.tunnel(t)
		return
	}
	announced := x.writeHead(t)
	err := x.copyBody(t)
	if err == nil {
		err = x.flushBulk()
	}
	if err != nil {
		x.cutOff(t, err)
		panic(http.ErrAbortHandler) // the client must notice that the answer is incomplete
	}
	writeTrailers(x.w.Header(), t.resp.Trailer, announced)
	x.complete = true
}

// tookOf records the answer's took.
func (x *exchange) tookOf(t *try) {
	if t.head.HasTook {
		x.Took = t.head.Took
	}
	x.Outcome = string(outcomeOf(t.resp.StatusCode))
	if t.cause == attempt.Partial {
		x.Outcome = string(outcomePartial)
	}
}

// writeHead writes status and header and returns how many trailers it announced.
func (x *exchange) writeHead(t *try) (announced int) {
	resp, h := t.resp, x.w.Header()
	but := ofConnection(resp.Header)
	for name, values := range resp.Header {
		if name == "Content-Length" || !isHopByHop(name) && !but.has(name) {
			h[name] = values
		}
	}
	for name := range resp.Trailer {
		h.Add("Trailer", name)
	}
	if resp.ContentLength < 0 && x.Method != http.MethodHead {
		h["Transfer-Encoding"] = []string{"chunked"} // or the server would add a Content-Length to a short answer
	}
	// The server adds nothing where the engine sends none.
	for _, name := range [...]string{"Date", "Content-Type", "Content-Length"} {
		if _, ok := h[name]; !ok {
			h[name] = nil
		}
	}
	if x.explain && x.mayExplain(t) {
		h.Set(decisionHeader, x.describe())
	}
	x.headAt = time.Now()
	x.Status = resp.StatusCode
	x.mustRead(x.headAt)
	x.w.WriteHeader(resp.StatusCode)
	return len(resp.Trailer)
}

// mustRead gives the client limits.write_timeout to read what is written from now on. Then it is disconnected.
func (x *exchange) mustRead(now time.Time) {
	if patience := x.p.o.WriteTimeout; patience > 0 {
		_ = http.NewResponseController(x.w).SetWriteDeadline(now.Add(patience))
	}
}

// flush writes what is buffered. The client then waits for the node, which may take any time for the next part.
func (x *exchange) flush() error {
	control := http.NewResponseController(x.w)
	err := control.Flush()
	if x.p.o.WriteTimeout > 0 {
		_ = control.SetWriteDeadline(time.Time{})
	}
	return err
}

// copyBody copies the body as it arrives. What has arrived is written at once, and
// flushed if the rest has not.
func (x *exchange) copyBody(t *try) error {
	if t.resp.Body == http.NoBody || x.Method == http.MethodHead {
		return nil
	}
	if t.readErr == nil && len(t.begin) == 0 && !ready(t.resp.Body) {
		if err := x.flush(); err != nil { // the head
			return errClient
		}
	}
	for {
		t.readWhatIsThere()
		if len(t.begin) > 0 {
			if err := x.writePart(t); err != nil {
				return errClient
			}
		}
		switch {
		case errors.Is(t.readErr, io.EOF):
			x.mustRead(time.Now()) // what ends an answer in chunks is written when the handler returns
			return nil
		case t.readErr != nil:
			_ = x.flush() // the client gets as much as it would have got
			return t.readErr
		}
	}
}

// readWhatIsThere reads what has arrived of the body, up to the size of the buffer.
func (a *answer) readWhatIsThere() {
	for a.readErr == nil && (len(a.begin) == 0 || len(a.begin) < copyBuffer && ready(a.resp.Body)) {
		a.more()
	}
}

// writePart writes what has been read of the body. The client has its time for each buffer: more than one may have been
// held back.
func (x *exchange) writePart(t *try) error {
	if x.bulk != nil && x.Status == http.StatusOK { // else there are no items
		x.bulk.items.scan(t.begin)
	}
	for part := range slices.Chunk(t.begin, copyBuffer) {
		x.mustRead(time.Now())
		n, err := x.w.Write(part)
		x.ResponseBytes += int64(n)
		if err != nil {
			return err
		}
	}
	t.begin = t.begin[:0]
	if errors.Is(t.readErr, io.EOF) {
		return nil
	}
	return x.flush()
}

// errClient says that the client does not read its answer.
var errClient = errors.New("the client does not read its answer")

// ready reports whether a part of the body can be read without waiting.
func ready(body io.ReadCloser) bool {
	b, ok := body.(interface{ Ready() bool })
	return ok && b.Ready()
}

// cutOff records that the answer broke off: on the client's side, or the node's.
func (x *exchange) cutOff(t *try, err error) {
	if errors.Is(err, errClient) || x.gone() {
		x.Outcome = string(outcomeCanceled)
		return
	}
	x.Outcome = string(outcomeCutOff)
	x.CutOff(err)
	if t.steered || x.rule.Repeatable { // see learn
		x.p.blameTransport(t.upstream, err, time.Now())
	}
}

// writeTrailers sends the trailers.
func writeTrailers(h, trailer http.Header, announced int) {
	prefix := ""
	if len(trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for name, values := range trailer {
		for _, value := range values {
			h.Add(prefix+name, value)
		}
	}
}

// answerUnreachable answers a request that no node answered, with an error of the
// engine's shape. It names no node, address or index, as any client may read it.
func (x *exchange) answerUnreachable() {
	x.Outcome = string(outcomeUnreachable)
	last := x.last()
	x.p.complaints.Do(func() {
		x.p.o.Logger.Warn("no upstream answered; logged at most once in ten seconds, counted by sidestep_requests_total",
			"method", x.Method, "operation", x.Operation, "attempts", len(x.Attempts), "err", last.err)
	})
	if last.cause == attempt.Unreachable {
		x.answerOwn(http.StatusServiceUnavailable, "no_upstream_exception", "no node of the cluster can be reached")
		return
	}
	x.answerOwn(http.StatusBadGateway, "upstream_connection_exception", "the connection to the cluster broke before an answer came")
}

// answerStalled answers a client that has stopped sending its body.
func (x *exchange) answerStalled() {
	x.Outcome = string(outcomeClientError)
	x.hangUp()
	x.answerOwn(http.StatusRequestTimeout, "request_timeout_exception", "nothing of the request's body came for limits.body_timeout")
}

// malformed reports whether reading the body ended with err as its chunks are no chunks: the client is still there. net/http
// has no other sign of that than the text.
func (x *exchange) malformed(err error) bool {
	return len(x.r.TransferEncoding) > 0 && strings.Contains(err.Error(), "chunk")
}

// answerMalformed answers a request with a body that cannot be read.
func (x *exchange) answerMalformed() {
	x.Outcome = string(outcomeClientError)
	x.hangUp()
	x.answerOwn(http.StatusBadRequest, "parse_exception", "the request's body is not in chunks as it says")
}

// hangUp has the connection closed after the answer, as not all of the body was read. A client that still sends gets some
// time to read the answer. In HTTP/2 the other streams go on.
func (x *exchange) hangUp() {
	if x.r.ProtoMajor > 1 {
		return
	}
	x.w.Header().Set("Connection", "close")
	w := x.w
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = outer.Unwrap()
	}
	// Once the answer has begun, net/http does so only for a body that is longer than it may be.
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader(".")), 0).Read(make([]byte, 1))
}

// answerOwn answers with an error of sidestep's own.
func (x *exchange) answerOwn(status int, typ, reason string) {
	x.headAt, x.Status = time.Now(), status
	h := x.w.Header()
	h.Set("Content-Type", "application/json; charset=UTF-8")
	if x.explain && x.p.explains() {
		h.Set(decisionHeader, x.describe())
	}
	body := es.ErrorBody(status, typ, "sidestep: "+reason)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.mustRead(x.headAt)
	x.w.WriteHeader(status)
	n, _ := x.w.Write(body)
	x.ResponseBytes = int64(n)
	x.complete = status != http.StatusRequestTimeout
}

// describe returns the decision and the answering node, for a client that asked for them.
func (x *exchange) describe() string {
	text := "mode=" + x.Mode + "; reason=" + x.Reason + "; nodes=" + strings.Join(x.Nodes(), ",") +
		"; attempts=" + strconv.Itoa(len(x.Attempts)) + "; coordinator=" + x.Coordinator()
	if x.Class != "" {
		text += "; class=" + x.Class + "; waited=" + x.Waited.Round(time.Millisecond).String()
	}
	return text
}
