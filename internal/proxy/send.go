package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/leg"
)

// send sends the attempt to its node, waits for the head of the answer, and judges it.
func (x *exchange) send(t *try) {
	send := x.sendHeld
	if x.streams {
		send = x.sendStream
	}
	t.resp, t.err = send(t)                                      //nolint:bodyclose // release closes it
	if t.err == nil && t.resp.StatusCode < http.StatusContinue { // net/http passes none on
		t.err = fmt.Errorf("a status of %d, which there is not", t.resp.StatusCode)
		t.discard()
	}
	if t.err != nil {
		t.cause = causeOf(t.err)
		t.err = fmt.Errorf("send to %s: %w", t.upstream.node.Name, t.err)
		return
	}
	if t.steered {
		x.rule.judge(t)
	} else {
		t.judgeOwn()
	}
	if t.cause == attempt.Good && t.brokeOff() && x.rule.Repeatable && x.rule.Answers {
		t.err = fmt.Errorf("answer of %s: %w", t.upstream.node.Name, t.readErr)
		t.cause = attempt.Transport
		t.discard()
	}
}

// causeOf returns the cause of what an attempt without an answer ended with.
func causeOf(err error) attempt.Cause {
	if leg.NotSent(err) {
		return attempt.Unreachable
	}
	return attempt.Transport
}

// brokeOff reports whether the answer broke off before anything of it was passed on.
func (a *answer) brokeOff() bool { return a.readErr != nil && !errors.Is(a.readErr, io.EOF) }

// sendHeld sends a request whose body is held, or that has none.
func (x *exchange) sendHeld(t *try) (*http.Response, error) {
	fields := x.fields
	if x.Span != nil { // the headers name the attempt's span
		fields = appendFields(nil, t.header, x.leavesOut())
	}
	t.outHead = t.appendHead(t.outHead[:0], fields)
	m := &t.message
	m.Method, m.Head, m.Body, m.Repeatable = x.Method, t.outHead, t.body, x.rule.Repeatable && x.bulk == nil
	if len(x.trailer) > 0 {
		m.Body = inChunks(t.body, x.trailer)
	}
	if t.number == 0 {
		m.Interim = x.passInterim
	}
	if aborted := x.watch(); aborted || x.r.Context().Err() != nil && !x.changes() {
		m.Abort.Now() // it may not be watched yet
	}
	return t.upstream.leg.Do(m)
}

// inChunks returns a body as one chunk, and trailers behind it.
func inChunks(body []byte, trailer http.Header) []byte {
	var out []byte
	if len(body) > 0 {
		out = fmt.Appendf(out, "%x\r\n%s\r\n", len(body), body)
	}
	out = append(out, "0\r\n"...)
	return append(appendFields(out, trailer, nil), "\r\n"...)
}

// interim passes an interim (1xx) answer to the client.
func (x *exchange) interim(status int, header http.Header) {
	h := x.w.Header()
	for name, values := range header {
		h[name] = values
	}
	x.w.WriteHeader(status)
	clear(h)
}

// errStale says that the node had closed a pooled connection before anything of the
// request was sent on it.
var errStale = errors.New("the node had closed the connection")

// upload is a streamed request body. net/http does not repeat a request with such a body,
// so an idle connection that the node has closed would cost the client an error.
// Therefore the connection is checked before anything is read from the client. Neither is
// anything read if the node answers without asking for the body, as reading would tell
// the client to send it.
type upload struct {
	*clientBody
	asking  bool                     // the client waits for 100 Continue
	ended   <-chan struct{}          // closed when the exchange has ended
	conn    atomic.Pointer[net.Conn] // to the node
	stale   atomic.Bool
	heard   atomic.Bool   // the node has begun to answer
	interim chan struct{} // closed when that was an interim answer: the body may be sent
	once    sync.Once
	// mu separates interim answers that are passed on from the server's own 100, which
	// reading the body sends. It guards done and the beginning of reading.
	mu   sync.Mutex
	done bool // the answer has arrived, or none will
}

// check closes a connection that the node has closed, before anything is sent on it.
func (u *upload) check(got httptrace.GotConnInfo) {
	u.conn.Store(&got.Conn)
	stale := got.Reused && leg.Stale(got.Conn)
	if stale {
		_ = got.Conn.Close()
	}
	u.stale.Store(stale)
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	if u.stale.Load() {
		return 0, errStale
	}
	if u.asking && u.heard.Load() && !u.wanted() {
		return 0, http.ErrBodyReadAfterClose
	}
	u.mu.Lock()
	u.begun.Store(true)
	u.mu.Unlock()
	return u.clientBody.Read(p)
}

// wanted waits until the node that has begun to answer asks for the body. It reports false once the exchange or
// the connection has ended: to return earlier would lose the answer. The transport closes the connection
// when the node breaks off, and then waits for the reading of the body to end.
func (u *upload) wanted() bool {
	look := time.NewTicker(closedInterval)
	defer look.Stop()
	for {
		select {
		case <-u.interim:
			return true
		case <-u.ended:
			return false
		case <-look.C:
			if conn := u.conn.Load(); conn != nil && leg.Closed(*conn) {
				return false
			}
		}
	}
}

