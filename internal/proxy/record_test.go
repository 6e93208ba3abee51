package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// logged collects records.
type logged struct {
	mu      sync.Mutex
	records []*record.Record
}

func (l *logged) take(r *record.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
}

// one returns the only record, once it is there: it may come after the answer.
func (l *logged) one(t *testing.T) *record.Record {
	t.Helper()
	var found *record.Record
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.records) == 1 {
			found, l.records = l.records[0], nil
		}
		return found != nil
	}, patience, time.Millisecond)
	return found
}

// recording starts a proxy that logs every request.
func recording(t *testing.T, nodes int, rules record.Rules, change func(*Options)) (*harness, *logged) {
	t.Helper()
	l := &logged{}
	rules.AccessLog, rules.Share = l.take, 1
	h := start(t, nodes, func(o *Options) {
		o.Records = record.NewRecorder()
		o.Records.Use(rules)
		if change != nil {
			change(o)
		}
	})
	return h, l
}

func TestARecordTellsWhatHappened(t *testing.T) {
	h, l := recording(t, 3, record.Rules{}, nil)
	h.slow(1)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	before := time.Now()
	h.do("POST", "/idx/_search?q=user:kim&routing=kim", `{"query":"kim"}`,
		"X-Opaque-Id", "job-7", "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01", "Authorization", "kim", "User-Agent", "kim")
	r := l.one(t)
	require.WithinRange(t, r.At, before.Add(-time.Second), r.Ended())
	require.Equal(t, "127.0.0.1", r.Client)
	require.Equal(t, []any{"POST", "/idx/_search", es.Search, "idx", true}, []any{r.Method, r.Path, r.Operation, r.Target, r.Routed})
	require.Equal(t, []any{"route", "ranked", 200, "ok"}, []any{r.Mode, r.Reason, r.Status, r.Outcome})
	require.Equal(t, []any{int64(15), int64(len(complete))}, []any{r.RequestBytes, r.ResponseBytes})
	require.Equal(t, []any{"job-7", trace}, []any{r.OpaqueID, r.TraceID})
	require.InDelta(t, 3, *r.Took, 0)
	require.Positive(t, r.Upstream)
	require.GreaterOrEqual(t, r.Duration, r.Upstream)
	require.Empty(t, r.Kept)
	require.Nil(t, r.Decision, "it is logged, not kept")
	require.Equal(t, []string{"a", "c"}, r.Nodes)
	require.Len(t, r.Attempts, 1)
	a := r.Attempts[0]
	require.Equal(t, []any{"first", "only_nodes", "answered", 200, r.Coordinator}, []any{a.Kind, a.Preference, a.Outcome, a.Status, a.Node})
	require.Equal(t, []string{"a", "c"}, a.Nodes)
	require.Equal(t, "id-"+a.Node, a.NodeID)

	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(text), "kim", "no query, body, routing or header")
}

func TestARecordOfWhatPasses(t *testing.T) {
	h, l := recording(t, 3, record.Rules{}, nil)
	h.do("PUT", "/people/_doc/kim", strings.Repeat("x", 5000))
	r := l.one(t)
	require.Equal(t, []any{"/people/_doc/{id}", es.Write, "not_steerable", int64(5000)}, []any{r.Path, r.Operation, r.Reason, r.RequestBytes})
	require.Nil(t, r.Took)
	require.Len(t, r.Attempts, 1)
	require.Equal(t, []any{"first", "none", "answered"}, []any{r.Attempts[0].Kind, r.Attempts[0].Preference, r.Attempts[0].Outcome})
	require.Empty(t, r.Attempts[0].Nodes)

	h.do("GET", "/idx/_doc/7", "")
	r = l.one(t)
	require.Equal(t, []any{"/idx/_doc/{id}", "prefer_nodes"}, []any{r.Path, r.Attempts[0].Preference})
	h.do("POST", "/idx/_msearch", "{}\n{}\n{\"index\":\"lone\"}\n{}\n")
	r = l.one(t)
	require.Equal(t, []any{es.MSearch, "answered"}, []any{r.Operation, r.Attempts[0].Outcome})
}

