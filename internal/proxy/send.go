package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"sidestep/internal/attempt"
	"sidestep/internal/leg"
)

// send sends the attempt to its node, waits for the head of the answer, and judges it.
func (x *exchange) send(t *try) {
	t.resp, t.err = x.carry(t)                                   //nolint:bodyclose // release closes it
	if t.err == nil && t.resp.StatusCode < http.StatusContinue { // net/http passes none on
		t.err = fmt.Errorf("a status of %d, which there is not", t.resp.StatusCode)
		t.discard()
	}
	if t.err != nil {
		t.cause = attempt.Transport
		if leg.NotSent(t.err) {
			t.cause = attempt.Unreachable
		}
		t.err = fmt.Errorf("send to %s: %w", t.upstream.node.Name, t.err)
		return
	}
	if t.steered {
		x.rule.judge(t)
	} else {
		t.judgeOwn()
	}
	if t.cause == attempt.Good && t.brokeOff() && x.rule.Repeatable && x.rule.Steered > 1 {
		t.err = fmt.Errorf("answer of %s: %w", t.upstream.node.Name, t.readErr)
		t.cause = attempt.Transport
		t.discard()
	}
}

// brokeOff reports whether the answer broke off before anything of it was passed on.
func (a *answer) brokeOff() bool { return a.readErr != nil && !errors.Is(a.readErr, io.EOF) }

// carry sends the attempt over a connection to its node, and returns the head of the answer.
func (x *exchange) carry(t *try) (*http.Response, error) {
	fields := x.fields
	if x.Span != nil { // the headers name the attempt's span
		fields = appendFields(nil, t.header, x.leavesOut())
	}
	t.outHead = t.appendHead(t.outHead[:0], fields)
	m := &t.message
	m.Method, m.Head, m.Repeatable, m.Upgrade = x.Method, t.outHead, x.rule.Repeatable && x.bulk == nil, x.protocol != ""
	switch trailer := x.trailer; {
	case x.stream != nil:
		m.Stream = &leg.Stream{
			Reader: x.stream, Length: t.length(), Asked: x.asking,
			Trailer: func() []byte { return appendFields(nil, trailer, nil) },
		}
	case len(trailer) > 0:
		m.Body = inChunks(t.body, trailer)
	default:
		m.Body = t.body
	}
	if t.number == 0 {
		m.Interim = x.passInterim
	}
	if aborted := x.watch(); aborted || x.r.Context().Err() != nil && !x.changes() { // or it is about to be
		m.Abort.Now()
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

// interim passes an interim (1xx) answer to the client, but not beside the server's own 100, which reading a body sends.
func (x *exchange) interim(status int, header http.Header) {
	if s := x.stream; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if x.asking && s.begun.Load() {
			return
		}
	}
	h := x.w.Header()
	for name, values := range header {
		h[name] = values
	}
	x.w.WriteHeader(status)
	clear(h)
}

// legTo returns the options of connections to u.
func legTo(u *url.URL, o leg.Options) leg.Options {
	port := "443"
	if o.Address = u.Host; u.Scheme != "https" {
		o.TLS, port = nil, "80"
	}
	if u.Port() == "" {
		o.Address += ":" + port
	}
	return o
}
