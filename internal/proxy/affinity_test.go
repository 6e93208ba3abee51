package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
)

func TestAffinityKey(t *testing.T) {
	some := newAffinity(Affinity{Strings: true, Indices: []string{"products", "logs-*", "a.b"}})
	all := newAffinity(Affinity{Strings: true, Indices: []string{"*"}})
	none := newAffinity(Affinity{Strings: true})
	for _, tc := range []struct {
		name    string
		of      affinity
		request es.Request
		sticky  string // what it sticks to as an index, empty if to nothing
	}{
		{"name", some, es.Request{Target: "products"}, "products"},
		{"pattern", some, es.Request{Target: "logs-2026"}, "logs-2026"},
		{"a pattern of the client's", some, es.Request{Target: "logs-*"}, "logs-*"},
		{"date math", some, es.Request{Target: "logs-<{now/d}>"}, "logs-<{now/d}>"},
		{"with routing", some, es.Request{Target: "products", Routing: "x"}, "products"},
		{"list of which all match", some, es.Request{Target: "products,logs-a"}, "products,logs-a"},
		{"list of which one does not", some, es.Request{Target: "products,users"}, ""},
		{"list with exclusion", some, es.Request{Target: "logs-*,-logs-old"}, "logs-*,-logs-old"},
		{"begins alike", some, es.Request{Target: "products-old"}, ""},
		{"ends alike", some, es.Request{Target: "old-products"}, ""},
		{"a dot is a dot", some, es.Request{Target: "axb"}, ""},
		{"all indices", some, es.Request{}, ""},
		{"scroll", some, es.Request{Target: "products", Scroll: true}, ""},
		{"any", all, es.Request{Target: "users"}, "users"},
		{"any and all", all, es.Request{Target: "_all"}, "_all"},
		{"no patterns", none, es.Request{Target: "products"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, sticky := tc.of.key(tc.request)
			require.Equal(t, tc.sticky != "", sticky)
			if sticky {
				require.Equal(t, hash(tc.sticky), key)
			} else {
				require.Zero(t, key)
			}
			tc.request.Preference = "user-7"
			key, sticky = tc.of.key(tc.request)
			require.Equal(t, hash("user-7"), key, "a string of the client's own comes first")
			require.False(t, sticky)
		})
	}
}

// TestHashIsFixed pins the hash: sidesteps of two versions side by side must send
// the same string to the same copies.
func TestHashIsFixed(t *testing.T) {
	require.Equal(t, uint64(0xcbf29ce484222325), hash(""))
	require.Equal(t, uint64(0xaf63dc4c8601ec8c), hash("a"))
	require.Equal(t, uint64(0x85944171f73967e8), hash("foobar"))
}

func TestStringsAreLeftToTheEngineUnlessAskedFor(t *testing.T) {
	request := es.Request{Operation: es.Search, Preference: "user-7"}
	require.True(t, newAffinity(Affinity{}).passes(request))
	require.False(t, newAffinity(Affinity{Strings: true}).passes(request))
	require.False(t, newAffinity(Affinity{}).passes(es.Request{Operation: es.Search}))
	request.Pass = es.PassRemoteTarget
	require.False(t, newAffinity(Affinity{}).passes(request), "it has its reason")
}

func TestCustomStringsAreReplacedByTheirCopies(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.Affinity = Affinity{Strings: true} })
	h.slow(1)
	for _, tc := range []struct{ uri, want, reason string }{
		{"/idx/_search?preference=user-7", "/idx/_search?preference=_only_nodes:id-a,id-c", "affinity"},
		{"/idx/_search?preference=user%207&q=x", "/idx/_search?preference=_only_nodes:id-a,id-c&q=x", "affinity"},
		{"/idx/_search?preference=_local;preference=b", "/idx/_search?preference=_only_nodes:id-a,id-c;preference=_only_nodes:id-a,id-c", "affinity"},
		{"/idx/_search?preference=x&filter_path=hits", "/idx/_search?preference=_prefer_nodes:id-a,id-c&filter_path=hits", "affinity"},
		{"/_search?preference=x", "/_search?preference=_only_nodes:id-a,id-c", "affinity"},
		{"/idx/_search?preference=", "/idx/_search?preference=_only_nodes:id-a,id-c", "ranked"},
		{"/idx/_search?preference=b;preference=_local", "/idx/_search?preference=b;preference=_local", "client_preference"},
		{"/idx/_search?preference=_shards:0%7Cb", "/idx/_search?preference=_shards:0%7Cb", "client_preference"},
		{"/idx/_search?preference=b&scroll=1m", "/idx/_search?preference=b&scroll=1m", "client_preference"},
		{"/lone/_search?preference=b", "/lone/_search?preference=b", "no_choice"},
		{"/never-seen/_search?preference=b", "/never-seen/_search?preference=b", "unknown_target"},
	} {
		t.Run(tc.uri, func(t *testing.T) {
			resp, _ := h.do("POST", tc.uri, `{}`, explainHeader, "1")
			require.Contains(t, resp.Header.Get(decisionHeader), "reason="+tc.reason+";")
			seen := h.seen()
			require.Len(t, seen, 1)
			require.Equal(t, tc.want, seen[0].uri)
		})
	}
	resp, _ := h.do("POST", "/_search?preference=b", `{"pit":{"id":"x"}}`, explainHeader, "1")
	require.Contains(t, resp.Header.Get(decisionHeader), "reason=pit;")
}

func TestCustomStringsAreTheEnginesWhileNobodyStandsOut(t *testing.T) {
	h := start(t, 3, func(o *Options) {
		o.Affinity, o.When = Affinity{Strings: true, Indices: []string{"logs-*"}}, WhenOutlier
	})
	h.slow()
	for uri, reason := range map[string]string{
		"/idx/_search?size=1;preference=user%207": "no_outlier",
		"/idx/_search":    "no_outlier",
		"/logs-*/_search": "affinity",
	} {
		resp, _ := h.do("POST", uri, `{}`, explainHeader, "1")
		require.Contains(t, resp.Header.Get(decisionHeader), "reason="+reason+";", uri)
		if reason == "no_outlier" {
			require.Equal(t, uri, h.seen()[0].uri)
		} else {
			require.Contains(t, h.seen()[0].uri, "preference=_only_nodes:")
		}
	}
}

func TestTheLastAttemptHasTheClientsString(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.Affinity = Affinity{Strings: true} })
	h.slow(1)
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "_only_nodes") {
			respond(http.StatusServiceUnavailable, `{"error":{},"status":503}`)(node, w, r)
			return
		}
		respond(http.StatusOK, complete)(node, w, r)
	}
	resp, body := h.do("POST", "/idx/_search?preference=user%207", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)
	seen := h.seen()
	require.Greater(t, len(seen), 1)
	require.Equal(t, "/idx/_search?preference=user%207", seen[len(seen)-1].uri)
}
