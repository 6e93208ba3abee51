package relay

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/cluster/poll"
	"sidestep/internal/es"
)

// goodReport is a report of everything, changed.
func goodReport(change func(r *report)) *report {
	r := &report{
		Version: relayVersion, Relay: "relay", Seq: 1, Full: true, Now: 1000, IDs: []string{"n1", "n2"},
		Cluster: &reportedCluster{
			Engine: cluster.Engine{Distribution: cluster.OpenSearch, Version: "3.6.0", Major: 3, Minor: 6}, Name: "c", UUID: "u",
			Nodes: []reportedNode{{cluster.Node{ID: "n1", Name: "one"}, "https://n1:9200"}, {cluster.Node{ID: "n2", Name: "two"}, "https://n2:9200"}},
		},
		Placement: reportedPlacement{Version: 7, At: 900},
		Indices: []reportedIndex{
			{Name: "a", Shards: []reportedShard{{Copies: []reportedCopy{{Node: 0, Kind: "p"}, {Node: 1, Kind: "r"}}}, {Number: 1, Copies: []reportedCopy{{Node: -1, Kind: "p", State: cluster.Unassigned}}}}},
			{Name: "b", Stale: true, Shards: []reportedShard{{Copies: []reportedCopy{{Node: 1, Kind: "s", State: cluster.Relocating}}}}},
		},
		Stats:    []reportedStats{{0, 950, 1000, 4, 1, 2, 100}},
		Failures: []reportedFailure{{Node: 1, At: 960, Took: 1000, State: cluster.PollUnreachable, Error: "refused"}},
		Seen:     []reportedSeen{{Node: 0, Others: []int64{1, 2000, 1000}}},
	}
	change(r)
	return r
}

// testFollower is one of a cluster that is reached by https. It keeps the statistics
// that it is told.
func testFollower(stats *[]cluster.NodeStats) *Follower {
	f := NewFollower(Options{URL: &url.URL{Scheme: "http", Host: "relay"}})
	f.p = poll.New(cluster.NewStore(cluster.StoreOptions{}), poll.Options{
		Seeds: []*url.URL{{Scheme: "https", Host: "seed:9200"}}, Source: f,
		OnStats: func(s cluster.NodeStats) { *stats = append(*stats, s) },
	})
	f.own, f.ownAt = "u", time.Now()
	return f
}

// take takes in a report as one that came from a relay.
func (f *Follower) take(t *testing.T, r *report) error {
	t.Helper()
	if err := f.check(t.Context(), r); err != nil {
		return err
	}
	f.apply(r)
	return nil
}

func TestReportsAreValidated(t *testing.T) {
	t.Parallel()
	copies := func(c reportedCopy) func(r *report) {
		return func(r *report) { r.Indices[0].Shards[0].Copies[0] = c }
	}
	for name, c := range map[string]struct {
		change func(r *report)
		err    string
	}{
		"good":                            {func(*report) {}, ""},
		"version":                         {func(r *report) { r.Version = 2 }, "no report"},
		"no relay":                        {func(r *report) { r.Relay = "" }, "no report"},
		"no number":                       {func(r *report) { r.Seq = 0 }, "no report"},
		"full that continues ids":         {func(r *report) { r.IDsFrom = 1 }, "continues the ids of nodes at 1 of 0"},
		"ids from below":                  {func(r *report) { r.IDsFrom = -1 }, "continues the ids of nodes at -1"},
		"too many ids":                    {func(r *report) { r.IDs = make([]string, maxReportedIDs+1) }, "more than"},
		"empty id":                        {func(r *report) { r.IDs[1] = "" }, "id of a node is empty"},
		"a departure of too many letters": {func(r *report) { r.Cluster.Nodes[0].Leaving = cluster.Departure(strings.Repeat("x", maxWord+1)) }, "leaves as"},
		"no nodes":                        {func(r *report) { r.Cluster = nil }, "lacks the nodes"},
		"time below":                      {func(r *report) { r.Now = -1 }, "of the time"},
		"time above":                      {func(r *report) { r.Now = 1 << 62 }, "of the time"},
		"placement below":                 {func(r *report) { r.Placement.At = -1 << 63 }, "of the time"},
		"placement above":                 {func(r *report) { r.Placement.At = 1<<63 - 1 }, "of the time"},
		"version of placement":            {func(r *report) { r.Placement.Version = 0 }, "of the version 0"},
		"source of an older relay":        {func(r *report) { r.Placement.Source = "cat_shards" }, ""},
		"engine":                          {func(r *report) { r.Cluster.Engine.Distribution = "solr" }, `engine is "solr"`},
		"major":                           {func(r *report) { r.Cluster.Engine.Major = -1 }, "-1.6"},
		"node without id":                 {func(r *report) { r.Cluster.Nodes[0].ID = "" }, "empty or there twice"},
		"node twice":                      {func(r *report) { r.Cluster.Nodes[0].ID = "n2" }, "empty or there twice"},
		"bodies":                          {func(r *report) { r.Cluster.Nodes[0].MaxBody = -1 }, "bodies of -1 bytes"},
		"processors":                      {func(r *report) { r.Cluster.Nodes[0].Processors = -4 }, "-4 processors"},
		"index without name":              {func(r *report) { r.Indices[0].Name = "" }, "no name"},
		"index twice":                     {func(r *report) { r.Indices[0].Name = "b" }, "there twice"},
		"shard below":                     {func(r *report) { r.Indices[0].Shards[0].Number = -1 }, "shard -1 follows"},
		"shard above":                     {func(r *report) { r.Indices[0].Shards[1].Number = cluster.MaxShardNumber + 1 }, "follows shard 0"},
		"shard twice":                     {func(r *report) { r.Indices[0].Shards[1].Number = 0 }, "shard 0 follows shard 0"},
		"node above":                      {copies(reportedCopy{Node: 2, Kind: "p"}), "on node 2 of 2"},
		"node below":                      {copies(reportedCopy{Node: -2, Kind: "p"}), "on node -2 of 2"},
		"kind":                            {copies(reportedCopy{Kind: "primary"}), `kind "primary"`},
		"no kind":                         {copies(reportedCopy{}), `kind ""`},
		"continues what was not heard":    {func(r *report) { r.Full = false }, "continues another one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := testFollower(new([]cluster.NodeStats))
			err := f.take(t, goodReport(c.change))
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Empty(t, f.relay)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "https://n1:9200", f.p.Snapshot().Nodes[0].URL.String())
			placed, ok := f.p.Snapshot().Lookup("b")
			require.True(t, ok)
			require.Equal(t, [][]string{{"n2"}}, clustertest.NodesOf(cluster.NewSnapshot(cluster.Contents{Nodes: f.p.Snapshot().Nodes, Indices: []cluster.Index{*placed}}), "b", ""))
		})
	}
}

