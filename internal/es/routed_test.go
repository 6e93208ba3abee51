package es

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadRouted(t *testing.T) {
	for _, tc := range []struct {
		method, path, query string
		want                Routed
	}{
		{"GET", "/orders/_search", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/_search", "size=3&routing=a%2Cb", Routed{Kind: RoutedSearch, Routing: "a,b"}},
		{"GET", "/orders/_search", "", Routed{Kind: RoutedSearch, Target: "orders"}},
		{"GET", "/orders/_count", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"GET", "/orders/type/_search", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_search/template", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_async_search", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/_async_search", "index=orders&routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_pit", "keep_alive=1m&routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_search/point_in_time", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_delete_by_query", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_update_by_query", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/order/_delete_by_query", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_fleet/_fleet_search", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_fleet/_fleet_msearch", "routing=x", Routed{Kind: RoutedItems, Target: "orders", Routing: "x"}},
		{"GET", "/orders/_search_shards", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"GET", "/_search_shards", "routing=x", Routed{Kind: RoutedSearch, Routing: "x"}},
		{"GET", "/orders/_search", "routing=x&routing=y", Routed{Kind: RoutedSearch, Target: "orders", Routing: "y", Doubtful: true}},
		{"GET", "/orders/_search", "routing=%zz", Routed{Kind: RoutedSearch, Target: "orders", Doubtful: true}},
		{"GET", "/orders/_search", "index=b&routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x", Doubtful: true}},
		{"GET", "/orders-*/_search", "expand_wildcards=all&routing=x", Routed{Kind: RoutedSearch, Target: "orders-*", Routing: "x", Doubtful: true}},
		{"POST", "/orders/_msearch", "routing=x", Routed{Kind: RoutedItems, Target: "orders", Routing: "x"}},
		{"GET", "/orders/_doc/1", "routing=x", Routed{Kind: RoutedByID, Target: "orders", Routing: "x"}},
		{"PUT", "/orders/_doc/_delete_by_query", "routing=x", Routed{Kind: RoutedByID, Target: "orders", Routing: "x"}},
		{"GET", "/orders/_doc/_count", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_doc/_count", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_doc/_delete_by_query", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_doc/_update_by_query", "routing=x", Routed{Kind: RoutedSearch, Target: "orders", Routing: "x"}},
		{"GET", "/orders/_doc/_msearch", "routing=x", Routed{Kind: RoutedItems, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_doc/_msearch", "routing=x", Routed{Kind: RoutedItems, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_doc/_msearch/template", "routing=x", Routed{Kind: RoutedItems, Target: "orders", Routing: "x"}},
		{"PUT", "/orders/_doc/_count", "routing=x", Routed{Kind: RoutedByID, Target: "orders", Routing: "x"}},
		{"DELETE", "/orders/_doc/_msearch", "routing=x", Routed{Kind: RoutedByID, Target: "orders", Routing: "x"}},
		{"GET", "/orders/_doc/_update_by_query", "routing=x", Routed{Kind: RoutedByID, Target: "orders", Routing: "x"}},
		{"GET", "/orders/_doc/_counts", "routing=x", Routed{Kind: RoutedByID, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_update/1", "routing=x", Routed{Kind: RoutedByID, Target: "orders", Routing: "x"}},
		{"DELETE", "/orders/_doc/_search_shards", "routing=x", Routed{Kind: RoutedByID, Target: "orders", Routing: "x"}},
		{"POST", "/orders/_doc", "routing=x", Routed{}},
		{"POST", "/orders/_bulk", "routing=x", Routed{}},
		{"POST", "/_search/scroll", "routing=x", Routed{}},
		{"GET", "/", "routing=x", Routed{}},
		{"PUT", "/orders", "routing=x", Routed{}},
	} {
		require.Equal(t, tc.want, ReadRouted(tc.method, tc.path, tc.query), "%s %s?%s", tc.method, tc.path, tc.query)
	}
}

func TestEditRouting(t *testing.T) {
	for _, tc := range []struct{ query, added, dropped string }{
		{"routing=x", "routing=x,2,5", ""},
		{"a=%zz&routing=a%2Cb;size=3", "a=%zz&routing=a%2Cb,2,5;size=3", "a=%zz&;size=3"},
		{"routing=&=routing=y", "routing=,2,5&=routing=y,2,5", "&="},
		{"r%6futing=x#f", "r%6futing=x#f,2,5", ""},
		{"size=3", "size=3", "size=3"},
		{"", "", ""},
	} {
		require.Equal(t, tc.added, AddRouting(tc.query, []string{"2", "5"}))
		require.Equal(t, tc.dropped, DropRouting(tc.query))
	}
}

func TestLocalTarget(t *testing.T) {
	for target, want := range map[string]string{
		"": "", "a,b-*": "a,b-*", "a,far:a": "a", "<a-{now/d{yyyy|+01:00}}>": "<a-{now/d{yyyy|+01:00}}>", "far:a": "", "a::data,far:b,c": "a,c",
	} {
		got, local := LocalTarget(target)
		require.Equal(t, want, got, target)
		require.Equal(t, target != "far:a", local, target)
	}
}

func TestHeaderRouting(t *testing.T) {
	line := Routed{Target: "default", Routing: "d"}
	for _, tc := range []struct{ header, target, routing, with, without string }{
		{``, "default", "d", `{"routing":"n,2"}`, `{"routing":null}`},
		{`{}`, "default", "d", `{"routing":"n,2"}`, `{"routing":null}`},
		{`{"index":"a"}`, "a", "d", `{"index":"a","routing":"n,2"}`, `{"index":"a","routing":null}`},
		{`{"unknown":1}`, "default", "d", `{"unknown":1,"routing":"n,2"}`, `{"unknown":1,"routing":null}`},
		{`{"index":["a","b"], "routing" : "x" }` + "\r", "a,b", "x", `{"index":["a","b"], "routing" : "n,2" }` + "\r", `{"index":["a","b"], "routing" : null }` + "\r"},
		{`{"routing":"x","index":"a"}`, "a", "x", `{"routing":"n,2","index":"a"}`, `{"routing":null,"index":"a"}`},
		{`{"routing":17,"unknown":[1]}`, "default", "17", `{"routing":"n,2","unknown":[1]}`, `{"routing":null,"unknown":[1]}`},
		{`{"routing":null}`, "default", "", `{"routing":"n,2"}`, `{"routing":null}`},
	} {
		h, ok := ReadHeaderRouting([]byte(tc.header), line)
		require.True(t, ok, tc.header)
		require.Equal(t, tc.target, h.Target, tc.header)
		require.Equal(t, tc.routing, h.Routing, tc.header)
		require.False(t, h.Doubtful)
		require.Equal(t, tc.with, string(h.With([]byte(tc.header), "n,2")))
		require.Equal(t, tc.without, string(h.With([]byte(tc.header), "")))
	}
	h, ok := ReadHeaderRouting([]byte(`{"index":"a*","expand_wildcards":"all"}`), line)
	require.True(t, ok && h.Doubtful)
	for _, header := range []string{
		` `, `{`, `[]`, `{"routing":1.5}`, `{"routing":["a"]}`, `{"routing":true}`, `{"routing":"a","routing":"b"}`, `{"index":7}`, `{"routing":"\ud800"}`,
	} {
		_, ok := ReadHeaderRouting([]byte(header), line)
		require.False(t, ok, header)
	}
}

func FuzzHeaderRouting(f *testing.F) {
	f.Add([]byte(`{"index":["a","b"], "routing" : "x" }`))
	f.Fuzz(func(t *testing.T, line []byte) {
		h, ok := ReadHeaderRouting(line, Routed{Target: "t", Routing: "d"})
		if !ok {
			return
		}
		again, ok := ReadHeaderRouting(h.With(line, "n,\"2"), Routed{})
		require.True(t, ok, "%s", h.With(line, "n"))
		require.Equal(t, "n,\"2", again.Routing)
		if len(line) > 0 {
			var before, after map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(line, &before))
			require.NoError(t, json.Unmarshal(h.With(line, ""), &after))
			require.Equal(t, "null", string(after["routing"]))
		}
	})
}

func TestBulkActionRouting(t *testing.T) {
	for line, want := range map[string]string{
		`{"index":{"routing":"x","_index":"a"}}`: "x", `{"index":{"_index":"a", "routing" : 17 }}`: "17", `{"create":{"routing":"\u0061,b"}}`: "a,b",
		`{"index":{"routing":""}}`: "", `{"index":{"routing":null}}`: "", `{"index":{"routing":1.5}}`: "", `{"index":{"routing":["a"]}}`: "", `{"index":{"routing":"a","routing":"b"}}`: "",
	} {
		a, ok := ReadBulkAction([]byte(line))
		require.True(t, ok, line)
		require.NotZero(t, a.Fields&BulkRouting, line)
		require.Equal(t, want, a.Routing, line)
		if want != "" {
			var value any
			require.NoError(t, json.Unmarshal([]byte(line[a.RoutingFrom:a.RoutingTo]), &value), line)
		}
	}
}
