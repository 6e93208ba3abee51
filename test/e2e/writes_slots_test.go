package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// Clients write bulks of documents with routings of their own, some while the index is not
// known yet. Whoever reads by routing finds all of them, on half of the shards.
func testLogicalShards(t *testing.T, f *harness.Front) {
	const index, customers = "slots-orders", 9
	create(t, index)
	l := &ledger{}
	of := make(map[string][]int) // numbers of documents by customer
	next := func(int) *sentBulk {
		b := newBulk(index)
		for i := range 5 * customers {
			o := l.add("")
			l.mu.Lock()
			o.routing = fmt.Sprintf("customer-%d", i%customers)
			of[o.routing] = append(of[o.routing], o.n)
			l.mu.Unlock()
			b.operations = append(b.operations, o)
		}
		return b
	}
	require.Eventually(t, func() bool {
		b := next(0)
		require.NoError(t, b.send(t.Context(), client, f.URL))
		b.requireKept(t)
		return b.reason == "one_slot"
	}, patience, 50*time.Millisecond, "bulks are not planned")
	for _, b := range sendBulks(t, f, 4, 10, next) {
		require.Equal(t, "one_slot", b.reason)
		b.requireKept(t)
	}
	change(t, http.MethodPost, "/"+index+"/_refresh", nil)

	for customer, numbers := range of {
		query := encode(object{"query": object{"terms": object{"n": numbers}}, "size": 0, "track_total_hits": true})
		count := encode(object{"query": object{"terms": object{"n": numbers}}})
		want := fmt.Sprintf(`"value":%d`, len(numbers))
		shards := fmt.Sprintf(`"total":%d`, wholeShards/slotSize)

		got := ask(t, f, search{path: "/" + index + "/_search", query: "routing=" + customer, body: query})
		require.Contains(t, got, want)
		require.Contains(t, got, shards)
		got = ask(t, f, search{path: "/slots-*/_count", query: "routing=" + customer, body: count})
		require.Contains(t, got, fmt.Sprintf(`"count":%d`, len(numbers)))
		require.Contains(t, got, shards)
		got = ask(t, f, search{
			path: "/_msearch", headers: map[string]string{"Content-Type": "application/x-ndjson"},
			body: encode(object{"index": index, "routing": customer}) + "\n" + query + "\n",
		})
		require.Contains(t, got, want)
		require.Contains(t, got, shards)
	}
	// A header with null in place of a routing means all shards.
	got := ask(t, f, search{
		path: "/_msearch", query: "routing=x", headers: map[string]string{"Content-Type": "application/x-ndjson"},
		body: `{"index":"` + index + `","routing":null}` + "\n" + `{"size":0}` + "\n",
	})
	require.Contains(t, got, fmt.Sprintf(`"total":%d`, wholeShards))

	if lacks(t, "_delete_by_query", search{path: "/" + index + "/_delete_by_query", body: `{"query":{"match_none":{}}}`}) {
		return
	}
	for customer, numbers := range of {
		got := ask(t, f, search{
			path: "/" + index + "/_delete_by_query", query: "refresh=true&routing=" + customer,
			body: encode(object{"query": object{"terms": object{"n": numbers}}}),
		})
		require.Contains(t, got, fmt.Sprintf(`"deleted":%d`, len(numbers)))
	}
	require.Empty(t, primaries(t, index))
}

// ask sends a request through sidestep and returns the body of the answer, without spaces.
func ask(t *testing.T, f *harness.Front, s search) string {
	t.Helper()
	a, err := sendBy(t.Context(), client, f.URL, s)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	return strings.ReplaceAll(string(a.body), " ", "")
}