// What a failed attempt was about stays known: who failed it, how, and what was
// decided then.
func TestARequestThatFailedOverIsKept(t *testing.T) {
	h, l := recording(t, 3, record.Rules{Keep: 10}, nil)
	h.slow(1)
	badOnce(h, respond(http.StatusTooManyRequests, `{"error":"full"}`))
	h.do("POST", "/idx/_search", `{}`)
	r := l.one(t)
	require.Equal(t, []string{"failover"}, r.Kept)
	require.Len(t, r.Attempts, 2)
	require.Equal(t, []any{"first", "rejected", 429}, []any{r.Attempts[0].Kind, r.Attempts[0].Outcome, r.Attempts[0].Status})
	require.Equal(t, []any{"failover", "answered", 200}, []any{r.Attempts[1].Kind, r.Attempts[1].Outcome, r.Attempts[1].Status})
	require.NotEqual(t, r.Attempts[0].Node, r.Attempts[1].Node)
	require.Equal(t, []*record.Record{r}, h.proxy.o.Records.Last(5))

	d := r.Decision
	require.NotNil(t, d)
	require.Equal(t, selection.Ranked, d.Reason)
	require.Len(t, d.Candidates, 3)
	require.Equal(t, "b", d.Candidates[0].Name, "what something speaks against comes first")
	require.False(t, d.Candidates[0].Listed)
	require.Equal(t, selection.KeptSlow, d.Candidates[0].Excluded)
	require.Contains(t, d.Candidates[0].Why, "those of its peers")
}

// A write that loses its connection is sent once, and is not slow. It is kept all the same, and
// so is an answer that breaks off. A request that failed over does not push them out.
func TestARequestThatFailedIsKept(t *testing.T) {
	h, l := recording(t, 3, record.Rules{Keep: 2}, nil)
	h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Length", "100000")
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	resp, _ := h.do("POST", "/idx/_doc", `{}`)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	failed := l.one(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.front.URL+"/_cat/indices", http.NoBody)
	require.NoError(t, err)
	resp, err = http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, resp.Body.Close())
	cutOff := l.one(t)
	for _, r := range []*record.Record{failed, cutOff} {
		require.Equal(t, []string{"failed"}, r.Kept)
		require.Len(t, r.Attempts, 1)
	}
	require.Equal(t, []*record.Record{cutOff, failed}, h.proxy.o.Records.Last(5))

	badOnce(h, respond(http.StatusTooManyRequests, `{"error":"full"}`))
	h.do("POST", "/idx/_search", `{}`)
	over := l.one(t)
	require.Equal(t, []string{"failover"}, over.Kept)
	require.Equal(t, []*record.Record{over, cutOff, failed}, h.proxy.o.Records.Last(5))
}

func TestANodeThatCannotBeReachedIsInTheRecord(t *testing.T) {
	h, l := recording(t, 3, record.Rules{Keep: 10}, nil)
	h.end(1)
	require.Eventually(t, func() bool {
		h.do("GET", "/_cat/indices", "")
		r := l.one(t)
		if len(r.Attempts) == 1 {
			return false // it went to another
		}
		require.Equal(t, []any{"b", "unreachable", 0}, []any{r.Attempts[0].Node, r.Attempts[0].Outcome, r.Attempts[0].Status})
		require.Contains(t, r.Attempts[0].Error, "connection refused")
		return true
	}, 20*time.Second, time.Millisecond)
}

// A client that leaves is no attempt's fault.
func TestAClientThatLeavesIsInTheRecord(t *testing.T) {
	h, l := recording(t, 3, record.Rules{}, nil)
	arrived := make(chan struct{}, 1)
	h.answer = func(_ string, _ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.front.URL+"/idx/_search", strings.NewReader("{}"))
	require.NoError(t, err)
	ended := make(chan struct{})
	transport := &http.Transport{}
	go func() {
		defer close(ended)
		resp, err := transport.RoundTrip(request)
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-arrived
	h.front.CloseClientConnections()
	<-ended
	r := l.one(t)
	require.Equal(t, []any{"canceled", 0, "canceled"}, []any{r.Outcome, r.Status, r.Attempts[0].Outcome})
}

func TestAHedgeIsInTheRecord(t *testing.T) {
	h := startHedging(t, 3, func(o *Options) { o.Records = record.NewRecorder() })
	h.proxy.o.Records.Use(record.Rules{Keep: 10}) // on a busy machine there were hedges before
	closed := hangFirst(h)
	h.do("POST", "/idx/_search", `{}`)
	<-closed
	require.Eventually(t, func() bool { return len(h.proxy.o.Records.Last(10)) == 1 }, patience, time.Millisecond)
	hedged := h.proxy.o.Records.Last(10)[0]
	require.Equal(t, []string{"hedge"}, hedged.Kept)
	require.Len(t, hedged.Attempts, 2)
	require.Equal(t, []any{"first", "abandoned"}, []any{hedged.Attempts[0].Kind, hedged.Attempts[0].Outcome})
	require.Equal(t, []any{"hedge", "answered"}, []any{hedged.Attempts[1].Kind, hedged.Attempts[1].Outcome})
	require.GreaterOrEqual(t, hedged.Attempts[1].Start, hedged.Attempts[0].Start)
}

// traced is a tracer whose one trace has a name.
type traced struct{}

func (traced) Request(*http.Request, *record.Trail) record.RequestSpan { return traced{} }
func (traced) Probe(http.Header) record.ProbeSpan                      { return nil }
func (traced) Attempt(http.Header) record.AttemptSpan                  { return nil }
func (traced) TraceID() string                                         { return "c0ffee" }
func (traced) End(*record.Trail)                                       {}

func TestARecordLeadsToItsTrace(t *testing.T) {
	h, l := recording(t, 2, record.Rules{}, func(o *Options) { o.Tracer = traced{} })
	h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, "c0ffee", l.one(t).TraceID)
}

