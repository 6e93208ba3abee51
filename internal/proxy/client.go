package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// plainWriter keeps the server from adding headers where the engine sends none.
type plainWriter struct {
	http.ResponseWriter
	began  bool  // the answer has a status
	status int   // of the answer, 0 before it begins
	sent   int64 // bytes of its body
}

// WriteHeader implements http.ResponseWriter. ReverseProxy clears all headers
// after an interim (1xx) answer, so this is the last moment.
func (w *plainWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.began, w.status = true, status
		h := w.Header()
		for _, name := range []string{"Date", "Content-Type"} {
			if _, ok := h[name]; !ok {
				h[name] = nil
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *plainWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the server's writer.
func (w *plainWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// clientBody is a request body that is read while it comes.
type clientBody struct {
	io.ReadCloser
	exchange     *exchange
	begun, ended atomic.Bool
}

// Read implements io.Reader. It notes when the client stops sending.
func (b *clientBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	n, err := b.ReadCloser.Read(p)
	b.exchange.received.Add(int64(n))
	switch {
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded): // that is finish's
		b.exchange.clientGone.Store(true)
	}
	return n, err
}

// finish closes the body, which must be done before the handler returns
// (golang/go#68560), and waits for what the client is still sending. So an answer
// that came early is sent before, and a client that is to be cut off is not waited
// for.
func (b *clientBody) finish(w *plainWriter, complete bool) {
	control := http.NewResponseController(w)
	switch {
	case b.ended.Load():
	case !complete:
		_ = control.SetReadDeadline(time.Now())
	case b.exchange.asking && !b.begun.Load():
		return // nothing will come: it was not asked for
	case w.began:
		_ = control.Flush()
	}
	_ = b.Close()
}
