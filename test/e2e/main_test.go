// Package e2e compares the built sidestep binary with the engine itself on a real
// cluster of three nodes: what a client gets through sidestep is what it would
// have got directly. Tests with a sidestep or a cluster of their own run beside each other,
// when the others are done. SIDESTEP_ENGINE chooses opensearch (default) or
// elasticsearch.
package e2e

import (
	"context"
	"flag"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// patience is how long it may take for what must come about: the machine may be busy.
const patience = 3 * time.Minute

// stage is the cluster all tests share, and the sidestep that was started before it. It
// steers always: of a list the engine must make what it makes of none.
type stage struct {
	harness.Stage
	sidestep *harness.Front
	early    early
}

// early is what sidestep said while no node was running.
type early struct {
	readyStatus, searchStatus int
	searchBody                []byte
}

var shared stage // TestMain can hand nothing to tests otherwise

func TestMain(m *testing.M) {
	flag.Parse()
	code := shared.RunTests(m, 2*harness.Patience, shared.open)
	securing.stop()
	os.Exit(code)
}

func (s *stage) open(ctx context.Context) error {
	err := s.Open(ctx, harness.StageOptions{
		Cluster: harness.ClusterOptions{
			Distribution: os.Getenv("SIDESTEP_ENGINE"), Version: os.Getenv("SIDESTEP_ENGINE_VERSION"),
			Nodes: 3, Proxied: true, SerialGC: true, NodeSettings: eachWith("node.attr.zone", "a", "b", "c"),
			Settings: map[string]string{"thread_pool.write.queue_size": writeQueue}, Logf: harness.Sayf,
			BeforeStart: func(*harness.Cluster) error { return s.startEarly(ctx) },
		},
		Indices: []harness.Index{
			{Name: "products", Shards: 5, Replicas: 1, Docs: 20_000, Seed: 1},
			{Name: "logs-1", Shards: 2, Replicas: 1, Docs: 2000, Seed: 2},
			{Name: "logs-2", Shards: 2, Replicas: 1, Docs: 2000, Seed: 3},
			{Name: "routed", Shards: 3, Replicas: 1, Docs: 3000, Seed: 4, Routed: true},
			{Name: "single", Shards: 1, Replicas: 2, Docs: 500, Seed: 5},
		},
		Fill: addAliases,
	})
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	if err == nil && all && s.Cluster.Distribution == harness.Elasticsearch {
		securing.begin()
	}
	return err
}

// eachWith gives each node its value of a setting.
func eachWith(setting string, values ...string) []map[string]string {
	all := make([]map[string]string, len(values))
	for i, value := range values {
		all[i] = map[string]string{setting: value}
	}
	return all
}

// startEarly starts sidestep before the first node and notes how it behaves.
func (s *stage) startEarly(ctx context.Context) (err error) {
	if s.sidestep, err = s.StartSidestep(ctx, harness.Sidestep{Name: "early", Config: harness.Always}); err != nil {
		return err
	}
	if s.early.readyStatus, _, err = s.sidestep.Admin(ctx, http.MethodGet, "/-/ready", ""); err != nil {
		return err
	}
	answer, err := send(ctx, s.sidestep.URL, search{target: "products"})
	if err != nil {
		return err
	}
	s.early.searchStatus, s.early.searchBody = answer.status, answer.body
	return nil
}

// startBefore starts a sidestep with that configuration before the nodes of c, and stops it
// when the test ends.
func startBefore(t *testing.T, c *harness.Cluster, config string) *harness.Front {
	t.Helper()
	before := harness.Stage{Cluster: c, Binary: shared.Binary}
	f, err := before.StartSidestep(t.Context(), harness.Sidestep{Config: config})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, harness.Close(f, nil, t.Failed())) })
	return f
}

// addAliases adds those that the tests search.
func addAliases(ctx context.Context, c *harness.Cluster) error {
	add := func(index, alias string, more map[string]any) map[string]any {
		action := map[string]any{"index": index, "alias": alias}
		for key, value := range more {
			action[key] = value
		}
		return map[string]any{"add": action}
	}
	return c.Do(ctx, http.MethodPost, "/_aliases", map[string]any{"actions": []any{
		add("products", "catalog", nil),
		add("products", "cheap", map[string]any{"filter": map[string]any{"range": map[string]any{"price": map[string]any{"lt": 20}}}}),
		add("logs-*", "all-logs", nil),
		add("routed", "alphas", map[string]any{"routing": "alpha", "filter": map[string]any{"term": map[string]any{"category": "alpha"}}}),
	}}, nil)
}
