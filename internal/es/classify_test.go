package es

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// search is a request line and what it says.
type search struct {
	line string // method, path and query as on the request line
	want Request
}

func requireSearches(t *testing.T, searches []search) {
	t.Helper()
	for i := range searches {
		searches[i].want.Operation = Search
	}
	requireRequests(t, searches)
}

func requireRequests(t *testing.T, requests []search) {
	t.Helper()
	for _, s := range requests {
		t.Run(s.line, func(t *testing.T) {
			method, uri, _ := strings.Cut(s.line, " ")
			path, query, _ := strings.Cut(uri, "?")
			require.Equal(t, s.want, Classify(method, path, query))
		})
	}
}

func TestClassifySearchTarget(t *testing.T) {
	requireSearches(t, []search{
		{"GET /_search", Request{}},
		{"POST /logs/_search/", Request{Target: "logs"}},
		{"GET /logs-*,-logs-old/_search?size=0", Request{Target: "logs-*,-logs-old"}},
		{"GET /logs-a%2Clogs-b/_search", Request{Target: "logs-a,logs-b"}},
		{"GET /_all/_search", Request{Target: "_all"}},
		{"GET /%3Clogs-%7Bnow%2Fd%7D%3E/_search", Request{Target: "<logs-{now/d}>"}},
		{"GET /%3Clogs-%7Bnow%2Fd%7Byyyy.MM.dd%7C%2B12:00%7D%7D%3E,-%3Ca-%7Bnow%7Byyyy%7C01:00%7D%7D%3E/_search",
			Request{Target: "<logs-{now/d{yyyy.MM.dd|+12:00}}>,-<a-{now{yyyy|01:00}}>"}},
		{"GET /a+b/_search", Request{Target: "a+b"}},
		{"GET /caf%C3%A9/_search", Request{Target: "café"}},
	})
}

func TestClassifySearchParameters(t *testing.T) {
	requireSearches(t, []search{
		{"POST /logs/_search?typed_keys=true&routing=user+17%2Cuser18", Request{Target: "logs", Routing: "user 17,user18"}},
		{"POST /logs/_search?pretty;routing=a", Request{Target: "logs", Routing: "a"}},
		{"POST /logs/_search?%72outing=100%%", Request{Target: "logs", Routing: "100%"}},
		{"POST /logs/_search?==routing==a", Request{Target: "logs", Routing: "=a"}},
		{"POST /logs/_search?routing", Request{Target: "logs"}},
		{"POST /logs/_search?scroll=1m&size=1000", Request{Target: "logs", Scroll: true}},
		{"POST /logs/_search?preference=", Request{Target: "logs"}},
		{"POST /logs/_search?q=message:preference=x", Request{Target: "logs"}},
		{"POST /logs/_search?q=%zz", Request{Target: "logs"}},
		{"POST /logs/_search?source=%7B%7D&source_content_type=application/json", Request{Target: "logs"}},
		{"POST /logs/_search?filter_path=hits.hits._source", Request{Target: "logs", Unverifiable: true}},
		{"POST /logs/_search?filter_path=took,_shards,hits", Request{Target: "logs"}},
		{"POST /logs/_search?filter_path=took,_shards.failed,hits", Request{Target: "logs", Unverifiable: true}},
		{"POST /logs/_search?filter_path=_shards", Request{Target: "logs"}},
		{"POST /logs/_search?filter_path=**", Request{Target: "logs"}},
		{"POST /logs/_search?filter_path=_shards,-hits", Request{Target: "logs", Unverifiable: true}},
		{"POST /logs/_search?filter_path=-_shards", Request{Target: "logs", Unverifiable: true}},
		{"POST /logs/_search?filter_path", Request{Target: "logs", Unverifiable: true}},
		{"POST /logs/_search?filter_path=_shards&filter_path=took", Request{Target: "logs", Unverifiable: true}},
		{"POST /logs/_search?format=yaml", Request{Target: "logs", Unverifiable: true}},
		{"POST /logs/_search?format=", Request{Target: "logs", Unverifiable: true}},
		{"POST /logs/_search?format=json", Request{Target: "logs"}},
	})
}

