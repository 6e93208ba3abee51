package cluster

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/es"
)

// spread is the metadata of an index with as many routing shards as shards, so
// that an id means the same shard in every test.
func spread(shards int, settings object) object {
	all := object{"number_of_shards": strconv.Itoa(shards), "replication": object{"type": "DOCUMENT"}}
	for key, value := range settings {
		all[key] = value
	}
	return object{"routing_num_shards": shards, "settings": object{"index": all}}
}

// located returns the ids of the nodes that may serve each shard.
func located(s *Snapshot, docs ...es.Document) (nodes [][]string, miss Miss) {
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
func (w *watcher) learnsLayout(doc es.Document, want Miss) {
	w.t.Helper()
	w.eventually(doc.Index+": "+string(want), func() bool {
		w.LearnLayout(doc.Index)
		_, miss := w.Snapshot().Locate([]es.Document{doc})
		return miss == want
	})
}

func TestLocate(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() {
		f.indices = []Index{
			index("a", []string{"n1", "n2"}, []string{"n2", "n3"}), index("b", []string{"n3"}),
			index("seg", []string{"n1"}), index("tsdb", []string{"n1"}), index("path", []string{"n1"}), index("logs", []string{"n1"}),
		}
		f.metadata = map[string]object{
			"a": spread(2, nil), "b": spread(1, nil), "seg": spread(1, object{"replication": object{"type": "SEGMENT"}}),
			"tsdb": spread(1, object{"mode": "time_series", "routing_path": []string{"d"}}),
			"logs": spread(1, object{"mode": "logsdb"}), "path": spread(1, object{"routing_path": "d"}),
		}
		f.aliases["a"] = map[string]object{
			"one": {}, "both": {}, "filtered": {"filter": object{}}, "routed": {"index_routing": "x", "search_routing": "x"},
		}
		f.aliases["b"] = map[string]object{"both": {}}
	})
	w := f.watch(nil)
	w.resolves("b", "", []string{"n3"})
	for name, want := range map[string]Miss{
		"a": MissNone, "b": MissNone, "one": MissNone, "filtered": MissNone,
		"both": MissNotOneIndex, "routed": MissNotOneIndex, "nothing": MissNotOneIndex,
		"seg": MissSegmentReplication, "tsdb": MissRoutedByFields, "logs": MissRoutedByFields, "path": MissRoutedByFields,
	} {
		_, miss := w.Snapshot().Locate([]es.Document{{Index: name, ID: "1"}})
		require.Equal(t, MissUnknownTarget, miss, name)
		w.learnsLayout(es.Document{Index: name, ID: "1"}, want)
	}
	for _, name := range []string{"", "_all", "a*", "a,b", "<a-{now/d}>", "remote:a"} {
		_, miss := w.Snapshot().Locate([]es.Document{{Index: name, ID: "1"}})
		require.Equal(t, MissNotOneIndex, miss, name)
		w.LearnLayout(name)
	}
	require.Empty(t, w.school.queue, "expressions are not looked up")

	two := es.Routing{Shards: 2, RoutingShards: 2, PartitionSize: 1}
	copies := [][]string{{"n1", "n2"}, {"n2", "n3"}}
	at := map[int]string{} // an id for each shard
	for id := 0; len(at) < 2; id++ {
		at[two.Shard(strconv.Itoa(id), "")] = strconv.Itoa(id)
	}
	for shard, id := range at {
		nodes, miss := located(w.Snapshot(), es.Document{Index: "one", ID: id})
		require.Equal(t, MissNone, miss)
		require.Equal(t, [][]string{copies[shard]}, nodes)
		nodes, _ = located(w.Snapshot(), es.Document{Index: "a", ID: "other", Routing: id})
		require.Equal(t, [][]string{copies[shard]}, nodes, "the routing stands for the id")
	}
	nodes, miss := located(w.Snapshot(), es.Document{Index: "a", ID: at[1]}, es.Document{Index: "b", ID: "x"},
		es.Document{Index: "one", ID: at[1]}, es.Document{Index: "a", ID: at[0]})
	require.Equal(t, MissNone, miss)
	require.Equal(t, [][]string{copies[1], {"n3"}, copies[0]}, nodes, "each shard once")
	_, miss = located(w.Snapshot(), es.Document{Index: "a", ID: "1"}, es.Document{Index: "seg", ID: "1"})
	require.Equal(t, MissSegmentReplication, miss, "one that must not be steered is enough")
	_, miss = w.Snapshot().Locate(nil)
	require.Equal(t, MissEmptyTarget, miss)
}

func TestLayoutFollowsTheIndex(t *testing.T) {
	t.Parallel()
	f := newFake(t, 3)
	f.change(func() {
		f.indices = []Index{index("a", []string{"n1"})}
		f.metadata["a"] = spread(1, nil)
	})
	w := f.watch(nil)
	w.resolves("a", "", []string{"n1"})
	doc := es.Document{Index: "a", ID: "1"}
	w.learnsLayout(doc, MissNone)

	// Deleted and created again with two shards; at first nobody tells of the second.
	f.on(func(_ *fakeNode, rw http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/_cluster/state/metadata/") {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	f.change(func() {
		f.indices = []Index{index("a", []string{"n2"}, []string{"n3"})}
		f.metadata["a"] = spread(2, nil)
	})
	w.resolves("a", "", []string{"n2"}, []string{"n3"})
	_, miss := w.Snapshot().Locate([]es.Document{doc})
	require.Equal(t, MissUnknownTarget, miss, "what was known is of another index")
	f.on(nil)
	w.learnsLayout(doc, MissNone)

	// Created again with as many shards, but segment replication: learned again
	// because it is in use.
	f.change(func() { f.metadata["a"] = spread(2, object{"replication": object{"type": "SEGMENT"}}) })
	w.eventually("segment replication is noticed", func() bool {
		_, miss := w.Snapshot().Locate([]es.Document{doc})
		return miss == MissSegmentReplication
	})
	f.change(func() { f.indices = nil; delete(f.metadata, "a") })
	w.eventually("gone", func() bool {
		_, miss := w.Snapshot().Locate([]es.Document{doc})
		return miss != MissNone
	})
}

func TestLocateWithoutCopies(t *testing.T) {
	t.Parallel()
	layout := Layout{Index: "a", Routing: es.Routing{Shards: 1, RoutingShards: 1, PartitionSize: 1}}
	doc := []es.Document{{Index: "a", ID: "1"}}
	c := Contents{Nodes: []*Node{{ID: "n1"}}, Layouts: map[string]Layout{"a": layout}, PlacedAt: time.Now()}
	_, miss := NewSnapshot(c).Locate(doc)
	require.Equal(t, MissNoPlacement, miss)
	c.Indices = []Index{{Name: "a", Shards: []Shard{{Index: "a", Copies: []Copy{{Node: "n1", Kind: 'p', State: Initializing}}}}}}
	_, miss = NewSnapshot(c).Locate(doc)
	require.Equal(t, MissShardUnavailable, miss)
	c.Indices = []Index{index("a", []string{"n1"})}
	c.Unsupported = map[string]bool{"a": true}
	_, miss = NewSnapshot(c).Locate(doc)
	require.Equal(t, MissUnsupported, miss)
	c.Engine.BuildFlavor = "serverless"
	_, miss = NewSnapshot(c).Locate(doc)
	require.Equal(t, MissUnsupported, miss)
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
	require.Equal(t, []Layout{{Index: "a", Routing: es.Routing{Shards: 4, RoutingShards: 8, PartitionSize: 2}}}, layouts)
}
