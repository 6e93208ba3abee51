package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sidestep/internal/record"
)

// cannedNode answers every request on its end of a pipe with complete.
func cannedNode(conn net.Conn) {
	answer := []byte("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 143\r\n\r\n" + complete)
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) || bytes.HasSuffix(buf[:n], []byte("}")) {
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
}

// sink is a ResponseWriter that keeps nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

// BenchmarkServe is the data plane without sockets: what a request costs beside the
// network and the engine, with nothing recorded, with the default (slow requests), and
// with a record of each.
func BenchmarkServe(b *testing.B) {
	for _, r := range []struct {
		name  string
		rules *record.Rules
	}{
		{"none", nil},
		{"slow", &record.Rules{Slow: time.Second, Keep: 100}},
		{"all", &record.Rules{Slow: time.Second, Keep: 100, AccessLog: func(*record.Record) {}, Share: 1}},
	} {
		benchmarkServe(b, "records="+r.name, r.rules)
	}
}

func benchmarkServe(b *testing.B, name string, rules *record.Rules) {
	h := start(b, 3, func(o *Options) {
		o.When, o.HedgeBudget = WhenOutlier, 0.05
		if rules != nil {
			o.Records = record.NewRecorder()
			o.Records.Use(*rules)
		}
		o.Leg.Dial = func(context.Context, string, string) (net.Conn, error) {
			client, node := net.Pipe()
			go cannedNode(node)
			return client, nil
		}
	})
	for _, c := range []struct{ name, method, uri, body string }{
		{"steered", http.MethodPost, "/idx/_search?routing=7", "{}"},
		{"left", http.MethodPost, "/idx/_search", "{}"},
		{"passed", http.MethodGet, "/_cat/indices", ""},
	} {
		b.Run(name+"/request="+c.name, func(b *testing.B) {
			u, err := url.Parse("http://front" + c.uri)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				r := &http.Request{
					Method: c.method, URL: u, RequestURI: c.uri, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
					Host: "front", Header: http.Header{}, ContentLength: int64(len(c.body)), Body: http.NoBody,
				}
				if c.body != "" {
					r.Body = io.NopCloser(strings.NewReader(c.body))
				}
				h.proxy.ServeHTTP(&sink{http.Header{}}, r.WithContext(b.Context()))
			}
		})
	}
}
