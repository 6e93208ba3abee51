package app_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	"sidestep/internal/record"
	simcluster "sidestep/internal/sim/cluster"
	"sidestep/internal/tracing"
	"sidestep/internal/tracing/tracingtest"
)

// traced is sidestep before five simulated nodes, every request traced.
func traced(t *testing.T) (*simcluster.Cluster, *sidestep, *tracingtest.Receiver) {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100000")
	receiver := tracingtest.StartHTTP(t)
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 5, ServiceTime: 2 * time.Millisecond, Adaptive: true, Seed: 1,
		Indices: []simcluster.IndexSpec{{Name: "items", Shards: 5, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	cfg := settings(c.URLs()...)
	cfg.Upstream.Discovery = "sniff"
	cfg.Cluster.StatsInterval = 100 * time.Millisecond
	cfg.Cluster.StatsTimeout = 200 * time.Millisecond
	cfg.Tracing = config.Tracing{Endpoint: receiver.URL, SampleRatio: 1}
	return c, startReady(t, cfg, nil), receiver
}

// gentle is a rate, per second, that a slow machine can serve: where searches queue none
// is sent a second time.
const gentle = 30

// disturb gives one node after the other a fault, for longer and longer, until a span came
// for which all pairs hold.
func disturb(s *sidestep, receiver *tracingtest.Receiver, nodes []*simcluster.Node, fault simcluster.Fault, pairs ...any) {
	s.t.Helper()
	for round, end := 0, time.Now().Add(patience); time.Now().Before(end); round++ {
		n := nodes[round%len(nodes)] // the one before is avoided for a while
		n.SetFault(fault)
		lasts := min(time.Duration(round+1)*500*time.Millisecond, 3*time.Second) // on a slow machine little is overdue
		wake := time.AfterFunc(lasts, func() { n.SetFault(simcluster.Fault{}) })
		found := load(s.t, s, gentle, lasts+200*time.Millisecond)
		wake.Stop()
		require.Zero(s.t, found.Failed, "%v", found.FirstErrors)
		receiver.Await(s.t, complete)
		if len(tracingtest.Find(receiver.Spans(), pairs...)) > 0 {
			return
		}
	}
	require.Fail(s.t, "no such span", pairs)
}

// TestTracesTellWhatBecameOfSearches leads searches through everything that can become
// of them, and holds what the receiver got against docs/tracing.md.
func TestTracesTellWhatBecameOfSearches(t *testing.T) {
	c, s, receiver := traced(t)
	nodes := c.Nodes()
	load(t, s, gentle, 3*time.Second) // so that it is known when a search is overdue
	disturb(s, receiver, nodes, simcluster.Fault{Hang: true}, "sidestep.cause", "abandoned", "error.type", "canceled")
	disturb(s, receiver, nodes, simcluster.Fault{FailFast: http.StatusServiceUnavailable},
		"sidestep.role", "first", "sidestep.cause", "engine_error", "http.response.status_code", 503)
	for _, n := range c.Nodes() {
		n.SetFault(simcluster.Fault{Partial: true})
	}
	s.get(s.dataURL("/items/_search?q=hunter2"), "Authorization", "Basic hunter2")
	for _, n := range c.Nodes() {
		n.SetFault(simcluster.Fault{})
	}
	s.get(s.dataURL("/_cluster/health"))
	s.get(s.dataURL("/items/_doc/hunter2"))

	spans := receiver.Await(t, func(spans []tracingtest.Span) bool {
		return complete(spans) && len(tracingtest.Find(spans, "sidestep.role", "probe")) > 0 &&
			len(tracingtest.Find(spans, "url.path", "/items/_doc/{id}")) > 0
	})
	for _, s := range spans {
		if s.Kind == "server" {
			requireTrace(t, s, attemptsOf(spans, s))
		}
	}
	requireRoles(t, spans)
	requireAttributes(t, spans)
	text, err := json.Marshal(spans)
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
}

// complete reports whether the attempts of all requests have come.
func complete(spans []tracingtest.Span) bool {
	attempts := map[string]int{}
	for _, s := range spans {
		attempts[s.Parent]++
	}
	return !slices.ContainsFunc(spans, func(s tracingtest.Span) bool {
		return s.Kind == "server" && attempts[s.ID] < s.Attributes["sidestep.attempts"].(int)
	})
}

// attemptsOf returns the attempts at a request in the order in which they were sent.
func attemptsOf(spans []tracingtest.Span, request tracingtest.Span) []tracingtest.Span {
	var attempts []tracingtest.Span
	for _, s := range spans {
		if s.Parent == request.ID {
			attempts = append(attempts, s)
		}
	}
	slices.SortFunc(attempts, func(a, b tracingtest.Span) int { return resend(a) - resend(b) })
	return attempts
}

func resend(s tracingtest.Span) int {
	count, _ := s.Attributes["http.request.resend_count"].(int)
	return count
}

// requireTrace holds what is true of every request and its attempts.
func requireTrace(t *testing.T, request tracingtest.Span, attempts []tracingtest.Span) {
	t.Helper()
	require.Empty(t, request.Parent)
	require.Len(t, attempts, request.Attributes["sidestep.attempts"].(int))
	for i, a := range attempts {
		require.Equal(t, "client", a.Kind)
		require.Equal(t, request.Trace, a.Trace)
		require.Equal(t, i, resend(a))
		require.False(t, a.Began.Before(request.Began))
		require.False(t, a.Ended.Before(a.Began))
		require.Contains(t, record.Roles(), a.Attributes["sidestep.role"])
		require.Equal(t, "opensearch", a.Attributes["db.system.name"])
		if i == 0 {
			require.Contains(t, []any{"first", "pass"}, a.Attributes["sidestep.role"])
		}
		if why, ok := a.Attributes["error.type"].(string); ok && a.Attributes["http.response.status_code"] == nil {
			require.Contains(t, record.Errors(), why)
		}
		require.Equal(t, a.Attributes["error.type"] != nil, a.Failed)
	}
}

// requireRoles looks at one trace of each kind.
func requireRoles(t *testing.T, spans []tracingtest.Span) {
	t.Helper()
	request := func(attempt tracingtest.Span) tracingtest.Span {
		at := slices.IndexFunc(spans, func(s tracingtest.Span) bool { return s.ID == attempt.Parent })
		require.GreaterOrEqual(t, at, 0, "%v", attempt)
		return spans[at]
	}
	attempts := func(pairs ...any) []tracingtest.Span {
		found := tracingtest.Find(spans, pairs...)
		require.NotEmpty(t, found, "%v", pairs)
		return attemptsOf(spans, request(found[0]))
	}
	failed := attempts("sidestep.role", "first", "sidestep.cause", "engine_error", "http.response.status_code", 503)
	require.Equal(t, "503", failed[0].Attributes["error.type"])
	require.Equal(t, "search items", failed[0].Name)
	require.Equal(t, "failover", failed[1].Attributes["sidestep.role"])
	require.NotEqual(t, failed[0].Attributes["server.port"], failed[1].Attributes["server.port"])

	hedged := attempts("sidestep.cause", "abandoned", "error.type", "canceled")
	require.Len(t, hedged, 2)
	require.Equal(t, "hedge", hedged[1].Attributes["sidestep.role"])
	require.Equal(t, 200, request(hedged[1]).Attributes["http.response.status_code"])

	last := attempts("sidestep.role", "as_written")
	require.GreaterOrEqual(t, len(last), 2)
	require.NotContains(t, last[len(last)-1].Attributes, "sidestep.preference")

	passed := tracingtest.Find(spans, "url.path", "/_cluster/health")[0]
	require.Equal(t, "GET", passed.Name)
	require.Equal(t, "not_steerable", passed.Attributes["sidestep.reason"])
	probe := tracingtest.Find(spans, "sidestep.role", "probe")[0]
	require.Equal(t, "client", probe.Kind)
	require.Empty(t, probe.Parent)
}

// requireAttributes holds what was received against the table: nothing else, and all
// of it.
func requireAttributes(t *testing.T, spans []tracingtest.Span) {
	t.Helper()
	received := map[string]map[string]bool{"server": {}, "client": {}}
	for _, s := range spans {
		for key := range s.Attributes {
			received[s.Kind][key] = true
		}
	}
	var request, attempt []string
	for _, a := range tracing.Attributes() {
		if a.Request {
			request = append(request, a.Key)
		}
		if a.Attempt {
			attempt = append(attempt, a.Key)
		}
	}
	delete(received["server"], "error.type") // no request failed, as a rule
	// Admission is off here: TestSpansTellOfAdmission in package tracing sees these.
	request = slices.DeleteFunc(request, func(key string) bool { return key == "error.type" || strings.HasPrefix(key, "sidestep.admission.") })
	require.ElementsMatch(t, request, slices.Collect(maps.Keys(received["server"])))
	require.ElementsMatch(t, attempt, slices.Collect(maps.Keys(received["client"])))
}

// TestTracingOnTheWire compares the bytes of requests that are traced, and are not.
func TestTracingOnTheWire(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	const (
		head    = "POST /idx/_bulk?q=1 HTTP/1.1\r\nHost: es\r\nbaggage: user=1\r\nx-b: 2\r\nX-A: 1\r\n"
		body    = "Content-Length: 3\r\n\r\nabc"
		trace   = "0af7651916cd43dd8448eb211c80319c"
		decided = "traceparent: 00-" + trace + "-b7ad6b7169203331-"
		state   = "tracestate: b=2,a=1\r\n"
	)
	receiver := tracingtest.StartHTTP(t)
	for name, ratio := range map[string]float64{"every request": 1, "what clients trace": 0} {
		t.Run(name, func(t *testing.T) {
			w := startWire(t, func(cfg *config.Config) {
				cfg.Tracing = config.Tracing{Endpoint: receiver.URL, SampleRatio: ratio, TrustClientSampling: true}
			})
			asSent := []string{head + decided + "00\r\n" + state + body, head + decided + "00\r\n" + decided + "01\r\n" + body}
			if ratio == 0 {
				asSent = append(asSent, head+body, head+"traceparent: 00-a-b-01\r\n"+state+body)
			}
			for _, sent := range asSent {
				got, _ := w.exchange(sent)
				require.Equal(t, parse(t, sent), parse(t, got))
			}
			sent := head + decided + "01\r\n" + state + body
			got, _ := w.exchange(sent)
			own := field(got, "Traceparent")
			require.NotEqual(t, field(sent, "traceparent"), own)
			spans := receiver.Await(t, func(spans []tracingtest.Span) bool {
				return slices.ContainsFunc(spans, func(s tracingtest.Span) bool { return "00-"+trace+"-"+s.ID+"-01" == own })
			})
			require.Equal(t, "b=2,a=1", spans[len(spans)-1].State)
			got = strings.Replace(got, own, field(sent, "traceparent"), 1)
			require.Equal(t, parse(t, sent), parse(t, got), "nothing else differs")
		})
	}
}

// A client that is not trusted with it has nothing traced.
func TestUntrustedTraceparentOnTheWire(t *testing.T) {
	receiver := tracingtest.StartHTTP(t)
	w := startWire(t, func(cfg *config.Config) {
		cfg.Tracing = config.Tracing{Endpoint: receiver.URL, SampleRatio: 1e-9}
	})
	sent := "GET / HTTP/1.1\r\nHost: es\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=1\r\n\r\n"
	got, _ := w.exchange(sent)
	require.Equal(t, parse(t, sent), parse(t, got))
}

// field returns the value of the first header of that name in a message.
func field(raw, name string) string {
	_, rest, _ := strings.Cut(raw, "\r\n"+name+": ")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

func TestReloadChangesTracing(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	u, first, second := newUpstream(t), tracingtest.StartHTTP(t), tracingtest.StartGRPC(t)
	cfg := settings(u.URL)
	s := startReady(t, cfg, nil)
	search := func() { s.get(s.dataURL("/logs/_search")) }
	some := func(spans []tracingtest.Span) bool {
		return len(tracingtest.Find(spans, "sidestep.operation", "search")) > 0
	}
	search()
	cfg.Tracing = config.Tracing{Endpoint: first.URL, SampleRatio: 1}
	require.NoError(t, s.Reload(cfg))
	search()
	first.Await(t, some)

	dir := t.TempDir()
	cfg.Tracing = config.Tracing{
		Endpoint: second.URL, Protocol: "grpc", SampleRatio: 1, ServiceName: "shop",
		HeadersFile: write(t, dir, "headers", []byte("x-tenant: a\n")),
	}
	require.NoError(t, s.Reload(cfg))
	search()
	require.Equal(t, "shop", second.Await(t, some)[0].Resource["service.name"])
	require.Equal(t, "a", second.Headers()["x-tenant"])
	write(t, dir, "headers", []byte("x-tenant: b\n"))
	require.NoError(t, s.Reload(cfg))
	require.Eventually(t, func() bool {
		search()
		return second.Headers()["x-tenant"] == "b"
	}, patience, 20*time.Millisecond, "the file is read again")

	broken := cfg
	broken.Tracing.SampleRatio = 2
	require.ErrorContains(t, s.Reload(broken), "tracing.sample_ratio")
	cfg.Tracing = config.Default().Tracing
	require.NoError(t, s.Reload(cfg))
	s.get(s.dataURL("/logs/_count"))
	require.NoError(t, s.Stop(t.Context()), "all that was traced has been sent")
	require.Empty(t, tracingtest.Find(second.Spans(), "sidestep.operation", "count"))
	require.NotContains(t, s.log.String(), "x-tenant")
}

// TestReceiverDownCostsNothing has no receiver at all.
func TestReceiverDownCostsNothing(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	u := newUpstream(t)
	cfg := settings(u.URL)
	cfg.Tracing = config.Tracing{Endpoint: "http://127.0.0.1:1", SampleRatio: 1}
	s := startReady(t, cfg, nil)
	for range 20 {
		require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search")).status)
	}
	require.Eventually(t, func() bool {
		return strings.Contains(s.get(s.adminURL("/metrics")).body, `sidestep_trace_spans_total{result="failed"} 4`)
	}, patience, 20*time.Millisecond)
	require.Equal(t, 1, strings.Count(s.log.String(), "spans are not sent"))
}
