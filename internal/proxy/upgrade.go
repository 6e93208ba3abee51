package proxy

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// protocolOf returns the protocol that the client asks for on its connection; empty if it asks for none. The
// engines know none, but a proxy in front of them may. Offers of HTTP/2 without TLS, and of TLS
// (RFC 2817), which some clients make with each request, may be ignored, and are.
func protocolOf(r *http.Request) string {
	asked := joined(r.Header["Upgrade"])
	lower := strings.ToLower(asked)
	if r.ContentLength != 0 || strings.Contains(lower, "h2c") || strings.Contains(lower, "tls/") ||
		!strings.Contains(strings.ToLower(joined(r.Header["Connection"])), "upgrade") {
		return ""
	}
	return asked
}

// tunnel tells the client that the node has switched protocols, and passes on the bytes of both directions until both have
// ended, or one has broken off.
func (x *exchange) tunnel(t *try) {
	client, begun, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.cutOff(t, errClient)
		return
	}
	defer func() { _ = client.Close() }()
	x.headAt, x.Status, x.complete = time.Now(), t.resp.StatusCode, true
	head, node := *t.resp, t.resp.Body.(io.ReadWriter)
	head.Body = nil
	if head.Write(begun) != nil || begun.Flush() != nil {
		return
	}
	// What came with the request is read from its buffer.
	sent := io.MultiReader(io.LimitReader(begun, int64(begun.Reader.Buffered())), client)
	ended := make(chan bool, 2)
	go pass(node, sent, ended)
	go pass(client, node, ended)
	if <-ended {
		<-ended
	}
}

// pass copies one direction, by nothing else than Read and Write: these know the deadlines of a connection. It tells whether
// that came to its end.
func pass(to io.Writer, from io.Reader, ended chan<- bool) {
	_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	}
	ended <- err == nil
}
