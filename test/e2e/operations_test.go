package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// steered sends the request until sidestep steers it.
func steered(t *testing.T, s search) *answer {
	t.Helper()
	got := awaitSteered(t, shared.sidestep.URL, s)
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	return got
}

// requireNodesNamed requires that send, which runs one shard query, has it served
// by the one node that it returns.
func requireNodesNamed(t *testing.T, send func() (nodes []string)) {
	t.Helper()
	var nodes []string
	servedAlone(t, 10, func() { nodes = send() }, func(served map[string]int) {
		require.Len(t, nodes, 1, "one shard is searched on one node")
		require.Equal(t, map[string]int{nodes[0]: 1}, served)
	})
}

func TestCounts(t *testing.T) {
	for _, target := range targets() {
		learned(t, target)
	}
	g := generator{rand.New(rand.NewPCG(2, 2026))}
	reasons, counted := make(map[string]int), 0
	for range 100 {
		query, err := json.Marshal(object{"query": g.query()})
		require.NoError(t, err)
		count := search{path: "/_count", method: g.pick(http.MethodGet, http.MethodPost), body: string(query)}
		if target := g.pick(targets()...); target != "" {
			count.path = "/" + target + count.path
			if target == "routed" {
				count.query = "routing=" + g.category()
			}
		}
		got := requireSame(t, count)
		require.Equal(t, http.StatusOK, got.status, "%s\n%s", count, got.body)
		reasons[got.decision.Reason]++
		var r struct {
			Count int `json:"count"`
		}
		require.NoError(t, json.Unmarshal(got.body, &r))
		counted += r.Count
	}
	t.Logf("decisions about 100 counts: %v, %d documents", reasons, counted)
	require.Positive(t, counted)
	require.GreaterOrEqual(t, reasons["ranked"], 90, "steered counts")
	requireNodesNamed(t, func() []string {
		return steered(t, search{path: "/single/_count", body: `{"query":{"match":{"title":"alpha"}}}`}).decision.Nodes
	})
	for _, s := range []search{
		{path: "/nowhere/_count"},
		{path: "/products/_count", query: "sise=3"},
		{path: "/products/_count", body: `{"size":3}`},
		{path: "/_count", body: `{"pit":{"id":"x"}}`},
	} {
		require.GreaterOrEqual(t, requireSame(t, s).status, 400, s)
	}
}

// openPIT is the request that opens a point in time.
func openPIT(target string) search {
	path := "/" + target + "/_search/point_in_time"
	if shared.Cluster.Distribution == "elasticsearch" {
		path = "/" + target + "/_pit"
	}
	return search{method: http.MethodPost, path: path, query: "keep_alive=1m"}
}

// The searches in a point in time are served where it was opened.
func TestPointInTimeStaysWhereItWasOpened(t *testing.T) {
	learned(t, "single")
	requireNodesNamed(t, func() []string {
		open := steered(t, openPIT("single"))
		opened := open.results(t)
		pit, err := json.Marshal(object{"id": opened.ES + opened.OS, "keep_alive": "1m"})
		require.NoError(t, err)
		got := through(t, search{body: `{"query":{"match_all":{}},"size":3,"pit":` + string(pit) + `}`})
		require.Len(t, got.results(t).Hits.Hits, 3)
		require.Equal(t, "pit", got.decision.Reason)
		return open.decision.Nodes
	})
}

func TestPointInTimeErrorsAreTheEngines(t *testing.T) {
	learned(t, "products")
	wrong := "/products/_pit" // the other engine's
	if shared.Cluster.Distribution == "elasticsearch" {
		wrong = "/products/_search/point_in_time"
	}
	for name, s := range map[string]search{
		"no keep_alive":    {method: http.MethodPost, path: openPIT("products").path},
		"bad parameter":    {method: http.MethodPost, path: openPIT("products").path, query: "keep_alive=1m&sise=3"},
		"missing index":    openPIT("nowhere"),
		"the other engine": {method: http.MethodPost, path: wrong, query: "keep_alive=1m"},
		"no such plugin":   {method: http.MethodPost, path: "/products/_async_search", body: `{"size":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := requireSame(t, s)
			require.GreaterOrEqual(t, got.status, 400, "%s", got.body)
			require.NotContains(t, string(got.body), "_nodes")
		})
	}
}

func TestSearchTemplates(t *testing.T) {
	learned(t, "products")
	learned(t, "single")
	body := `{"source":{"query":{"match":{"title":"{{word}}"}},"sort":["n"],"size":5},"params":{"word":"alpha"}}`
	if template := (search{path: "/products/_search/template", body: body}); lacks(t, "template language", template) {
		require.GreaterOrEqual(t, requireSame(t, template).status, 400)
		return
	}
	steered(t, search{path: "/products/_search/template", body: body})
	got := requireSame(t, search{path: "/products/_search/template", body: body})
	require.Equal(t, "ranked", got.decision.Reason)
	require.Len(t, got.results(t).Hits.Hits, 5)
	requireNodesNamed(t, func() []string {
		return steered(t, search{path: "/single/_search/template", body: body}).decision.Nodes
	})

	opened := through(t, openPIT("products")).results(t)
	pit := `{"source":{"query":{"match_all":{}},"sort":["n"],"size":5,"pit":{"id":"{{id}}"}},"params":{"id":"` + opened.OS + `"}}`
	got = requireSame(t, search{path: "/_search/template", body: pit})
	require.Equal(t, "unreadable_body", got.decision.Reason)
	require.Len(t, got.results(t).Hits.Hits, 5)
	// The engine checks what goes with a point in time before it renders a template.
	got = requireSame(t, search{path: "/products/_search/template", body: pit})
	require.Equal(t, "ranked", got.decision.Reason)
	require.Len(t, got.results(t).Hits.Hits, 5)
}
