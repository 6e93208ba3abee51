package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
)

func TestTheAnswerToARepeatedBulkIsPutInOrder(t *testing.T) {
	body := `{"took":3,"ingest_took":7,"errors":true,"items":[
		{"create":{"_index":"x","_id":"P1","_version":1,"result":"created","_shards":{"total":2,"successful":2,"failed":0},"_seq_no":5,"_primary_term":1,"status":201}},
		{"create":{"_index":"x","_id":"P2","status":409,"error":{"type":"version_conflict_engine_exception","reason":"[P2]: version conflict, \"status\":409"}}},
		{"create":{"_index":"x","_id":"P3","status":409,"error":{"type":"version_conflict_engine_exception"}}}]}`
	again := &repeatable{body: []byte("{\"index\":{}}\n{}\n\n{ \"index\" : {} }\r\n{\"create\":1}\r\n{\"create\":{}}\n{}\n")}
	result, ok := parseResult([]byte(body))
	require.True(t, ok)
	require.True(t, again.restore(result))
	require.JSONEq(t, `{"took":3,"ingest_took":7,"errors":false,"items":[
		{"index":{"_index":"x","_id":"P1","_version":1,"result":"created","_shards":{"total":2,"successful":2,"failed":0},"_seq_no":5,"_primary_term":1,"status":201}},
		{"index":{"_index":"x","_id":"P2","_version":1,"result":"created","status":201}},
		{"create":{"_index":"x","_id":"P3","_version":1,"result":"created","status":201}}]}`, string(result.encode()))

	again.body = []byte("{\"index\":{}}\n{}\n")
	failed, ok := parseResult([]byte(`{"took":3,"errors":true,"items":[{"create":{"_index":"x","_id":"P1","status":400,"error":{"type":"document_parsing_exception"}}}]}`))
	require.True(t, ok)
	require.True(t, again.restore(failed))
	require.JSONEq(t, `{"took":3,"errors":true,"items":[{"index":{"_index":"x","_id":"P1","status":400,"error":{"type":"document_parsing_exception"}}}]}`, string(failed.encode()))

	for name, odd := range map[string]string{
		"too few items":       `{"took":1,"items":[]}`,
		"no item":             `{"took":1,"items":[{}]}`,
		"a rejected item":     `{"took":3,"items":[{"create":{"status":429,"error":{}}}]}`,
		"an unavailable item": `{"took":3,"items":[{"create":{"status":503,"error":{}}}]}`,
		"an internal error":   `{"took":3,"items":[{"create":{"status":500,"error":{}}}]}`,
	} {
		result, ok := parseResult([]byte(odd))
		require.True(t, ok, name)
		require.False(t, again.restore(result), name)
	}
	for _, odd := range []string{``, `{`, `[]`, `{"error":"x","status":400}`, `{"items":3}`} {
		_, ok := parseResult([]byte(odd))
		require.False(t, ok, odd)
	}
}

// store is an index behind the nodes of a harness.
type store struct {
	mu   sync.Mutex
	docs map[string]int // by id: how often it was written
	next int
	// reject is how many operations are answered 429 before any is stored.
	reject int
	// crash is how many bulks have a last operation that is answered 500, whatever is done.
	crash int
	// broken is called after a bulk was stored, instead of an answer, while it is not nil.
	broken func(http.ResponseWriter)
}

// bulkOperation is one operation of a bulk that has a document.
type bulkOperation struct{ verb, id, document string }