func TestClassifySearchWithPreference(t *testing.T) {
	requireSearches(t, []search{
		{"GET /logs/_search?preference=_local", Request{Target: "logs", Preference: "_local", Pass: PassClientPreference}},
		{"GET /logs/_search?preference=%5Flocal", Request{Target: "logs", Preference: "_local", Pass: PassClientPreference}},
		{"GET /logs/_search?preference=_shards:0", Request{Target: "logs", Preference: "_shards:0", Pass: PassClientPreference}},
		{"GET /logs/_search?preference=_shards:0%7Cuser", Request{Target: "logs", Preference: "_shards:0|user", Pass: PassClientPreference}},
		{"GET /logs/_search?preference=_nonsense", Request{Target: "logs", Preference: "_nonsense", Pass: PassClientPreference}},
		{"GET /logs/_search?preference=user%2017", Request{Target: "logs", Preference: "user 17"}},
		{"GET /logs/_search?preference=user_17", Request{Target: "logs", Preference: "user_17"}},
		{"GET /logs/_search?preference=%20_local", Request{Target: "logs", Preference: " _local"}},
		{"GET /_search?a;%70reference=x", Request{Preference: "x"}},
		{"GET /_search?=preference=x", Request{Preference: "x"}},
		{"GET /_search?preference==x", Request{Preference: "=x"}},
		{"GET /_search?preference=a&preference=b", Request{Preference: "b"}},
		{"GET /_search?preference=_local&preference=b", Request{Preference: "b"}},
		{"GET /_search?preference=a&preference=_local", Request{Preference: "_local", Pass: PassClientPreference}},
		{"GET /_search?preference=a&preference=", Request{}},
		{"GET /_search?preference=&preference=", Request{}},
		{"GET /_search?preference=%&preference=a", Request{Preference: "a", Pass: PassAmbiguousQuery}},
		{"GET /logs/_search?preference=x&scroll=1m", Request{Target: "logs", Preference: "x", Scroll: true, Pass: PassClientPreference}},
		{"GET /logs/_search?preference=x&filter_path=hits", Request{Target: "logs", Preference: "x", Unverifiable: true}},
		{"GET /far:logs/_search?preference=x", Request{Target: "far:logs", Preference: "x", Pass: PassRemoteTarget}},
		{"GET /_search?preference=x&source=%7B%7D", Request{Preference: "x", Pass: PassUnreadableBody}},
		{"GET /_search?routing=a;routing=b", Request{Routing: "b", Pass: PassAmbiguousQuery}},
		{"GET /_search?preference=%", Request{Pass: PassAmbiguousQuery}},
		{"GET /_search?routing=%4", Request{Pass: PassAmbiguousQuery}},
		{"GET /_search?routing=%FF", Request{Pass: PassAmbiguousQuery}},
		{"GET /_search?routing=é", Request{Pass: PassAmbiguousQuery}},
		{"GET /_search?%zz=1", Request{Pass: PassAmbiguousQuery}},
		{"GET /_search?size=1#preference=x", Request{Pass: PassAmbiguousQuery}},
		{"GET /lo%gs/_search", Request{Pass: PassAmbiguousQuery}},
		{"GET /logs#a/_search", Request{Target: "logs#a", Pass: PassAmbiguousQuery}},
		{"GET /_search?index=logs", Request{Pass: PassAmbiguousQuery}},
		{"GET /,/_search", Request{Target: ",", Pass: PassAmbiguousQuery}},
	})
}

func TestClassifySearchThatPasses(t *testing.T) {
	requireSearches(t, []search{
		{"GET /remote:logs/_search", Request{Target: "remote:logs", Pass: PassRemoteTarget}},
		{"GET /logs,*:logs/_search", Request{Target: "logs,*:logs", Pass: PassRemoteTarget}},
		{"GET /remote%3Alogs/_search", Request{Target: "remote:logs", Pass: PassRemoteTarget}},
		{"GET /remote:%3Clogs-%7Bnow%2Fd%7D%3E/_search", Request{Target: "remote:<logs-{now/d}>", Pass: PassRemoteTarget}},
		{"GET /logs::failures/_search", Request{Target: "logs::failures", Pass: PassRemoteTarget}},
		{"GET /logs/_search?project_routing=_alias:x", Request{Target: "logs", Pass: PassRemoteTarget}},
		{"GET /_search?source=%7B%22pit%22:1%7D&source_content_type=application/json", Request{Pass: PassUnreadableBody}},
		{"GET /twitter/tweet/_search", Request{Target: "twitter", Pass: PassTypedPath}},
		{"GET /twitter/_doc/_search?preference=x", Request{Target: "twitter", Preference: "x", Pass: PassTypedPath}},
		{"GET /logs-*/_search?expand_wildcards=all", Request{Target: "logs-*", Pass: PassIndicesOptions}},
		{"GET /_search?expand_wildcards=open,hidden", Request{Pass: PassIndicesOptions}},
		{"GET /logs-*/_search?expand_wildcards=open&ignore_throttled=true", Request{Target: "logs-*"}},
		{"GET /_all/_search?ignore_throttled=false", Request{Target: "_all", Pass: PassIndicesOptions}},
		{"GET /logs/_search?expand_wildcards=all&ignore_unavailable=true", Request{Target: "logs"}},
	})
}