// closedInterval is how often a connection is looked at on which the body may not be sent yet.
const closedInterval = 50 * time.Millisecond

// sendStream sends a request whose body streams.
func (x *exchange) sendStream(t *try) (*http.Response, error) {
	up := &upload{clientBody: x.stream, asking: x.asking, ended: x.r.Context().Done(), interim: make(chan struct{})}
	ctx := httptrace.WithClientTrace(x.lasting(), &httptrace.ClientTrace{
		GotConn:              up.check,
		GotFirstResponseByte: func() { up.heard.Store(true) },
		Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			up.once.Do(func() { close(up.interim) })
			up.mu.Lock() // this runs on a goroutine of the transport
			defer up.mu.Unlock()
			if !up.done && (!up.asking || !up.begun.Load()) && status != http.StatusContinue && t.number == 0 {
				x.interim(status, http.Header(header))
			}
			return nil
		},
	})
	defer func() {
		up.mu.Lock()
		defer up.mu.Unlock()
		up.done = true
	}()
	for {
		out := x.outbound(t).WithContext(ctx)
		out.Body = up
		up.stale.Store(false)
		resp, err := t.upstream.transport.RoundTrip(out)
		if err == nil {
			t.upstream.answered(headLength(out.Header), resp.StatusCode)
		}
		if err == nil || !up.stale.Load() || ctx.Err() != nil {
			return resp, err
		}
	}
}

// outbound returns the request for the transport, with the client's path byte for byte.
func (x *exchange) outbound(t *try) *http.Request {
	out := x.r.WithContext(x.r.Context()) // a copy
	target := *x.r.URL
	target.Scheme, target.Host, target.RawQuery = t.upstream.url.Scheme, t.upstream.url.Host, string(appendTarget(nil, t.query))
	if strings.HasPrefix(x.Path, "//") { // net/url would take this for the start of a host
		target.RawPath = string(escapeOdd(x.Path))
		target.Path, _ = url.PathUnescape(target.RawPath) // no error: the server has accepted it
	} else {
		target.Opaque = string(appendTarget(nil, x.Path))
	}
	h := x.r.Header
	if x.Span != nil {
		h = t.header
	}
	out.URL, out.Host, out.RequestURI = &target, "", ""
	out.Header, out.Trailer = upstreamHeader(h, x.leavesOut()), x.trailer
	out.Close = t.upstream.mayMiss(headLength(out.Header))
	if x.asking { // it concerns the body, which streams
		out.Header["Expect"] = h["Expect"]
	}
	if x.longer || x.bulk != nil && x.bulk.mode == ModeRoute { // the body may grow
		out.ContentLength, out.TransferEncoding = -1, nil
	}
	return out
}

// headLength returns about how many bytes of a head these headers take.
func headLength(h http.Header) int {
	length := 0
	for name, values := range h {
		for _, value := range values {
			length += len(name) + len(value)
		}
	}
	return length
}

// mayMiss reports whether the node may read nothing more of a connection on which a head of this length was sent: it is
// longer than the engines take by default, and than what this node is known to take.
func (u *upstream) mayMiss(head int) bool { return head > leg.LongHead && int64(head) > u.takes.Load() }

// answered notes whether the node takes a head of this length: an answer with this status came to it. One that it may not
// have read takes back what was known, as the node may have been set otherwise since.
func (u *upstream) answered(head, status int) {
	switch {
	case leg.Unread(head, status):
		u.takes.Store(0)
	case status < http.StatusBadRequest && u.mayMiss(head):
		u.takes.Store(int64(head))
	}
}

// upstreamHeader returns the header for the transport, without what the transport adds by
// default.
func upstreamHeader(h http.Header, but headerNames) http.Header {
	out := make(http.Header, len(h)+1)
	for name, values := range h {
		if travels(name, values, but) {
			out[name] = values
		}
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""}
	}
	return out
}

// escapeOdd escapes bytes that are not allowed in a path, and nothing else.
func escapeOdd(path string) []byte {
	var out []byte
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}#", c) >= 0 {
			out = fmt.Appendf(out, "%%%02X", c)
		} else {
			out = append(out, c)
		}
	}
	return out
}

// legOptions returns the options of connections to u, as the template of transports has
// them.
func legOptions(u *url.URL, of Options) leg.Options {
	template := of.Transport
	o := leg.Options{
		Address: address(u), Roots: of.Roots, Dial: template.DialContext, HandshakeTimeout: template.TLSHandshakeTimeout,
		MaxIdle: template.MaxIdleConnsPerHost, IdleTimeout: template.IdleConnTimeout,
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = http.DefaultMaxIdleConnsPerHost
	}
	if template.DisableKeepAlives {
		o.MaxIdle = -1
	}
	if u.Scheme == "https" {
		if o.TLS = template.TLSClientConfig; o.TLS == nil {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	return o
}

// address returns host and port of u.
func address(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

// newTransport returns the transport for requests that the leg with these options does not
// carry. It uses the leg's dialer, whose errors tell what was sent.
func newTransport(o leg.Options, template *http.Transport) *http.Transport {
	t := template.Clone()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return leg.Dial(ctx, o) }
	t.DialContext, t.DialTLSContext = dial, dial
	return t
}
