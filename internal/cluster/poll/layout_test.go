package poll

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/es"
)

// spread is the metadata of an index with as many routing shards as shards, so
// that an id means the same shard in every test.
func spread(shards int, settings clustertest.Object) clustertest.Object {
	all := clustertest.Object{"number_of_shards": strconv.Itoa(shards), "replication": clustertest.Object{"type": "DOCUMENT"}}
	for key, value := range settings {
		all[key] = value
	}
	return clustertest.Object{"routing_num_shards": shards, "settings": clustertest.Object{"index": all}}
}

// located returns the ids of the nodes that may serve each shard.
func located(s *cluster.Snapshot, docs ...es.Document) (nodes [][]string, miss cluster.Miss) {
	plan, miss := s.Locate(docs)
	if plan == nil {
		return nil, miss
	}
	for _, positions := range plan.Shards {
		var shard []string
		for _, at := range positions {
			shard = append(shard, s.Nodes[at].ID)
		}
		nodes = append(nodes, shard)
	}
	return nodes, miss
}

// learnsLayout waits until a read of the document misses with want.
func (w *watcher) learnsLayout(doc es.Document, want cluster.Miss) {
	w.T.Helper()
	w.Eventually(doc.Index+": "+string(want), func() bool {
		w.LearnLayout(doc.Index)
		_, miss := w.Snapshot().Locate([]es.Document{doc})
		return miss == want
	})
}

func TestLocate(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		f.Indices = []cluster.Index{
			clustertest.Index("a", []string{"n1", "n2"}, []string{"n2", "n3"}), clustertest.Index("b", []string{"n3"}),
			clustertest.Index("seg", []string{"n1"}), clustertest.Index("tsdb", []string{"n1"}), clustertest.Index("path", []string{"n1"}), clustertest.Index("logs", []string{"n1"}),
			clustertest.Index("virtual", []string{"n1"}), clustertest.Index("direct", []string{"n1"}),
		}
		f.Metadata = map[string]clustertest.Object{
			"a": spread(2, nil), "b": spread(1, nil), "seg": spread(1, clustertest.Object{"replication": clustertest.Object{"type": "SEGMENT"}}),
			"tsdb": spread(1, clustertest.Object{"mode": "time_series", "routing_path": []string{"d"}}),
			"logs": spread(1, clustertest.Object{"mode": "logsdb"}), "path": spread(1, clustertest.Object{"routing_path": "d"}),
			"virtual": spread(1, clustertest.Object{"number_of_virtual_shards": "4"}), "direct": spread(1, clustertest.Object{"number_of_virtual_shards": "-1"}),
		}
		f.Aliases["a"] = map[string]clustertest.Object{
			"one": {}, "both": {}, "filtered": {"filter": clustertest.Object{}}, "routed": {"index_routing": "x", "search_routing": "x"},
		}
		f.Aliases["b"] = map[string]clustertest.Object{"both": {}}
	})
	w := watch(t, f, nil)
	w.Resolves("b", "", []string{"n3"})
	for name, want := range map[string]cluster.Miss{
		"a": cluster.MissNone, "b": cluster.MissNone, "one": cluster.MissNone, "filtered": cluster.MissNone,
		"both": cluster.MissNotOneIndex, "routed": cluster.MissNotOneIndex, "nothing": cluster.MissNotOneIndex,
		"seg": cluster.MissSegmentReplication, "tsdb": cluster.MissRoutedByFields, "logs": cluster.MissRoutedByFields, "path": cluster.MissRoutedByFields,
		"virtual": cluster.MissRoutedByFields, "direct": cluster.MissNone,
	} {
		_, miss := w.Snapshot().Locate([]es.Document{{Index: name, ID: "1"}})
		require.Equal(t, cluster.MissUnknownTarget, miss, name)
		w.learnsLayout(es.Document{Index: name, ID: "1"}, want)
	}
	for _, name := range []string{"", "_all", "a*", "a,b", "<a-{now/d}>", "remote:a"} {
		_, miss := w.Snapshot().Locate([]es.Document{{Index: name, ID: "1"}})
		require.Equal(t, cluster.MissNotOneIndex, miss, name)
		w.LearnLayout(name)
	}
	require.Zero(t, w.Recorder.Targets().Waiting(), "expressions are not looked up")

	two := es.Routing{Shards: 2, RoutingShards: 2, PartitionSize: 1}
	copies := [][]string{{"n1", "n2"}, {"n2", "n3"}}
	at := map[int]string{} // an id for each shard
	for id := 0; len(at) < 2; id++ {
		at[two.Shard(strconv.Itoa(id), "")] = strconv.Itoa(id)
	}
	for shard, id := range at {
		nodes, miss := located(w.Snapshot(), es.Document{Index: "one", ID: id})
		require.Equal(t, cluster.MissNone, miss)
		require.Equal(t, [][]string{copies[shard]}, nodes)
		nodes, _ = located(w.Snapshot(), es.Document{Index: "a", ID: "other", Routing: id})
		require.Equal(t, [][]string{copies[shard]}, nodes, "the routing stands for the id")
	}
	nodes, miss := located(w.Snapshot(), es.Document{Index: "a", ID: at[1]}, es.Document{Index: "b", ID: "x"},
		es.Document{Index: "one", ID: at[1]}, es.Document{Index: "a", ID: at[0]})
	require.Equal(t, cluster.MissNone, miss)
	require.Equal(t, [][]string{copies[1], {"n3"}, copies[0]}, nodes, "each shard once")
	_, miss = located(w.Snapshot(), es.Document{Index: "a", ID: "1"}, es.Document{Index: "seg", ID: "1"})
	require.Equal(t, cluster.MissSegmentReplication, miss, "one that must not be steered is enough")
	_, miss = w.Snapshot().Locate(nil)
	require.Equal(t, cluster.MissEmptyTarget, miss)
}

