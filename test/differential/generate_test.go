package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

func TestGenerateIsRepeatable(t *testing.T) {
	for number := range uint64(500) {
		first := generate(7, number, harness.OpenSearch, false)
		require.Equal(t, first, generate(7, number, harness.OpenSearch, false))
	}
	require.NotEqual(t, generate(7, 1, harness.OpenSearch, false), generate(8, 1, harness.OpenSearch, false))
}

// Bulks are written to indices of the side's own alone: what they name otherwise is no
// index.
func TestGenerateBulk(t *testing.T) {
	own := map[bool]int{}
	for number := range uint64(1000) {
		c := generateBulk(7, number, harness.OpenSearch)
		require.Equal(t, c, generateBulk(7, number, harness.OpenSearch))
		require.True(t, c.writes)
		require.Len(t, c.steps, 1)
		own[strings.Contains(c.steps[0].uri+c.steps[0].body, "@side@")]++
		require.NotContains(t, c.steps[0].uri, "products")
	}
	require.Greater(t, own[true], 800)
}

// What is sent to both sides at once must not change what both read, nor free what
// the other side has open.
func TestOnlyOwnIndicesAreWritten(t *testing.T) {
	for _, distribution := range []string{harness.OpenSearch, harness.Elasticsearch} {
		seen := map[string]bool{}
		for number := range uint64(20_000) {
			c := generate(1, number, distribution, false)
			for _, r := range c.steps {
				seen[r.operation] = true
				path, _, _ := strings.Cut(r.uri, "?")
				if c.writes {
					require.Contains(t, r.uri+r.body, ownPrefix+"@side@", c)
					continue
				}
				if r.method == "GET" || r.method == "HEAD" {
					continue
				}
				for _, write := range []string{"/_doc/", "/_bulk", "/_create", "/_update", "_by_query", "/_settings", "/_aliases", "/_close", "/_forcemerge"} {
					require.False(t, strings.Contains(path, write) && path != "/products/_doc/1/_x", c)
				}
				if r.method == "DELETE" {
					require.NotContains(t, path, "_all", c)
					require.True(t, path != "/_search/scroll" || r.body != "", c)
				}
			}
		}
		for _, p := range grammar() {
			require.True(t, seen[p.operation] || p.operation == "scroll" || p.operation == "pit", "%s is never drawn", p.operation)
		}
	}
}

func TestChurnDrawsReadsAlone(t *testing.T) {
	for number := range uint64(2000) {
		c := generate(1, number, harness.OpenSearch, true)
		require.False(t, c.writes)
		require.Len(t, c.steps, 1)
	}
}

func TestCurl(t *testing.T) {
	r := request{method: "POST", uri: "/a/_search?q=it's", header: []header{{"Accept", "*/*"}}, body: "\x00'\n"}
	require.Equal(t, `curl -sS -i --path-as-is -g -X POST -H 'Accept: */*' --data-binary $'\x00\'\n' $'http://h/a/_search?q=it\'s'`, r.curl("http://h"))
}
