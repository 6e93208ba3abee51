package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
)

func TestTheAnswerToARepeatedBulkIsPutInOrder(t *testing.T) {
	body := `{"took":3,"errors":true,"items":[
		{"create":{"_index":"x","_id":"P1","_version":1,"result":"created","_shards":{"total":2,"successful":2,"failed":0},"_seq_no":5,"_primary_term":1,"status":201}},
		{"create":{"_index":"x","_id":"P2","status":409,"error":{"type":"version_conflict_engine_exception","reason":"[P2]: version conflict, \"status\":409"}}},
		{"create":{"_index":"x","_id":"P3","status":409,"error":{"type":"version_conflict_engine_exception"}}}]}`
	got, ok := restoreItems([]byte(body), []bool{true, true, false})
	require.True(t, ok)
	require.JSONEq(t, `{"took":3,"errors":false,"items":[
		{"index":{"_index":"x","_id":"P1","_version":1,"result":"created","_shards":{"total":2,"successful":2,"failed":0},"_seq_no":5,"_primary_term":1,"status":201}},
		{"index":{"_index":"x","_id":"P2","_version":1,"result":"created","status":201}},
		{"create":{"_index":"x","_id":"P3","_version":1,"result":"created","status":201}}]}`, string(got))

	refused := `{"took":3,"errors":true,"items":[{"create":{"_index":"x","_id":"P1","status":429,"error":{"type":"es_rejected_execution_exception"}}}]}`
	got, ok = restoreItems([]byte(refused), []bool{true})
	require.True(t, ok)
	var answer struct{ Errors bool }
	require.NoError(t, json.Unmarshal(got, &answer))
	require.True(t, answer.Errors)

	for name, odd := range map[string]string{
		"not JSON": `{`, "too few items": `{"took":1,"items":[]}`, "another verb": `{"took":1,"items":[{"delete":{}}]}`, "an error": `{"error":"x","status":400}`,
	} {
		_, ok := restoreItems([]byte(odd), []bool{true})
		require.False(t, ok, name)
	}
}

// store is an index behind the nodes of a harness.
type store struct {
	mu   sync.Mutex
	docs map[string]int // by id: how often it was written
	next int
	// reject is how many operations are answered 429 before any is stored.
	reject int
	// broken is called after a bulk was stored, instead of an answer, while it is not nil.
	broken func(http.ResponseWriter)
}

func (s *store) write(_ string, w http.ResponseWriter, r *http.Request, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []string
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	for i := 0; i < len(lines); i += 2 {
		var verbs map[string]struct {
			ID string `json:"_id"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &verbs); err != nil {
			panic(err)
		}
		for verb, o := range verbs {
			if o.ID == "" {
				s.next++
				o.ID = strconv.Itoa(s.next)
			}
			status, result := 201, `"result":"created"`
			switch {
			case s.reject > 0:
				s.reject--
				status, result = 429, `"error":{"type":"rejected_execution_exception"}`
			case verb == "create" && s.docs[o.ID] > 0:
				status, result = 409, `"error":{"type":"version_conflict_engine_exception"}`
			default:
				s.docs[o.ID]++
			}
			items = append(items, fmt.Sprintf(`{%q:{"_index":"idx","_id":%q,"status":%d,%s}}`, verb, o.ID, status, result))
		}
	}
	if broken := s.broken; broken != nil {
		s.broken = nil
		broken(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"took":1,"errors":false,"items":[`+strings.Join(items, ",")+`]}`)
}

// startStore starts three nodes before one store, with bulks on one shard.
func startStore(t *testing.T, change func(*Bulk)) (*harness, *store) {
	t.Helper()
	s := &store{docs: map[string]int{}}
	h := start(t, 3, func(o *Options) {
		o.Bulk = Bulk{
			Patterns: []string{"idx"}, Avoid: true, MaxSkew: 1.5, Books: &bulk.Books{},
			Index: func(name string) (bulk.Index, bool) {
				return bulk.Index{Name: name, WriteIndex: name, Shards: 3, RoutingShards: 3, Values: bulk.Values(3, 3)}, true
			},
		}
		change(&o.Bulk)
	})
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		body := h.requests[len(h.requests)-1].body
		h.mu.Unlock()
		s.write(node, w, r, body)
	}
	return h, s
}

func breakConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

const twoDocuments = "{\"index\":{}}\n{\"n\":1}\n{\"create\":{}}\n{\"n\":2}\n"

func TestABulkIsRepeatedWithoutDocumentsStoredTwice(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken = breakConnection
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	seen := h.seen()
	require.Len(t, seen, 2)
	require.NotEqual(t, seen[0].node, seen[1].node)
	require.Equal(t, strings.ReplaceAll(seen[0].body, `"index"`, `"create"`), seen[1].body, "the same ids, on the same shard")
	require.Len(t, s.docs, 2)
	for id, times := range s.docs {
		require.Equal(t, 1, times)
		require.Contains(t, text, strconv.Quote(id))
	}
	require.Contains(t, text, `"errors":false`)
	require.Regexp(t, `"items":\[\{"index":.*201.*\{"create":.*201`, text)

	_, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Len(t, s.docs, 4, "an equal bulk after one that was acknowledged is another one")
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
	require.Len(t, s.docs, 2)

	_, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Authorization", "Basic b")
	require.Len(t, s.docs, 4, "another client's")
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Authorization", "Basic a")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.docs, 4)
	require.Contains(t, text, `"errors":false`)
	_, _ = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson", "Authorization", "Basic a")
	require.Len(t, s.docs, 6, "it is matched once")
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

func TestRejectedOperationsAreSentAgain(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.RetryRejected = 10 * time.Second })
	s.reject = 3 // both of the first round, one of the second
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.docs, 2)
	require.Regexp(t, `^\{"took":1,"errors":false,"items":\[\{"index":.*201.*\{"create":.*201`, text)
	seen := h.seen()
	require.Len(t, seen, 3)
	require.Equal(t, 1, strings.Count(seen[2].body, "routing"), "what was stored is not sent again")

	h, s = startStore(t, func(b *Bulk) { b.RetryRejected = time.Nanosecond })
	s.reject = 1
	_, text = h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Contains(t, text, `"status":429`, "as the engine gave it")
	require.Len(t, h.seen(), 1)
}