func TestClassifyOtherOperations(t *testing.T) {
	requireRequests(t, []search{
		{"POST /logs/_count?routing=a", Request{Operation: Count, Target: "logs", Routing: "a"}},
		{"GET /_count?source=%7B%7D", Request{Operation: Count}},
		{"GET /logs/type/_count", Request{Operation: Count, Target: "logs", Pass: PassTypedPath}},
		{"POST /remote:logs/_count", Request{Operation: Count, Target: "remote:logs", Pass: PassRemoteTarget}},
		{"POST /logs/_count?preference=session", Request{Operation: Count, Target: "logs", Preference: "session"}},
		{"POST /logs/_search/template", Request{Operation: SearchTemplate, Target: "logs"}},
		{"POST /logs/_search/template?scroll=1m", Request{Operation: SearchTemplate, Target: "logs", Scroll: true}},
		{"POST /_search/template", Request{Operation: SearchTemplate, Pass: PassUnreadableBody}},
		{"POST /logs/_pit?keep_alive=1m", Request{Operation: PIT, Target: "logs"}},
		{"POST /logs/_pit?keep_alive=1m&preference=session", Request{Operation: PIT, Target: "logs", Preference: "session", Pass: PassClientPreference}},
		{"POST /logs-*/_search/point_in_time?keep_alive=1m&expand_wildcards=all", Request{Operation: PIT, Target: "logs-*", Pass: PassIndicesOptions}},
		{"POST /logs/_async_search?filter_path=response", Request{Operation: AsyncSearch, Target: "logs", Unverifiable: true}},
		{"POST /_async_search", Request{Operation: AsyncSearch}},
		{"POST /_async_search?source=%7B%7D", Request{Operation: AsyncSearch, Pass: PassUnreadableBody}},
		{"POST /_plugins/_asynchronous_search?index=logs-%2A,b", Request{Operation: AsyncSearch, Target: "logs-*,b"}},
		{"POST /_plugins/_asynchronous_search?index=remote:a", Request{Operation: AsyncSearch, Target: "remote:a", Pass: PassRemoteTarget}},
		{"POST /_plugins/_asynchronous_search?index=a&index=b", Request{Operation: AsyncSearch, Target: "b", Pass: PassAmbiguousQuery}},
		{"POST /logs/_plugins/_asynchronous_search", Request{Operation: AsyncSearch, Target: "logs"}},
		{"POST /logs/_async_search?index=b", Request{Operation: AsyncSearch, Target: "logs", Pass: PassAmbiguousQuery}},
		{"GET /logs/_count?index=b", Request{Operation: Count, Target: "logs", Pass: PassAmbiguousQuery}},
	})
}

// TestOperationsSet keeps the closed set and what is said of it together.
func TestOperationsSet(t *testing.T) {
	steered := map[Steering][]Operation{}
	for _, op := range Operations() {
		steered[op.Steering()] = append(steered[op.Steering()], op)
		require.True(t, !op.TakesPIT() || op.Steering() != SteerNone)
	}
	require.Equal(t, []Operation{Search, SearchTemplate, Count}, steered[SteerSearch])
	require.Equal(t, []Operation{AsyncSearch, PIT}, steered[SteerOnce])
}

