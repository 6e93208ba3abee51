package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// errStale says that a pooled connection had been closed by the node before
// anything of the request was sent on it.
var errStale = errors.New("the node had closed the connection")

// upload watches a request that must not be sent twice. net/http repeats requests
// itself where it may; a streaming body and a write it may not repeat, so that a
// node that closed an idle connection would cost the client an error.
type upload struct {
	stale    atomic.Bool // nothing was sent: the node had closed the connection
	answered atomic.Bool // the node has begun to answer
	wanted   atomic.Bool // the node has asked for the body that was announced
}

// sendOnce sends out, at most once: on a connection that was open when sending
// began.
func sendOnce(transport http.RoundTripper, out *http.Request) (*http.Response, error) {
	for {
		up := &upload{}
		once := out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{
			GotConn:              up.check,
			GotFirstResponseByte: func() { up.answered.Store(true) },
			Got100Continue:       func() { up.wanted.Store(true) },
		}))
		if out.Body != nil && out.Body != http.NoBody {
			once.Body = uploadBody{
				ReadCloser: out.Body, upload: up,
				asking: out.Header.Get("Expect") != "", done: out.Context().Done(),
			}
		}
		resp, err := transport.RoundTrip(once)
		if err == nil || !up.stale.Load() || out.Context().Err() != nil {
			return resp, err
		}
	}
}

// check closes a connection that the node has closed, before anything is sent on
// it.
func (u *upload) check(got httptrace.GotConnInfo) {
	conn := got.Conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	stale := got.Reused && closedByPeer(conn)
	if stale {
		_ = conn.Close()
	}
	u.stale.Store(stale)
}

// uploadBody is the body of an upload.
type uploadBody struct {
	io.ReadCloser
	upload *upload
	asking bool            // the client waits for 100 Continue
	done   <-chan struct{} // closed when the exchange is over
}

// Read implements io.Reader. It takes nothing from the client for a stale
// connection, nor for a node that has answered without asking for the body: to
// read would tell the client to send it.
func (b uploadBody) Read(p []byte) (int, error) {
	if b.upload.stale.Load() {
		return 0, errStale
	}
	if b.asking && b.upload.answered.Load() && !b.upload.wanted.Load() {
		<-b.done // an error would cost the answer
		return 0, http.ErrBodyReadAfterClose
	}
	return b.ReadCloser.Read(p)
}