// operationsOf returns the operations of a bulk of which each has a document.
func operationsOf(body string) (out []bulkOperation) {
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	for i := 0; i < len(lines); i += 2 {
		var verbs map[string]struct {
			ID string `json:"_id"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &verbs); err != nil {
			panic(err)
		}
		for verb, o := range verbs {
			document := "" // a bulk may end with an operation without one
			if i+1 < len(lines) {
				document = lines[i+1]
			}
			out = append(out, bulkOperation{verb, o.ID, document})
		}
	}
	return out
}

func (s *store) write(_ string, w http.ResponseWriter, r *http.Request, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []string
	operations := operationsOf(body)
	for i, o := range operations {
		if o.id == "" {
			s.next++
			o.id = strconv.Itoa(s.next)
		}
		status, result := 201, `"result":"created"`
		switch {
		case s.crash > 0 && i == len(operations)-1:
			s.crash--
			status, result = 500, `"error":{"type":"null_pointer_exception"}`
		case s.reject > 0:
			s.reject--
			status, result = 429, `"error":{"type":"rejected_execution_exception"}`
		case o.verb == "create" && s.docs[o.id] > 0:
			status, result = 409, `"error":{"type":"version_conflict_engine_exception"}`
		default:
			s.docs[o.id]++
		}
		items = append(items, fmt.Sprintf(`{%q:{"_index":"idx","_id":%q,"status":%d,%s}}`, o.verb, o.id, status, result))
	}
	if broken := s.broken; broken != nil {
		s.broken = nil
		broken(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	all := strings.Join(items, ",")
	if strings.Contains(r.URL.RawQuery, "filter_path") {
		all = regexp.MustCompile(`"_index":"idx","_id":"[^"]*",|,"result":"created"`).ReplaceAllString(all, "")
		_, _ = fmt.Fprintf(w, `{"errors":%t,"items":[%s]}`, strings.Contains(all, `"error":`), all)
		return
	}
	_, _ = fmt.Fprintf(w, `{"took":1,"errors":%t,"items":[%s]}`, strings.Contains(all, `"error":`), all)
}

// stored returns how often each document was written.
func (s *store) stored() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.docs)
}

// startStore starts three nodes before one store, with bulks on one shard.
func startStore(t *testing.T, change func(*Bulk)) (*harness, *store) {
	t.Helper()
	s := &store{docs: map[string]int{}}
	h := start(t, 3, func(o *Options) {
		o.Bulk = Bulk{
			Patterns: []string{"idx"}, Avoid: true, MaxSkew: 1.5, Books: &bulk.Books{},
			Index: func(name string) (bulk.Index, bool) {
				return bulk.Index{WriteIndex: name, Shards: 3, RoutingShards: 3, Values: bulk.Values(3, 3)}, true
			},
		}
		change(&o.Bulk)
	})
	h.answer = h.store(s)
	return h, s
}

// store answers with the store.
func (h *harness) store(s *store) func(string, http.ResponseWriter, *http.Request) {
	return func(node string, w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		body := h.requests[len(h.requests)-1].body
		h.mu.Unlock()
		s.write(node, w, r, body)
	}
}

// on has the nth request answered otherwise.
func (h *harness) on(nth int32, other func(string, http.ResponseWriter, *http.Request)) {
	usual := h.answer
	var n atomic.Int32
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == nth {
			other(node, w, r)
			return
		}
		usual(node, w, r)
	}
}

func breakConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

const twoDocuments = "{\"index\":{}}\n{\"n\":1}\n{\"create\":{}}\n{\"n\":2}\n"

func TestABulkIsRepeatedWithoutDocumentsStoredTwice(t *testing.T) {
	for _, expect := range []string{"", "100-continue"} {
		t.Run(expect, func(t *testing.T) { testABulkIsRepeated(t, expect) })
	}
}

func testABulkIsRepeated(t *testing.T, expect string) {
	t.Helper()
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken = breakConnection
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Expect", expect)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	seen := h.seen()
	require.Len(t, seen, 2)
	require.NotEqual(t, seen[0].node, seen[1].node)
	require.Equal(t, strings.ReplaceAll(seen[0].body, `"index"`, `"create"`), seen[1].body, "the same ids, on the same shard")
	require.Len(t, s.stored(), 2)
	for id, times := range s.stored() {
		require.Equal(t, 1, times)
		require.Contains(t, text, strconv.Quote(id))
	}
	require.Contains(t, text, `"errors":false`)
	require.Regexp(t, `"items":\[\{"index":.*201.*\{"create":.*201`, text)

	_, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Len(t, s.stored(), 4, "an equal bulk after one that was acknowledged is another one")
}

