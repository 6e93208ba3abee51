package proxy

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
)

// Answers of which a shard is missing that had no copy to ask: as OpenSearch, and Elasticsearch before 8.0, gives them, and
// as Elasticsearch has since.
const (
	missing = `{"took":3,"timed_out":false,"_shards":{"total":3,"successful":2,"skipped":0,"failed":0},"hits":{"hits":[]}}`
	noCopy  = `{"took":3,"timed_out":false,"_shards":{"total":3,"successful":2,"skipped":0,"failed":1,"failures":[{"shard":0,"index":"idx","node":null,"reason":{"type":"no_shard_available_action_exception","reason":null}}]},"hits":{"hits":[]}}`
	// unlisted is of a client that does not want to read of failures.
	unlisted = `{"took":3,"_shards":{"total":3,"successful":2,"skipped":0,"failed":1},"hits":{"hits":[]}}`
)

// A search without a result of shards that had no copy to ask is sent as the client wrote it, and once
// more after a while: a node may be coming back. No node is at fault. Where shards failed the answer to the client's own
// search stands.
func TestASearchOfShardsWithoutACopyIsSentOnceMore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bad, want string
		badFor    int64 // attempts
	}{
		{missing, complete, 2}, {noCopy, complete, 2}, // with the list, and without
		{missing, missing, 3}, {noCopy, noCopy, 3}, // and once more
		{partial(1, "id-a"), partial(1, "id-a"), 3}, {unlisted, unlisted, 3}, // two lists, and without
	} {
		h := start(t, 3, nil) // without a hedge budget: a second attempt would be counted, too
		h.slow(1)
		var sent atomic.Int64
		h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
			if sent.Add(1) <= c.badFor {
				respond(http.StatusOK, c.bad)(node, w, r)
				return
			}
			respond(http.StatusOK, complete)(node, w, r)
		}
		for range 3 {
			sent.Store(0)
			resp, body := h.do("POST", "/idx/_search", `{}`)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, c.want, body)
			require.LessOrEqual(t, sent.Load(), int64(3))
		}
		for _, n := range h.proxy.view.Load().nodes {
			require.NotEqual(t, selection.Failing, n.State(), "%s came of no fault of a node", c.bad)
		}
	}
}

// What is sent once more must be better than a result without some shards.
func TestAnErrorDoesNotReplaceAResultWithoutSomeShards(t *testing.T) {
	h := start(t, 3, nil)
	h.slow()
	var sent atomic.Int64
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if sent.Add(1) <= 2 {
			respond(http.StatusOK, missing)(node, w, r)
			return
		}
		respond(http.StatusServiceUnavailable, `{"status":503}`)(node, w, r)
	}
	resp, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, missing, body)
	require.EqualValues(t, 3, sent.Load())
}

// A search without a list is the client's own: it is not sent again at once. The placement is read anew.
func TestASearchWithoutAListIsSentOnceMoreAfterAWhile(t *testing.T) {
	var refreshed, sent atomic.Int64
	h := start(t, 3, func(o *Options) {
		o.When = WhenOutlier
		o.Refresh = func() { refreshed.Add(1) }
	})
	h.measured()
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if sent.Add(1) == 1 {
			respond(http.StatusOK, missing)(node, w, r)
			return
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	began := time.Now()
	_, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, complete, body)
	require.EqualValues(t, 2, sent.Load())
	require.EqualValues(t, 1, refreshed.Load())
	require.GreaterOrEqual(t, time.Since(began), 250*time.Millisecond)
}
