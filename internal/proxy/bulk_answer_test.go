package proxy

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Clients for Elasticsearch 7 and OpenSearch 1 cannot read an item without the type.
func TestAnItemThatIsRestoredKeepsItsType(t *testing.T) {
	again := &repeatable{body: []byte(twoDocuments)}
	result, ok := parseResult([]byte(`{"errors":true,"items":[{"create":{"_index":"x","_type":"_doc","_id":"P1","status":409,"error":{}}},{"create":{"_index":"x","_id":"P2","status":409,"error":{}}}]}`))
	require.True(t, ok)
	require.True(t, again.restore(result))
	require.JSONEq(t, `{"errors":false,"items":[
		{"index":{"_index":"x","_type":"_doc","_id":"P1","_version":1,"result":"created","status":201}},
		{"create":{"_index":"x","_id":"P2","_version":1,"result":"created","status":201}}]}`, string(result.encode()))
}

// A document that the engine fails on would have its bulk refused for ever.
func TestAnInternalErrorThatComesAgainIsAboutTheDocument(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken, s.crash = breakConnection, 3
	resp, _ := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "a node that stops gives such errors, too")
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Regexp(t, `"errors":true,"items":\[\{"index":.*201.*\{"create":.*500`, text)
	require.Len(t, s.stored(), 1)
}

// The first such error says nothing: what the engine stored when the client sent the bulk before is not known.
func TestAnInternalErrorCountsWhenItComesTwice(t *testing.T) {
	again := &repeatable{body: []byte(twoDocuments)}
	for _, final := range []bool{false, true} {
		result, ok := parseResult([]byte(`{"errors":true,"items":[{"create":{"_id":"P1","status":500,"error":{}}},{"create":{"_id":"P2","status":201}}]}`))
		require.True(t, ok)
		require.Equal(t, final, again.restore(result))
	}
}

// What is stored must not be refused for want of memory to read the answer.
func TestTheAnswerToARepeatedBulkIsReadInAnyCase(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken = breakConnection
	h.proxy.o.MaxHeldBodies = 64 << 10 // its answer has 20 kB, and is held four times
	resp, _ := h.do("POST", "/idx/_bulk", strings.Repeat("{\"index\":{}}\n{}\n", 200), "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), 200)
	require.Eventually(t, func() bool { return h.proxy.o.Held.Load() == 0 }, patience, time.Millisecond)
}

// Logstash and Beats ask for no more than errors and the status of each operation.
func TestARepeatedBulkIsAnsweredAsItIsFiltered(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, 10*time.Second })
	s.broken = breakConnection
	const uri = "/idx/_bulk?filter_path=errors,items.*.error,items.*.status"
	_, text := h.do("POST", uri, twoDocuments, "Content-Type", "application/x-ndjson")
	require.JSONEq(t, `{"errors":false,"items":[{"index":{"status":201}},{"create":{"status":201}}]}`, text)
	require.Len(t, s.stored(), 2)
	s.reject = 1
	_, text = h.do("POST", uri, twoDocuments, "Content-Type", "application/x-ndjson")
	require.JSONEq(t, `{"errors":false,"items":[{"index":{"status":201}},{"create":{"status":201}}]}`, text)
	require.Len(t, s.stored(), 4)
	h.seen()
	_, _ = h.do("POST", "/idx/_bulk?filter_path=errors", twoDocuments, "Content-Type", "application/x-ndjson")
	require.NotContains(t, h.seen()[0].body, "_id")
}

// The time that a bulk takes which is sent twice is not that of its shard.
func TestABulkThatIsSentTwiceTellsNothingOfItsShard(t *testing.T) {
	b := startBulks(t, 3, func(o *Options) { o.Bulk.Idempotent = true })
	b.answer = respond(http.StatusOK, itemsOf(5, 201))
	b.on(1, hangUp)
	for _, tells := range []bool{false, true} {
		resp, _ := b.do("POST", "/idx/_bulk", five)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Positive(t, b.documents()) // it has ended
		var sum time.Duration
		for _, took := range b.books.Look(b.index, 1, 1.5).Times() {
			sum += took
		}
		require.Equal(t, tells, sum > 0)
	}
}

// What is made longer by ids is held as it is sent, twice.
func TestIDsTakeMemory(t *testing.T) {
	short := strings.Repeat("{\"index\":{}}\n{}\n", heldScratch/10)
	for room, ids := range map[int]int{20: heldScratch / 10, 6: 0} {
		h, _ := startStore(t, func(b *Bulk) { b.Idempotent = true })
		h.proxy.o.MaxHeldBodies = int64(room * len(short))
		resp, _ := h.do("POST", "/idx/_bulk", short, "Content-Type", "application/x-ndjson")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, ids, strings.Count(h.seen()[0].body, `"_id"`))
	}
}

// Answers that are read whole take of the memory for bodies. One for which there is none passes.
func TestAnAnswerThatCannotBeHeldPasses(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, 10*time.Second })
	body := strings.Repeat("{\"index\":{}}\n{}\n", 200) // its answer has 20 kB
	for room, status := range map[int64]int{128 << 10: 201, 64 << 10: 429} {
		h.proxy.o.MaxHeldBodies = room
		s.reject = 200
		_, text := h.do("POST", "/idx/_bulk", body, "Content-Type", "application/x-ndjson")
		require.Equal(t, 200, strings.Count(text, fmt.Sprintf(`"status":%d`, status)), room)
	}
	require.Eventually(t, func() bool { return h.proxy.o.Held.Load() == 0 }, patience, time.Millisecond)
}