func TestABulkThatNobodyKnowsOfIsMatchedWhenItComesAgain(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	breaks := 0
	var again func(http.ResponseWriter)
	again = func(w http.ResponseWriter) { // the lock of the store is held
		if breaks++; breaks < 3 {
			s.broken = again
		}
		breakConnection(w)
	}
	s.broken = again
	resp, _ := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Authorization", "Basic a")
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Len(t, s.stored(), 2)

	_, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Authorization", "Basic b")
	require.Len(t, s.stored(), 4, "another client's")
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Authorization", "Basic a")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), 4)
	require.Contains(t, text, `"errors":false`)
	_, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Authorization", "Basic a")
	require.Len(t, s.stored(), 6, "it is matched once")
}

func TestABulkOnAnAppendOnlyIndexGetsNoIDs(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) {
		b.Idempotent = true
		plain := b.Index
		b.Index = func(name string) (bulk.Index, bool) {
			index, known := plain(name)
			index.AppendOnly = true
			return index, known
		}
	})
	s.broken = breakConnection
	resp, _ := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	seen := h.seen()
	require.Len(t, seen, 1)
	require.NotContains(t, seen[0].body, "_id")
	require.Contains(t, seen[0].body, `"routing"`)
}

func TestABulkWithIDsOfTheClientIsNotRepeated(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken = breakConnection
	body := "{\"index\":{\"_id\":\"x\"}}\n{\"n\":1}\n{\"index\":{}}\n{\"n\":2}\n"
	resp, _ := h.do("POST", "/idx/_bulk", body, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	seen := h.seen()
	require.Len(t, seen, 1)
	require.NotContains(t, seen[0].body, `{"index":{"_id":"x","_id"`)
	require.Equal(t, 1, strings.Count(seen[0].body, `"_id"`), "no id is made for nothing")
}

func TestAnErrorAfterABrokenConnectionTellsNothing(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken = breakConnection
	h.on(2, respond(http.StatusTooManyRequests, `{"error":{"type":"es_rejected_execution_exception"},"status":429}`))
	resp, _ := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Len(t, s.stored(), 2)
	resp, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), 2, "what the client sends again is the same bulk")
}

// A balancer before the nodes gives up on what the engine goes on to store.
func TestAnErrorOfABalancerTellsNothing(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken = func(w http.ResponseWriter) { http.Error(w, "upstream timed out", http.StatusGatewayTimeout) }
	resp, _ := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	require.Len(t, s.stored(), 2)
	resp, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), 2, "what the client sends again is the same bulk")
}

// A bulk that may have been stored is not sent as a new one because there is no memory to
// hold it twice.
func TestARepetitionWithoutMemoryIsRefused(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	long := strings.Repeat("{\"index\":{}}\n{\"n\":1}\n", heldScratch/10)
	s.broken = func(w http.ResponseWriter) { http.Error(w, "upstream timed out", http.StatusGatewayTimeout) }
	resp, _ := h.do("POST", "/idx/_bulk", long, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	stored := len(s.stored())

	room := h.proxy.o.MaxHeldBodies
	h.proxy.o.MaxHeldBodies = int64(2 * len(long))
	resp, text := h.do("POST", "/idx/_bulk", long, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Contains(t, text, "send the same bulk again")
	h.proxy.o.MaxHeldBodies = room
	resp, _ = h.do("POST", "/idx/_bulk", long, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), stored)
}

func TestAnItemRefusedAfterABrokenConnectionTellsNothing(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken = func(w http.ResponseWriter) {
		s.reject = 1 // of the repetition
		breakConnection(w)
	}
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Contains(t, text, "send the same bulk again")
	resp, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), 2)
}

func TestRejectedOperationsAreSentAgain(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, 10*time.Second })
	s.reject = 3 // both of the first round, one of the second
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Authorization", "Basic a")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), 2)
	require.Regexp(t, `^\{"took":1,"errors":false,"items":\[\{"index":.*201.*\{"create":.*201`, text)
	seen := h.seen()
	require.Len(t, seen, 3)
	require.Equal(t, 1, strings.Count(seen[2].body, "routing"), "what was stored is not sent again")
	require.Equal(t, "Basic a", seen[2].header.Get("Authorization"))

	h, s = startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, time.Nanosecond })
	s.reject = 1
	_, text = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Contains(t, text, `"status":429`, "as the engine gave it")
	require.Len(t, h.seen(), 1)
}

