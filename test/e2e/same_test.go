package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// learned sends a search to the target until it is steered: a target seen for the
// first time passes unchanged. The engine needs its time to start the shards of a new one.
func learned(t *testing.T, target string) {
	t.Helper()
	awaitSteered(t, shared.sidestep.URL, search{target: target, body: `{"size":0}`})
}

// awaitSteered sends a request to a sidestep until it is steered, and returns the answer to that.
func awaitSteered(t *testing.T, base string, s search) *answer {
	t.Helper()
	var last *answer
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if last = sendTo(t, base, s); last.decision.Reason == "ranked" {
			return last
		}
	}
	require.Fail(t, "it is not steered", "%s: %+v\n%s", s, last.decision, last.body)
	return nil
}

func TestGeneratedSearches(t *testing.T) {
	for _, target := range targets() {
		learned(t, target)
	}
	g := generator{rand.New(rand.NewPCG(1, 2026))}
	reasons := make(map[string]int)
	found := 0
	for range 200 {
		s := g.search()
		got := requireSame(t, s)
		require.Equal(t, http.StatusOK, got.status, "%s\n%s", s, got.body)
		reasons[got.decision.Reason]++
		var r results
		require.NoError(t, json.Unmarshal(got.body, &r))
		found += len(r.Hits.Hits)
	}
	t.Logf("decisions about 200 searches: %v", reasons)
	require.Greater(t, found, 500, "the searches find too little to compare")
	require.GreaterOrEqual(t, reasons["ranked"], 190, "steered searches")
}

func TestErrorsAreTheEngines(t *testing.T) {
	learned(t, "products")
	for name, s := range map[string]search{
		"bad query":       {target: "products", body: `{"query":{"nonsense":{}}}`},
		"not JSON":        {target: "products", body: `{"query":`},
		"bad parameter":   {target: "products", query: "sise=3"},
		"negative size":   {target: "products", query: "size=-5"},
		"missing index":   {target: "nowhere"},
		"no such keyword": {target: "products", query: "preference=_nonsense"},
		"too deep":        {target: "products", body: `{"from":20000,"size":10}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := requireSame(t, s)
			require.GreaterOrEqual(t, got.status, 400)
		})
	}
}

func TestPassesUnchanged(t *testing.T) {
	learned(t, "products")
	sorted := `{"query":{"match":{"title":"alpha"}},"sort":["n"],"size":5}`
	for name, tc := range map[string]struct {
		search search
		reason string
	}{
		"keyword":  {search{target: "products", query: "preference=_local", body: sorted}, "client_preference"},
		"settings": {search{path: "/products/_settings", query: "filter_path=*.settings.index.number_of_shards"}, "not_steerable"},
		"cat":      {search{path: "/_cat/indices", query: "format=json&h=index,pri,rep&s=index"}, "not_steerable"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.reason, requireSame(t, tc.search).decision.Reason)
		})
	}
}

// A preference for one node reaches the engine: that node serves, and no other.
func TestClientPreferenceIsObeyed(t *testing.T) {
	for _, node := range shared.Cluster.Nodes {
		servedAlone(t, 1, func() {
			for range 5 {
				got := through(t, search{target: "single", query: "preference=_only_nodes:" + node.ID, body: `{"size":1}`})
				require.Equal(t, http.StatusOK, got.status, "%s", got.body)
				require.Equal(t, "client_preference", got.decision.Reason)
			}
		}, func(served map[string]int) { require.Equal(t, map[string]int{node.Name: 5}, served) })
	}
}

// The same string is served by the same copy, whichever node coordinates.
func TestSessionStringKeepsItsCopy(t *testing.T) {
	allFine(t)
	learned(t, "single")
	servedAlone(t, 1, func() {
		for range 10 {
			got := through(t, search{target: "single", query: "preference=session-7", body: `{"size":1}`})
			require.Equal(t, http.StatusOK, got.status, "%s", got.body)
			require.Equal(t, "affinity", got.decision.Reason, "a search of one shard is always listed")
		}
	}, func(served map[string]int) { require.Len(t, served, 1) })
}

func TestPointInTime(t *testing.T) {
	opened := through(t, openPIT("products")).results(t)
	pit, err := json.Marshal(object{"id": opened.ES + opened.OS, "keep_alive": "1m"})
	require.NoError(t, err)
	s := search{body: `{"query":{"match":{"title":"beta"}},"sort":["n"],"size":4,"pit":` + string(pit) + `}`}
	got := through(t, s)
	require.Equal(t, "pit", got.decision.Reason)
	want := directly(t, search{target: "products", body: `{"query":{"match":{"title":"beta"}},"sort":["n"],"size":4}`}).results(t)
	require.Equal(t, want.Hits, got.results(t).Hits)
}

func TestScroll(t *testing.T) {
	page := through(t, search{target: "logs-1", query: "scroll=1m", body: `{"size":300,"sort":["_doc"]}`}).results(t)
	seen := make(map[string]bool)
	for len(page.Hits.Hits) > 0 {
		for _, hit := range page.Hits.Hits {
			require.False(t, seen[hit.ID], "document %s came twice", hit.ID)
			seen[hit.ID] = true
		}
		body, err := json.Marshal(object{"scroll": "1m", "scroll_id": page.ScrollID})
		require.NoError(t, err)
		page = through(t, search{path: "/_search/scroll", body: string(body)}).results(t)
	}
	require.Len(t, seen, 2000)
}

// A body that is too large to be held for a second try streams through.
func TestLargeBody(t *testing.T) {
	learned(t, "products")
	for _, size := range []int{1 << 20, 5 << 20} {
		require.Len(t, requireSame(t, search{target: "products", body: padded(size)}).results(t).Hits.Hits, 3)
	}
}

func TestStartsBeforeTheCluster(t *testing.T) {
	require.Equal(t, http.StatusServiceUnavailable, shared.early.readyStatus)
	require.Equal(t, http.StatusServiceUnavailable, shared.early.searchStatus)
	var body struct {
		Error struct {
			Type   string `json:"type"`
			Reason string `json:"reason"`
		} `json:"error"`
		Status int `json:"status"`
	}
	require.NoError(t, json.Unmarshal(shared.early.searchBody, &body), "%s", shared.early.searchBody)
	require.Equal(t, http.StatusServiceUnavailable, body.Status)
	require.NotEmpty(t, body.Error.Type)
	require.NotEmpty(t, body.Error.Reason)
	require.NoError(t, shared.sidestep.AdminJSON(t.Context(), "/nodes", new(any)))
}

func TestMetricsCountWhatWasSteered(t *testing.T) {
	learned(t, "single")
	count := func(reason string) float64 {
		return sum(t, "sidestep_requests_total", map[string]string{"operation": "search", "reason": reason})
	}
	steered, passed := count("ranked"), count("client_preference")
	for range 10 {
		through(t, search{target: "single", body: `{"size":0}`})
	}
	for range 4 {
		through(t, search{target: "single", query: "preference=_local", body: `{"size":0}`})
	}
	require.InDelta(t, 10, count("ranked")-steered, 0)
	require.InDelta(t, 4, count("client_preference")-passed, 0)
}

// The switch stops and resumes steering at run time.
func TestSwitch(t *testing.T) {
	learned(t, "products")
	defer setMode(t, "route")
	for mode, reason := range map[string]string{"off": "mode_off", "observe": "observe", "route": "ranked"} {
		setMode(t, mode)
		require.Equal(t, reason, requireSame(t, search{target: "products", query: "sort=n"}).decision.Reason)
	}
}