func TestLayoutFollowsTheIndex(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})}
		f.Metadata["a"] = spread(1, nil)
	})
	w := watch(t, f, nil)
	w.Resolves("a", "", []string{"n1"})
	doc := es.Document{Index: "a", ID: "1"}
	w.learnsLayout(doc, cluster.MissNone)

	// Deleted and created again with two shards; at first nobody tells of the second.
	f.On(func(_ *clustertest.Node, rw http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/_cluster/state/metadata/") {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n2"}, []string{"n3"})}
		f.Metadata["a"] = spread(2, nil)
	})
	w.Resolves("a", "", []string{"n2"}, []string{"n3"})
	_, miss := w.Snapshot().Locate([]es.Document{doc})
	require.Equal(t, cluster.MissUnknownTarget, miss, "what was known is of another index")
	f.On(nil)
	w.learnsLayout(doc, cluster.MissNone)

	// Created again with as many shards, but segment replication: learned again
	// because it is in use.
	f.Change(func() {
		f.Metadata["a"] = spread(2, clustertest.Object{"replication": clustertest.Object{"type": "SEGMENT"}})
	})
	w.Eventually("segment replication is noticed", func() bool {
		_, miss := w.Snapshot().Locate([]es.Document{doc})
		return miss == cluster.MissSegmentReplication
	})
	f.Change(func() { f.Indices = nil; delete(f.Metadata, "a") })
	w.Eventually("gone", func() bool {
		_, miss := w.Snapshot().Locate([]es.Document{doc})
		return miss != cluster.MissNone
	})
}

func TestLocateWithoutCopies(t *testing.T) {
	t.Parallel()
	layout := cluster.Layout{Index: "a", Routing: es.Routing{Shards: 1, RoutingShards: 1, PartitionSize: 1}}
	doc := []es.Document{{Index: "a", ID: "1"}}
	c := cluster.Contents{Nodes: []*cluster.Node{{ID: "n1"}}, Layouts: map[string]cluster.Layout{"a": layout}, PlacedAt: time.Now()}
	_, miss := cluster.NewSnapshot(c).Locate(doc)
	require.Equal(t, cluster.MissNoPlacement, miss)
	c.Indices = []cluster.Index{{Name: "a", Shards: []cluster.Shard{{Copies: []cluster.Copy{{Node: "n1", Kind: 'p', State: cluster.Initializing}}}}}}
	_, miss = cluster.NewSnapshot(c).Locate(doc)
	require.Equal(t, cluster.MissShardUnavailable, miss)
	c.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})}
	c.LeftAlone = map[string]cluster.Miss{"a": cluster.MissUnsupported}
	_, miss = cluster.NewSnapshot(c).Locate(doc)
	require.Equal(t, cluster.MissUnsupported, miss)
	c.Engine.BuildFlavor = "serverless"
	_, miss = cluster.NewSnapshot(c).Locate(doc)
	require.Equal(t, cluster.MissUnsupported, miss)
}

func TestParseLayoutsRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `[]`, `{"metadata":{"indices":{"a":{}}}}`,
		`{"metadata":{"indices":{"a":{"routing_num_shards":4,"settings":{"index":{"number_of_shards":"3"}}}}}}`,
		`{"metadata":{"indices":{"a":{"routing_num_shards":4,"settings":{"index":{"number_of_shards":"4","routing_partition_size":"x"}}}}}}`,
	} {
		_, err := parseLayouts(strings.NewReader(body))
		require.Error(t, err, body)
	}
	layouts, err := parseLayouts(strings.NewReader(
		`{"metadata":{"indices":{"a":{"routing_num_shards":8,"settings":{"index":{"number_of_shards":"4","routing_partition_size":"2"}}}}}}`))
	require.NoError(t, err)
	require.Equal(t, []cluster.Layout{{Index: "a", Routing: es.Routing{Shards: 4, RoutingShards: 8, PartitionSize: 2}}}, layouts)
}