// An answer that tells at its beginning that nothing failed is not read first.
func TestAnAnswerWithoutErrorsIsPassedOnAsItComes(t *testing.T) {
	h, _ := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, 10*time.Second })
	begin, rest := `{"took":1,"errors":false,"items":[`, strings.TrimPrefix(itemsOf(2, 201), `{"took":3,"errors":false,"items":[`)
	read := make(chan struct{})
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(begin)+len(rest)))
		_, _ = io.WriteString(w, begin)
		_ = http.NewResponseController(w).Flush()
		<-read
		_, _ = io.WriteString(w, rest)
	}
	resp, err := http.Post(h.front.URL+"/idx/_bulk", "application/x-ndjson", strings.NewReader(twoDocuments)) //nolint:noctx // a test
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadFull(resp.Body, make([]byte, len(begin)))
	require.NoError(t, err)
	close(read)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, rest, string(text))
}

func TestRejectedOperationsWhoseConnectionBreaks(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, 10*time.Second })
	s.reject = 1
	h.on(2, func(_ string, w http.ResponseWriter, r *http.Request) {
		s.broken = breakConnection
		h.store(s)("", w, r)
	})
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Regexp(t, `"errors":false,"items":\[\{"index":.*201.*\{"create":.*201`, text)
	require.Len(t, s.stored(), 2)
	for _, times := range s.stored() {
		require.Equal(t, 1, times)
	}
}

func TestRejectionsOfOtherBulksStay(t *testing.T) {
	for name, change := range map[string]func(*Bulk){
		"observed":  func(b *Bulk) { b.Mode = ModeObserve },
		"not named": func(b *Bulk) { b.Patterns = []string{"other"} },
	} {
		t.Run(name, func(t *testing.T) {
			h, s := startStore(t, func(b *Bulk) {
				b.Idempotent, b.RetryRejected = true, 10*time.Second
				change(b)
			})
			s.reject = 1
			_, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
			require.Contains(t, text, `"status":429`)
			require.Len(t, h.seen(), 1)
		})
	}
}

func TestClientsThatLeaveEndWhatIsSentAgain(t *testing.T) {
	t.Parallel()
	h, s := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, time.Minute })
	s.reject = 1
	stuck, gone := make(chan struct{}), make(chan struct{})
	h.on(2, func(_ string, _ http.ResponseWriter, r *http.Request) {
		close(stuck)
		<-r.Context().Done()
		close(gone)
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.front.URL+"/idx/_bulk", strings.NewReader(twoDocuments))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	go func() {
		<-stuck
		leave()
	}()
	_, err = http.DefaultClient.Do(req)
	require.Error(t, err)
	<-gone
}

// A client that leaves while its bulk is stored sends it again: the answer that nobody
// reads is none.
func TestABulkWhoseClientHasLeftIsMatched(t *testing.T) {
	t.Parallel()
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	usual := h.answer
	ctx, leave := context.WithCancel(t.Context())
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		usual(node, w, r) // it is stored
		leave()
		<-r.Context().Done() // sidestep has noticed
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.front.URL+"/idx/_bulk", strings.NewReader(twoDocuments))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	_, err = http.DefaultClient.Do(req)
	require.Error(t, err)
	h.answer = usual
	resp, _ := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), 2)
}

// Pauses before operations are sent again, and the rest of an answer that is awaited, are not what sidestep adds itself.
func TestWhatABulkWaitsForIsNoOverhead(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, 10*time.Second })
	s.reject = 6 // three rounds: pauses of 175 ms in the mean
	usual := h.answer
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		usual(node, recorder, r)
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(20 * time.Millisecond)
		_, _ = io.Copy(w, recorder.Body)
	}
	began := time.Now()
	_, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	took := time.Since(began)
	require.Contains(t, text, `"errors":false`)
	require.Greater(t, took, 150*time.Millisecond)
	var own dto.Metric
	require.Eventually(t, func() bool {
		require.NoError(t, h.proxy.metrics.overhead.Write(&own))
		return own.GetHistogram().GetSampleCount() == 1
	}, patience, time.Millisecond)
	require.Less(t, own.GetHistogram().GetSampleSum(), took.Seconds()/2)
}