// A shard that refuses what it is sent is quick at that, also where the items cannot be counted.
func TestRefusalsTellNothingOfTheTime(t *testing.T) {
	rejected := strings.Replace(itemsOf(5, 429), "false", "true", 1)
	for name, c := range map[string]struct{ coding, answer, query string }{
		"plain": {"identity", rejected, ""}, "gzip": {"gzip", rejected, ""}, "filter_path": {"identity", `{"errors":true}`, "?filter_path=errors"},
		"filter_path without errors": {"identity", `{"took":1}`, "?filter_path=took"},
		"filter_path of statuses":    {"identity", strings.Replace(rejected, `"took":3,"errors":true,`, "", 1), "?filter_path=items.*.status"},
		"yaml":                       {"identity", "---\ntook: 3\nerrors: true\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBulks(t, 2, nil)
			b.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if c.coding != "gzip" {
					_, _ = io.WriteString(w, c.answer)
					return
				}
				w.Header().Set("Content-Encoding", c.coding)
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, c.answer)
				_ = z.Close()
			}
			resp, body := b.do("POST", "/idx/_bulk"+c.query, five, "Accept-Encoding", c.coding)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			if c.coding != "gzip" {
				require.Equal(t, c.answer, body)
			}
			b.documents() // it has ended
			require.Equal(t, []time.Duration{0, 0}, b.books.Look(b.index, 1, 1.5).Times())
		})
	}
}

// However little may be held, what is held can be repeated.
func TestABulkIsRepeatedHoweverLittleMayBeHeld(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	h.proxy.o.MaxHeldBody = int64(len(twoDocuments))
	s.broken = breakConnection
	resp, _ := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, s.stored(), 2)
}

// A block on an index, as where a disk is full, lasts for longer than a client is to wait.
func TestOperationsOnABlockedIndexAreNotSentAgain(t *testing.T) {
	h, _ := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, time.Minute })
	const item = `{"index":{"_index":"idx","_id":"1","status":429,"error":{"type":"cluster_block_exception","reason":"index [idx] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"}}}`
	const answer = `{"took":1,"errors":true,"items":[` + item + `,` + item + `]}`
	h.answer = respond(http.StatusOK, answer)
	resp, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.JSONEq(t, answer, text)
	require.Len(t, h.seen(), 1)
}

// A bulk that is refused again and again keeps no connection for each refusal until it is answered.
func TestARefusalThatIsFollowedByAnotherAttemptKeepsNoConnection(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent, b.RetryRejected = true, 10*time.Second })
	s.reject = 1
	closed := make(chan struct{})
	h.on(2, func(_ string, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_ = http.NewResponseController(w).Flush() // there may be more
		<-r.Context().Done()
		close(closed)
	})
	h.on(3, func(node string, w http.ResponseWriter, r *http.Request) {
		select {
		case <-closed:
			h.store(s)(node, w, r)
		case <-time.After(patience):
			w.WriteHeader(http.StatusInternalServerError)
		case <-r.Context().Done():
		}
	})
	_, text := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
	require.Contains(t, text, `"errors":false`)
}

// A bulk that the client sends again, and that goes to the shard of the first time, is one that was kept on a shard, too.
func TestABulkThatIsMatchedIsCountedAsKept(t *testing.T) {
	h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
	s.broken = func(w http.ResponseWriter) { http.Error(w, "upstream timed out", http.StatusGatewayTimeout) }
	for _, status := range []int{http.StatusGatewayTimeout, http.StatusOK} {
		resp, _ := h.do("POST", "/idx/_bulk", twoDocuments, "Content-Type", "application/x-ndjson")
		require.Equal(t, status, resp.StatusCode)
	}
	kept := func(o outcome) int { return tallied(h.proxy.metrics.requests, "bulk", reasonOneShard, string(o)) }
	require.Eventually(t, func() bool { return kept(outcomeEngineError) == 1 && kept(outcomeOK) == 1 }, patience, time.Millisecond)
	require.Equal(t, 2, tallied(h.proxy.metrics.bulk.bulks, bulkOneShard))
}

// A bulk of which the answer to a repetition could not be brought in order is not repeated: its client would be asked
// for it for ever.
func TestABulkWhoseItemsCannotBeMatchedGetsNoIDs(t *testing.T) {
	for name, body := range map[string]string{
		"an operation without its source": twoDocuments + "{\"index\":{}}\n", // engines ignore it
		"too many operations":             strings.Repeat("{\"index\":{}}\n{}\n", maxRepeated+1),
	} {
		h, s := startStore(t, func(b *Bulk) { b.Idempotent = true })
		h.proxy.o.MaxHeldBody = 2 * int64(len(body))
		s.broken = breakConnection
		resp, _ := h.do("POST", "/idx/_bulk", body, "Content-Type", "application/x-ndjson")
		require.Equal(t, http.StatusBadGateway, resp.StatusCode, name)
		seen := h.seen()
		require.Len(t, seen, 1)
		require.NotContains(t, seen[0].body, "_id", name)
	}
}
