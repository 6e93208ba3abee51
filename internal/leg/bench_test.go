package leg

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkDo sends a small search to a server on loopback that answers 1 KB.
func BenchmarkDo(b *testing.B) {
	const head = "POST /logs/_search HTTP/1.1\r\nHost: node\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n"
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test
	require.NoError(b, err)
	defer l.Close()
	go answerAll(l)
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	pool := New(Options{Address: l.Addr().String(), Dial: dial, MaxIdle: 4})
	defer pool.Close()
	message := &Message{Method: http.MethodPost, Head: []byte(head), Body: []byte("{}"), Repeatable: true}
	url := "http://" + l.Addr().String() + "/logs/_search"
	buffer := make([]byte, 32<<10)
	for _, c := range []struct {
		name string
		do   func() (*http.Response, error)
	}{
		{"leg", func() (*http.Response, error) { return pool.Do(message) }},
		{"leg, stream", func() (*http.Response, error) {
			return pool.Do(&Message{Method: http.MethodPost, Head: []byte(head), Stream: &Stream{Reader: strings.NewReader("{}"), Length: 2}})
		}},
		{"transport", func() (*http.Response, error) {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader("{}"))
			if err != nil {
				return nil, err
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": nil}
			r.Host = "node"
			return transport.RoundTrip(r)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := c.do()
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buffer); n != 1024 || err != nil {
					b.Fatal(n, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}

// answerAll answers each request, which has a body of two bytes, with 1 KB. It
// allocates nothing for a request.
func answerAll(l net.Listener) {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=UTF-8\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			r := bufio.NewReader(c)
			for {
				line, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(line) > len("\r\n") {
					continue
				}
				if _, err := r.Discard(2); err != nil {
					return
				}
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}()
	}
}
