package es

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHideIDs(t *testing.T) {
	for path, want := range map[string]string{
		"":                                 "",
		"*":                                "*",
		"/":                                "/",
		"/_search":                         "/_search",
		"/logs-*,-old/_search":             "/logs-*,-old/_search",
		"/logs/_search?q=user:kim":         "/logs/_search",
		"/people/_doc/kim%40example.org":   "/people/_doc/{id}",
		"/people/_doc/_weird":              "/people/_doc/{id}",
		"/people/_doc/_count":              "/people/_doc/_count", // 7.x: an API below a type
		"/people/_source/kim":              "/people/_source/{id}",
		"/people/_update/kim/":             "/people/_update/{id}/",
		"/people/_explain/kim":             "/people/_explain/{id}",
		"/people/person/kim":               "/people/person/{id}",
		"/people/person/kim/_explain":      "/people/person/{id}/_explain",
		"/people/person/kim/_source":       "/people/person/{id}/_source",
		"/people/person/_search":           "/people/person/_search",
		"/people/_search/template":         "/people/_search/template",
		"/people/_alias/customers":         "/people/_alias/customers",
		"/_search/scroll/DXF1ZXJ5QW5k":     "/_search/scroll/{id}",
		"/_async_search/FmRldE8":           "/_async_search/{id}",
		"/_async_search/status/FmRldE8":    "/_async_search/status/{id}",
		"/_plugins/_asynchronous_search/F": "/_plugins/_asynchronous_search/{id}",
		"/_plugins/_async_query/F":         "/_plugins/_async_query/{id}",
		"/_plugins/_async_query":           "/_plugins/_async_query",
		"/_eql/search/F":                   "/_eql/search/{id}",
		"/_sql/async/F":                    "/_sql/async/{id}",
		"/_sql/async/status/F":             "/_sql/async/status/{id}",
		"/_sql/async/delete/F":             "/_sql/async/delete/{id}",
		"/people/_doc/user/kim@home":       "/people/_doc/{id}/{id}",
		"/people/_doc/delete/kim":          "/people/_doc/delete/{id}",
		"/_cat/indices/people":             "/_cat/indices/people",
		"/_snapshot/repo/monday/_restore":  "/_snapshot/repo/monday/_restore",
		"/people//kim":                     "/people//kim",
	} {
		require.Equal(t, want, HideIDs(path), path)
	}
}
