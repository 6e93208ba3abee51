package app_test

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// An upstream that closes connections when it has answered, without a word, costs
// no client an error, whatever may be sent twice.
func TestClosedPooledConnections(t *testing.T) {
	for name, request := range map[string]string{
		"write":          "POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 3\r\n\r\n{}\n",
		"chunked write":  "POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n",
		"write, no body": "POST /idx/_refresh HTTP/1.1\r\nHost: es\r\nContent-Length: 0\r\n\r\n",
		"search":         "POST /idx/_search HTTP/1.1\r\nHost: es\r\nContent-Length: 2\r\n\r\n{}",
		"read":           "GET /idx/_doc/1 HTTP/1.1\r\nHost: es\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := startWire(t, nil)
			closed := make(chan struct{})
			w.upstreamDoes("", nil, func(c net.Conn) {
				_, _ = io.WriteString(c, okAnswer)
				_ = c.Close()
				closed <- struct{}{}
			})
			c := w.dial()
			for range 300 {
				c.send(request)
				got, err := c.read("POST")
				require.NoError(t, err)
				require.Equal(t, okAnswer, got)
				<-closed
				require.Equal(t, parse(t, request), parse(t, <-w.requests))
			}
			require.Empty(t, w.requests, "sent once")
		})
	}
}