func TestClassifySearchOfKnownClients(t *testing.T) {
	requireSearches(t, []search{
		{"POST /my-index-000001/_search?typed_keys=true", Request{Target: "my-index-000001"}},
		{"POST /kibana_sample_data_logs/_search?ignore_unavailable=true&track_total_hits=true&timeout=30000ms&preference=1663934400000",
			Request{Target: "kibana_sample_data_logs", Preference: "1663934400000"}},
		{"POST /products/_search?rest_total_hits_as_int=true&allow_partial_search_results=true&ccs_minimize_roundtrips=false&batched_reduce_size=512&search_type=query_then_fetch",
			Request{Target: "products"}},
	})
}

func TestAcceptsJSON(t *testing.T) {
	tests := []struct {
		accept string
		want   bool
	}{
		{"", true},
		{" ", true},
		{"*/*", true},
		{"application/*", true},
		{"application/json", true},
		{"Application/JSON; charset=UTF-8", true},
		{"application/vnd.elasticsearch+json;compatible-with=8", true},
		{"application/vnd.elasticsearch+json; compatible-with=7", true},
		{"application/json, text/plain, */*", true},
		{"application/json;q=0.9,*/*;q=0.1", true},
		{"application/yaml", false},
		{"application/cbor", false},
		{"application/smile", false},
		{"application/vnd.elasticsearch+cbor;compatible-with=8", false},
		{"application/json, application/cbor", false},
		{"application/x-ndjson", false},
		{"text/html,application/xhtml+xml,*/*;q=0.8", false},
		{"text/plain", false},
		{"json", false},
	}
	for _, tt := range tests {
		t.Run(tt.accept, func(t *testing.T) {
			require.Equal(t, tt.want, AcceptsJSON(tt.accept))
		})
	}
}

func TestClassifyDoesNotAllocate(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		Classify("POST", "/logs-a,logs-b/_search", "routing=user-17&size=10;pretty")
	}))
}

func FuzzClassify(f *testing.F) {
	f.Add("GET", "/logs-*,-logs-old/_search", "size=0&routing=a")
	f.Add("POST", "/_search/", "a;=preference=%%&scroll")
	f.Add("GET", "/%3Clogs-%7Bnow%2Fd%7D%3E/_search", "filter_path=_shards")
	f.Add("GET", "/a/b/_search", "preference")
	f.Add("DELETE", "/_search/point_in_time/_all", "")
	f.Add("GET", "/a:b,<c:d>/_search", "expand_wildcards=all#x")
	f.Add("GET", "/logs/_count", "q=a")
	f.Add("POST", "/logs/_search/template", "routing=a")
	f.Add("POST", "/logs/_pit", "keep_alive=1m")
	f.Add("POST", "/_plugins/_asynchronous_search", "index=logs")
	f.Fuzz(func(t *testing.T, method, path, query string) {
		r := Classify(method, path, query)
		if r.Operation.Steering() == SteerNone {
			require.Equal(t, Request{Operation: r.Operation, Pass: PassNotSteerable}, r)
			return
		}
		require.Contains(t, []string{"GET", "POST"}, method)
		require.True(t, utf8.ValidString(r.Target))
		if r.Pass != PassNone {
			return
		}
		require.NotContains(t, r.Preference[:min(1, len(r.Preference))], "_")
		values := func(name string) (found []string) {
			for _, p := range pairs(query) {
				if p.name == name {
					found = append(found, unescape(p.value))
				}
			}
			return found
		}
		require.NotContains(t, query, "#")
		given := values(preferenceParam)
		require.Equal(t, r.Preference, append([]string{""}, given...)[len(given)])
		require.Equal(t, r.Routing, strings.Join(values("routing"), "\x00"))
		require.Equal(t, r.Scroll, slices.ContainsFunc(pairs(query), func(p pair) bool { return p.name == "scroll" }))

		steered := r
		steered.Preference, steered.Pass = "_only_nodes:a,b", PassClientPreference
		require.Equal(t, steered, Classify(method, path, SetPreference(query, "_only_nodes:a,b")))
	})
}

func BenchmarkClassify(b *testing.B) {
	for _, bm := range []struct{ name, method, path, query string }{
		{"search", "POST", "/logs-a/_search", "typed_keys=true"},
		{"encoded", "POST", "/logs-a%2Clogs-b%2C-logs-old/_search", "routing=user%2017&size=10&track_total_hits=true"},
		{"bulk", "POST", "/logs-a/_bulk", "refresh=true"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Classify(bm.method, bm.path, bm.query)
			}
		})
	}
}

