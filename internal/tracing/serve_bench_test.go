package tracing

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/leg"
	"sidestep/internal/proxy"
	"sidestep/internal/record"
	"sidestep/internal/selection"
	"sidestep/internal/tracing/tracingtest"
)

// canned answers every request on its end of a pipe with a search's answer.
func canned(conn net.Conn) {
	const body = `{"took":3,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},"hits":{"hits":[]}}`
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 107\r\n\r\n" + body)
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if bytes.HasSuffix(buf[:n], []byte("{}")) {
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

// front is a data plane before one node that answers at once, without sockets. It
// steers searches on "items".
func front(tb testing.TB, tracer record.Tracer) *proxy.Proxy {
	tb.Helper()
	selector := selection.New(selection.Options{Epoch: time.Now()})
	node := &url.URL{Scheme: "http", Host: "node:9200"}
	p, err := proxy.New(proxy.Options{
		Seeds: []*url.URL{node}, Selector: selector, Mode: proxy.ModeRoute, When: proxy.WhenAlways, Tracer: tracer,
		Leg: leg.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
			client, node := net.Pipe()
			go canned(node)
			return client, nil
		}, MaxIdle: 2},
		MaxHeldBody: 1 << 20, MaxHeldBodies: 64 << 20, MaxPlacementAge: time.Minute, Explain: proxy.ExplainOn,
		Open: func() bool { return false }, Touch: func() {}, Use: func(*cluster.Plan) {}, Learn: func(string, string) {},
		Refresh: func() {}, Probers: func() int { return 1 }, OnProbe: func(string, time.Duration) {},
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(tb, err)
	tb.Cleanup(p.Close)
	contents := cluster.Contents{PlacedAt: time.Now().Add(time.Hour), Engine: cluster.Engine{Distribution: "opensearch"}}
	items := cluster.Index{Name: "items", Shards: []cluster.Shard{{}}}
	for _, id := range []string{"a", "b"} {
		contents.Nodes = append(contents.Nodes, &cluster.Node{ID: id, Name: "node-" + id, Roles: []string{"data"}, URL: node})
		items.Shards[0].Copies = append(items.Shards[0].Copies, cluster.Copy{Node: id, Kind: 'r', State: cluster.Started})
	}
	contents.Indices = []cluster.Index{items}
	p.UseSnapshot(cluster.NewSnapshot(contents))
	return p
}

// search returns a search as a server would hand it on.
func search(ctx context.Context, target *url.URL) *http.Request {
	r := &http.Request{
		Method: http.MethodPost, URL: target, RequestURI: target.Path, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Host: "front", Header: http.Header{}, ContentLength: 2, Body: io.NopCloser(strings.NewReader("{}")),
	}
	return r.WithContext(ctx)
}

// BenchmarkServe is what a steered search costs beside the network and the engine,
// with the share of searches traced that is given.
func BenchmarkServe(b *testing.B) {
	receiver := tracingtest.StartHTTP(b)
	for name, o := range map[string]*Options{
		"traced=none": nil, "traced=off": {},
		"traced=1%":   {Endpoint: receiver.URL, SampleRatio: 0.01},
		"traced=100%": {Endpoint: receiver.URL, SampleRatio: 1},
	} {
		b.Run(name, func(b *testing.B) {
			var tracer record.Tracer
			if o != nil {
				t := New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
				require.NoError(b, t.Use(*o))
				defer t.Close(context.Background())
				tracer = t
			}
			p := front(b, tracer)
			target := &url.URL{Path: "/items/_search"}
			asked, told := search(b.Context(), target), &sink{http.Header{}}
			asked.Header.Set("X-Sidestep-Explain", "true")
			p.ServeHTTP(told, asked)
			require.Contains(b, told.header.Get("X-Sidestep-Decision"), "nodes=node-", "it is steered")
			times := make([]time.Duration, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				p.ServeHTTP(&sink{http.Header{}}, search(b.Context(), target))
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns/op")
		})
	}
}
