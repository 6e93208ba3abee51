package proxy

import (
	"net/http"
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