// Which indices are left alone a relay tells with the nodes.
func TestIndicesThatARelayTellsToLeaveAlone(t *testing.T) {
	t.Parallel()
	f := testFollower(new([]cluster.NodeStats))
	require.NoError(t, f.take(t, goodReport(func(r *report) { r.Cluster.Unsupported, r.Cluster.Closed = []string{"a", "b"}, []string{"a"} })))
	require.Equal(t, map[string]cluster.Miss{"a": cluster.MissClosed, "b": cluster.MissUnsupported}, f.p.Snapshot().LeftAlone())
	told := reportCluster(f.p.Snapshot(), nil)
	require.Equal(t, []string{"a", "b"}, told.Unsupported)
	require.Equal(t, []string{"a"}, told.Closed)
}

// A report that says to be of everything and continues a list panicked.
func TestReportThatContinuesIDs(t *testing.T) {
	t.Parallel()
	f := testFollower(new([]cluster.NodeStats))
	require.NoError(t, f.take(t, goodReport(func(*report) {})))
	require.Error(t, f.take(t, goodReport(func(r *report) { r.IDsFrom = 1 })), "it is full")
	require.Error(t, f.take(t, goodReport(func(r *report) { r.Full, r.IDsFrom = false, -1 })))
	require.Error(t, f.take(t, goodReport(func(r *report) { r.Full, r.IDsFrom = false, 3 })))
	require.NoError(t, f.take(t, goodReport(func(r *report) { r.Full, r.IDsFrom, r.IDs = false, 2, nil })))
}

// What was measured of one node and cannot be is left out, and nothing else.
func TestReportedMeasurementsAreValidated(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *report){
		"no such node":      func(r *report) { r.Stats[0][0], r.Failures[0].Node = 2, -1 },
		"time":              func(r *report) { r.Stats[0][1], r.Failures[0].At = -1, 1<<63-1 },
		"time above":        func(r *report) { r.Stats[0][1], r.Failures[0].At = maxClock+1, -1 },
		"took":              func(r *report) { r.Stats[0][2], r.Failures[0].Took = -1, 1<<63-1 },
		"counter":           func(r *report) { r.Stats[0][9], r.Failures[0].State = -5, cluster.PollOK },
		"counter above":     func(r *report) { r.Stats[0][11], r.Failures[0].State = 1<<63-1, "well" },
		"failure of no one": func(r *report) { r.Stats[0][15], r.Failures[0].State = -1, "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stats []cluster.NodeStats
			f := testFollower(&stats)
			require.NoError(t, f.take(t, goodReport(change)))
			require.Empty(t, stats)
		})
	}
	var stats []cluster.NodeStats
	f := testFollower(&stats)
	require.NoError(t, f.take(t, goodReport(func(r *report) {
		r.Seen[0].Others = []int64{1, -1, 0, 7, 1, 1, 0, 1 << 62, 1, 1, 2000, 1000, 1}
		r.Stats[0][1] = 5000 // after the report was made
		r.Failures[0].Error = strings.Repeat("x", 100_000)
	})))
	require.Len(t, stats, 2)
	require.Len(t, stats[0].Err.Error(), maxReportedText)
	require.Equal(t, map[string]cluster.Seen{"n2": {Now: 2 * time.Millisecond, Before: time.Millisecond}}, stats[1].Coordinated)
	require.Equal(t, f.time(1000), stats[1].At)
}