func TestOnlyWhatIsWantedIsRecorded(t *testing.T) {
	slow := &logged{}
	h := start(t, 2, func(o *Options) { o.Records = record.NewRecorder() })
	h.do("POST", "/idx/_search", `{}`)
	require.Empty(t, h.proxy.o.Records.Last(10))

	h.proxy.o.Records.Use(record.Rules{Slow: time.Nanosecond, Keep: 3, SlowLog: slow.take})
	for range 5 {
		h.do("POST", "/idx/_search", `{}`)
	}
	h.do("GET", "/_cat/indices", "")
	require.Eventually(t, func() bool { return len(h.proxy.o.Records.Last(10)) == 4 }, patience, time.Millisecond, "three of each kind")
	last := h.proxy.o.Records.Last(10)
	require.Equal(t, es.Other, last[0].Operation)
	require.Nil(t, last[0].Decision)
	for i, r := range last[1:] {
		require.Equal(t, []string{"slow"}, r.Kept)
		require.NotNil(t, r.Decision)
		require.False(t, r.Ended().After(last[i].Ended()), "newest first")
	}
	require.Len(t, h.proxy.o.Records.Last(2), 2)
	slow.mu.Lock()
	require.Len(t, slow.records, 6, "all are logged")
	slow.mu.Unlock()

	h.proxy.o.Records.Use(record.Rules{Slow: time.Hour, Keep: 2})
	require.Equal(t, []*record.Record{last[0], last[1], last[2]}, h.proxy.o.Records.Last(10), "what there is room for stays")
	h.proxy.o.Records.Use(record.Rules{})
	require.Empty(t, h.proxy.o.Records.Last(10))
}

func TestRecordsAreBounded(t *testing.T) {
	h, l := recording(t, 2, record.Rules{}, nil)
	h.do("GET", "/"+strings.Repeat("ä", 4000)+"/_search", "", "X-Opaque-Id", strings.Repeat("x", 4000), "Traceparent", "00-nonsense-1-1")
	r := l.one(t)
	require.LessOrEqual(t, len(r.Path), 256+len("…"))
	require.LessOrEqual(t, len(r.Target), 256+len("…"))
	require.LessOrEqual(t, len(r.OpaqueID), 64+len("…"))
	require.Empty(t, r.TraceID)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(text), `\ufffd`, "cut between characters")
}

// A line has the fields of the record, and the brief one neither decision nor kept.
func TestAttributesAreTheFields(t *testing.T) {
	h, l := recording(t, 2, record.Rules{Slow: time.Nanosecond, Keep: 1}, nil)
	h.do("POST", "/idx/_search", `{}`)
	r := l.one(t)
	line := func(attrs []slog.Attr) (fields map[string]any) {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).LogAttrs(t.Context(), slog.LevelInfo, "request", attrs...)
		require.NoError(t, json.Unmarshal(out.Bytes(), &fields))
		return fields
	}
	full, brief := line(r.Attrs()), line(r.BriefAttrs())
	require.Equal(t, "idx", full["target"])
	require.InDelta(t, r.Duration, full["duration_ms"], 0)
	require.Contains(t, full["decision"], "candidates")
	require.Equal(t, "first", full["attempts"].([]any)[0].(map[string]any)["kind"])
	delete(full, "decision")
	delete(full, "kept")
	delete(full, "time")
	delete(brief, "time")
	require.Equal(t, full, brief)
	require.Equal(t, "ok", r.Outcome)
	require.NotNil(t, r.Decision, "it is not changed")
}

func TestRecordsOfBulks(t *testing.T) {
	var h *bulks
	l := &logged{}
	h = startBulks(t, 3, func(o *Options) {
		o.Records = record.NewRecorder()
		o.Records.Use(record.Rules{AccessLog: l.take, Share: 1})
	})
	h.answer = respond(http.StatusOK, strings.Replace(itemsOf(5, 201), "201", "429", 2))
	h.do("POST", "/idx/_bulk", five+"{\"delete\":{\"_id\":\"1\"}}\n")
	require.Equal(t, &record.Bulk{Operations: 6, Planned: 5, Shards: 1, OK: 3, Rejected: 2}, l.one(t).Bulk)
	h.do("POST", "/idx/_bulk?routing=x", five)
	require.Nil(t, l.one(t).Bulk)
}