func TestClassifyMultiSearch(t *testing.T) {
	requireRequests(t, []search{
		{"POST /_msearch", Request{Operation: MSearch}},
		{"GET /a,b-*/_msearch?routing=r+1&max_concurrent_searches=2", Request{Operation: MSearch, Target: "a,b-*", Routing: "r 1", AtOnce: 2}},
		{"POST /a%2Cb/_msearch/template?typed_keys", Request{Operation: MSearchTemplate, Target: "a,b"}},
		{"POST /remote:a/_msearch", Request{Operation: MSearch, Target: "remote:a"}}, // an item may have a target of its own
		{"POST /a*/_msearch?expand_wildcards=all", Request{Operation: MSearch, Target: "a*", Expands: true}},
		{"POST /a/_msearch?filter_path=_shards", Request{Operation: MSearch, Target: "a", Unverifiable: true}},
		{"POST /a/_msearch?format=yaml", Request{Operation: MSearch, Target: "a", Unverifiable: true}},
		{"POST /a/_msearch?preference=x", Request{Operation: MSearch, Target: "a", Pass: PassAmbiguousQuery}},
		{"POST /_msearch?index=a", Request{Operation: MSearch, Pass: PassAmbiguousQuery}},
		{"POST /a/_msearch?routing=a&routing=b", Request{Operation: MSearch, Target: "a", Routing: "b", Pass: PassAmbiguousQuery}},
		{"POST /a/_msearch?source=%7B%7D", Request{Operation: MSearch, Target: "a", Pass: PassUnreadableBody}},
		{"POST /a/_msearch?project_routing=x", Request{Operation: MSearch, Target: "a", Pass: PassRemoteTarget}},
		{"POST /a/doc/_msearch", Request{Operation: MSearch, Target: "a", Pass: PassTypedPath}},
	})
}

func TestClassifyReadsByID(t *testing.T) {
	get := func(r Request) Request { r.Operation = Get; return r }
	requireRequests(t, []search{
		{"GET /logs/_doc/1", get(Request{Target: "logs", ID: "1"})},
		{"HEAD /logs/_source/1?routing=a", get(Request{Target: "logs", ID: "1", Routing: "a"})},
		{"GET /logs/_doc/a%2Fb+%C3%A4?realtime=false&version=3", get(Request{Target: "logs", ID: "a/b+ä"})},
		{"GET /logs/_doc/_xAzB09-", get(Request{Target: "logs", ID: "_xAzB09-"})},
		{"GET /logs/_doc/1?preference=session", get(Request{Target: "logs", ID: "1", Preference: "session"})},
		{"GET /logs/_doc/1?preference=_local", get(Request{Target: "logs", ID: "1", Preference: "_local", Pass: PassClientPreference})},
		{"GET /logs/_doc/1?routing=", get(Request{Target: "logs", ID: "1", Pass: PassAmbiguousQuery})},
		{"GET /logs/_doc/1?routing=a&routing=b", get(Request{Target: "logs", ID: "1", Routing: "b", Pass: PassAmbiguousQuery})},
		{"GET /logs/_doc/%FF", get(Request{Target: "logs", Pass: PassAmbiguousQuery})},
		{"GET /logs/_doc/_count", get(Request{Target: "logs", ID: "_count", Pass: PassTypedPath})},
		{"GET /other:logs/_doc/1", get(Request{Target: "other:logs", ID: "1", Pass: PassRemoteTarget})},
		{"POST /logs/_explain/1?q=x", Request{Operation: Explain, Target: "logs", ID: "1"}},
		{"GET /logs/_termvectors/1?fields=f", Request{Operation: TermVectors, Target: "logs", ID: "1"}},
		{"POST /_mget", Request{Operation: MGet}},
		{"POST /logs/_mget?routing=a", Request{Operation: MGet, Target: "logs", Routing: "a"}},
		{"POST /logs/tweet/_mget", Request{Operation: MGet, Target: "logs", Pass: PassTypedPath}},
		{"GET /logs/_mtermvectors?ids=1", Request{Operation: MTermVectors, Pass: PassNotSteerable}},
	})
}