func TestToldTargetsAreValidated(t *testing.T) {
	t.Parallel()
	shard := []packedShards{{Index: "a", Numbers: []int{0, 1}}}
	routing := es.Routing{Shards: 2, RoutingShards: 4, PartitionSize: 1}
	for name, c := range map[string]struct {
		told resolvedTarget
		of   cluster.Subject
		err  string
	}{
		"shards":         {resolvedTarget{StateVersion: 1, Shards: shard}, cluster.OfShards, ""},
		"unknown":        {resolvedTarget{StateVersion: 1, Unknown: true}, cluster.OfLayout, ""},
		"layout":         {resolvedTarget{StateVersion: 1, Layout: &cluster.Layout{Index: "a", Routing: routing}}, cluster.OfLayout, ""},
		"several":        {resolvedTarget{StateVersion: 1, Layout: &cluster.Layout{Miss: cluster.MissNotOneIndex}}, cluster.OfLayout, ""},
		"version":        {resolvedTarget{}, cluster.OfShards, "of the version 0"},
		"shard below":    {resolvedTarget{StateVersion: 1, Shards: []packedShards{{Index: "a", Numbers: []int{-1}}}}, cluster.OfShards, "[a][-1] is not a shard"},
		"shard above":    {resolvedTarget{StateVersion: 1, Shards: []packedShards{{Index: "a", Numbers: []int{1 << 30}}}}, cluster.OfShards, "is not a shard"},
		"no index":       {resolvedTarget{StateVersion: 1, Shards: []packedShards{{Numbers: []int{1}}}}, cluster.OfShards, "without a name"},
		"no layout":      {resolvedTarget{StateVersion: 1}, cluster.OfLayout, "no layout"},
		"layout of none": {resolvedTarget{StateVersion: 1, Layout: &cluster.Layout{Routing: routing}}, cluster.OfLayout, "the layout of"},
		"routing":        {resolvedTarget{StateVersion: 1, Layout: &cluster.Layout{Index: "a"}}, cluster.OfLayout, "the layout of"},
		"miss":           {resolvedTarget{StateVersion: 1, Layout: &cluster.Layout{Index: "a", Miss: "bad"}}, cluster.OfLayout, `misses for "bad"`},
	} {
		err := c.told.valid(c.of)
		if c.err == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.err, name)
	}
}

// FuzzReport takes in what a relay may answer, twice: what is accepted makes a snapshot
// that resolves, whose nodes have addresses of the scheme of the seeds.
func FuzzReport(f *testing.F) {
	for _, change := range []func(r *report){
		func(*report) {},
		func(r *report) { r.IDsFrom = 1 },
		func(r *report) { r.Full, r.Cluster, r.IDs, r.IDsFrom, r.Gone = false, nil, nil, 2, []string{"a"} },
		func(r *report) { r.Cluster.Nodes[0].URL = "http://user@n1:9200/x?y" },
	} {
		body, err := json.Marshal(goodReport(change))
		require.NoError(f, err)
		f.Add(body, []byte(`{"state_version":7,"shards":[{"n":"a","i":[0,1,-1]}],"layout":{"Index":"a","Routing":{"Shards":2,"RoutingShards":4}}}`))
	}
	first, err := json.Marshal(goodReport(func(*report) {}))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body, target []byte) {
		fo := testFollower(new([]cluster.NodeStats))
		for _, body := range [][]byte{first, body, body} {
			r := &report{}
			if json.Unmarshal(body, r) != nil || r.Cluster != nil && r.Cluster.UUID != fo.own {
				continue
			}
			if fo.take(t, r) != nil {
				continue
			}
			s := fo.p.Snapshot()
			for _, n := range s.Nodes {
				require.True(t, n.URL == nil || n.URL.Scheme == "https" && n.URL.String() == "https://"+n.URL.Host)
			}
			for index := range s.Indices() {
				plan, miss := s.Resolve(index.Name, "")
				require.Equal(t, plan == nil, miss != cluster.MissNone)
			}
			require.False(t, s.PlacedAt.After(time.Now()))
		}
		fuzzTarget(t, fo.p.Store(), target)
	})
}

// fuzzTarget takes in what a relay may answer about a target.
func fuzzTarget(t *testing.T, store *cluster.Store, target []byte) {
	t.Helper()
	var told resolvedTarget
	if json.Unmarshal(target, &told) != nil {
		return
	}
	if told.valid(cluster.OfShards) == nil {
		asked := cluster.LookUp{Target: cluster.Target{Expression: "a,*"}}
		store.Targets().LookedUp(asked, &cluster.Resolved{Incomplete: told.Incomplete, Shards: unpackShards(told.Shards)})
		store.Publish()
		plan, miss := store.Snapshot().Resolve(asked.Expression, "")
		require.Equal(t, plan == nil, miss != cluster.MissNone)
	}
	if told.valid(cluster.OfLayout) == nil && told.Layout != nil && told.Layout.Miss == cluster.MissNone {
		number := told.Layout.Routing.Shard("id", "routing")
		require.GreaterOrEqual(t, number, 0)
		require.Less(t, number, told.Layout.Routing.Shards)
	}
}
