package poll

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// Nodes answer from their own copies of the cluster state. Where they do so anyway they log as a critical deprecation that
// they are told to.
func TestNodesAnswerFromTheirOwnState(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		engine          clustertest.Object
		state, settings bool // they are asked to
	}{
		{clustertest.Object{"distribution": "opensearch", "number": "3.6.0"}, true, true},
		{clustertest.Object{"distribution": "opensearch", "number": "10.0.0"}, true, true},
		{clustertest.Object{"number": "8.19.4"}, true, true},
		{clustertest.Object{"number": "9.1.5"}, true, false},
		{clustertest.Object{"number": "9.2.0"}, false, false},
		{clustertest.Object{"number": "10.0.0"}, false, false},
	} {
		t.Run(tt.engine["number"].(string), func(t *testing.T) { //nolint:forcetypeassert // it is one
			t.Parallel()
			f := clustertest.New(t, 2)
			f.Info["version"], f.Info["tagline"] = tt.engine, "You Know, for Search"
			var mu sync.Mutex
			state, settings := map[bool][]string{}, map[bool][]string{}
			f.On(func(_ *clustertest.Node, _ http.ResponseWriter, r *http.Request) bool {
				switch path := r.URL.Path; {
				case strings.HasSuffix(path, "/_search_shards"):
					assert.Equal(t, "true", r.URL.Query().Get("local"), "without, the manager is asked by all versions")
				case strings.HasPrefix(path, "/_cluster/"), strings.Contains(path, "/_settings"):
					asked := state
					if strings.HasSuffix(path, "/settings") || strings.Contains(path, "/_settings") {
						asked = settings
					}
					mu.Lock()
					defer mu.Unlock()
					local := r.URL.Query().Get("local") == "true"
					asked[local] = append(asked[local], r.URL.String())
				}
				return false
			})
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n1"})} })
			w := watch(t, f, nil)
			w.Resolves("i", "", []string{"n1"})
			w.Learn("i*", "")
			w.LearnLayout("i")
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"})} })
			w.Resolves("i", "", []string{"n2"})
			w.Eventually("learned", func() bool { return f.Count("/i*/_search_shards") > 0 && f.Count("/_cluster/state/metadata/i") > 0 })
			w.Stop()
			mu.Lock() // a request that was given up may still be looked at
			defer mu.Unlock()
			require.Empty(t, state[!tt.state])
			require.NotEmpty(t, state[tt.state])
			require.Empty(t, settings[!tt.settings])
			require.NotEmpty(t, settings[tt.settings])
		})
	}
}

// From 9.0 on Elasticsearch refuses of aliases what it only deprecates of the rest.
func TestAliasPath(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]cluster.Engine{
		"%C3%A4/_alias":            {Distribution: cluster.Elasticsearch, Major: 9},
		"%C3%A4/_alias?local=true": {Distribution: cluster.Elasticsearch, Major: 8, Minor: 19},
	} {
		require.Equal(t, want, aliasPath(e, "ä"))
		_, err := url.Parse("http://h/" + want)
		require.NoError(t, err)
	}
}
