package poll

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/testkit"
)

// leaving returns what is announced of each node that is about to leave, by id.
func leaving(s *cluster.Snapshot) map[string]cluster.Departure {
	found := map[string]cluster.Departure{}
	if s != nil {
		for _, n := range s.Nodes {
			if n.Leaving != cluster.Stays {
				found[n.ID] = n.Leaving
			}
		}
	}
	return found
}

// announcing is a cluster that is watched and whose nodes are about to leave.
type announcing struct {
	*watcher
	f *clustertest.Fake
}

func watchDepartures(t *testing.T, nodes int, tweak func(*Options)) announcing {
	t.Helper()
	f := clustertest.New(t, nodes)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1", "n2"})} })
	return announcing{watch(t, f, tweak), f}
}

// exclude has the cluster exclude nodes from allocation.
func (a announcing) exclude(about string, value any) {
	a.f.Change(func() {
		a.f.Announced.Settings = clustertest.Object{"persistent": clustertest.Object{exclusionKey + about: value, "cluster.other": "n1"}}
	})
}

// becomes waits until these nodes are about to leave, and no others.
func (a announcing) becomes(want map[string]cluster.Departure) {
	a.T.Helper()
	a.Eventually(fmt.Sprint(want, " are about to leave"), func() bool { return fmt.Sprint(leaving(a.Snapshot())) == fmt.Sprint(want) })
}

func one(id string, as cluster.Departure) map[string]cluster.Departure {
	return map[string]cluster.Departure{id: as}
}

func TestNodesExcludedFromAllocationAreAboutToLeave(t *testing.T) {
	t.Parallel()
	a := watchDepartures(t, 5, nil)
	for about, value := range map[string]any{
		"_name": "name-n2", "_id": "n2", "_host": "host-n2", "_ip": "10.0.0.2", "_publish_ip": "10.0.*.2",
	} {
		a.exclude(about, value)
		a.becomes(one("n2", cluster.Excluded))
		a.exclude(about, "")
		a.becomes(nil)
	}
	a.exclude("_name", []any{"gone", "*-n3, name-n4"})
	a.becomes(map[string]cluster.Departure{"n3": cluster.Excluded, "n4": cluster.Excluded})
	a.f.Change(func() {
		a.f.Announced.Settings["transient"] = clustertest.Object{exclusionKey + "_name": "name-n1"}
	})
	a.becomes(one("n1", cluster.Excluded))
	a.exclude("_name", "name-n*")
	a.becomes(nil) // data moves between halves of the cluster
}

func TestAnnouncedShutdowns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		metadata string
		want     map[string]cluster.Departure
	}{
		// As Elasticsearch tells of PUT _nodes/n2/shutdown.
		"shutdown":             {`{"node_shutdown":{"nodes":{"n2":{"type":"RESTART"}}}}`, one("n2", cluster.ShuttingDown)},
		"and of which process": {`{"node_shutdown":{"nodes":{"n2":{"type":"RESTART","node_ephemeral_id":"en2"}}}}`, one("n2", cluster.ShuttingDown)},
		"it may not be known":  {`{"node_shutdown":{"nodes":{"n2":{"type":"REMOVE","node_ephemeral_id":null}}}}`, one("n2", cluster.ShuttingDown)},
		"it was one before":    {`{"node_shutdown":{"nodes":{"n2":{"type":"RESTART","node_ephemeral_id":"before"}}}}`, map[string]cluster.Departure{}},
		"decommissioned":       {`{"decommissionedAttribute":{"awareness":{"rack":"r3"},"status":"draining","requestID":"x"}}`, one("n3", cluster.Decommissioned)},
		"failed":               {`{"decommissionedAttribute":{"awareness":{"rack":"r3"},"status":"failed","requestID":"x"}}`, map[string]cluster.Departure{}},
	} {
		var answer shutdowns
		require.NoError(t, json.Unmarshal([]byte(`{"metadata":`+c.metadata+`}`), &answer), name)
		d := departures{heard: map[string]announced{}}
		d.take(&answer)
		require.Equal(t, c.want, marked(&d, time.Unix(0, 0), nil), name)
	}
}

// replies are what a real engine answered to one question, by what had been announced.
type replies[T any] struct {
	Path    string       `json:"path"`
	Answers map[string]T `json:"answers"`
}

// What real engines answer to the questions that are asked, when nothing was announced, while it is, and when it was
// taken back. Of _nodes/shutdown there is no record: the distributions that tests start lack it.
func TestAnnouncementsOfRealEngines(t *testing.T) {
	t.Parallel()
	engines := map[string]cluster.Engine{
		"opensearch-3.6.0":     {Distribution: cluster.OpenSearch, Major: 3, Minor: 6},
		"elasticsearch-9.2.0":  {Distribution: cluster.Elasticsearch, Major: 9, Minor: 2},
		"elasticsearch-8.19.4": {Distribution: cluster.Elasticsearch, Major: 8, Minor: 19},
	}
	n2 := &cluster.Node{ID: "n2", Name: "node-2", Attributes: map[string]string{"zone": "b"}}
	n3 := &cluster.Node{ID: "n3", Name: "node-3", Attributes: map[string]string{"zone": "c"}}
	for name, engine := range engines {
		var recorded struct {
			Exclusions replies[exclusions] `json:"exclusions"`
			Shutdowns  replies[shutdowns]  `json:"shutdowns"`
		}
		require.NoError(t, json.NewDecoder(golden(t, name, "departures.json")).Decode(&recorded), name)
		require.Equal(t, recorded.Exclusions.Path, "/"+exclusionsPath(engine), "record the answers again")
		require.Equal(t, recorded.Shutdowns.Path, "/"+shutdownsPath(engine), "record the answers again")
		for announced, answer := range recorded.Exclusions.Answers {
			a := announcements{exclude: answer.patterns()}
			want := cluster.Stays
			if announced == "excluded" {
				want = cluster.Excluded
				require.Equal(t, []string{"x", "y"}, a.exclude["zone"], name)
				require.Len(t, a.exclude["_id"], 1, name)
			}
			require.Equal(t, want, a.about(n2, "", stateNode{}), "%s: %s", name, announced)
			require.Equal(t, cluster.Stays, a.about(n3, "", stateNode{}), "%s: %s", name, announced)
		}
		for status, answer := range recorded.Shutdowns.Answers {
			var a announcements
			a.take(&answer)
			want := cluster.Decommissioned
			if status == "none" {
				want = cluster.Stays
			}
			require.Equal(t, want, a.about(n3, "", stateNode{}), "%s: %s", name, status)
			require.Equal(t, cluster.Stays, a.about(n2, "", stateNode{}), "%s: %s", name, status)
		}
	}
}

// marked returns which of five nodes are about to leave. The ephemeral ids of nodes in
// restarted are others than usual, and those for which it is "-" are away.
func marked(d *departures, now time.Time, restarted map[string]string) map[string]cluster.Departure {
	var nodes []*cluster.Node
	states := map[string]stateNode{}
	for i := range 5 {
		id := fmt.Sprint("n", i+1)
		if restarted[id] == "-" {
			continue
		}
		nodes = append(nodes, &cluster.Node{ID: id, Name: id, Roles: []string{"data"}, Attributes: map[string]string{"rack": fmt.Sprint("r", i+1)}})
		states[id] = stateNode{EphemeralID: "e" + id + restarted[id]}
	}
	d.mark(nodes, nil, states, nil, now)
	return leaving(&cluster.Snapshot{Nodes: nodes})
}

// An exclusion that nobody takes back does not keep a node from searches for good: operators
// leave them behind (opensearch-k8s-operator#1355).
func TestAnnouncementsThatAreLeftBehindAreForgotten(t *testing.T) {
	t.Parallel()
	excluded := func() *departures {
		d := &departures{heard: map[string]announced{}}
		d.exclude = map[string][]string{"_name": {"n2"}}
		return d
	}
	start, none := time.Unix(1000, 0), map[string]cluster.Departure{}
	at := start.Add

	d := excluded()
	require.Equal(t, one("n2", cluster.Excluded), marked(d, start, nil))
	require.Equal(t, one("n2", cluster.Excluded), marked(d, at(announcedFor-1), nil))
	require.Equal(t, none, marked(d, at(announcedFor), nil), "it stays beyond its time")
	d.shutdown = map[string]string{"n2": ""}
	require.Equal(t, one("n2", cluster.ShuttingDown), marked(d, at(announcedFor), nil), "something else is announced")
	d.shutdown, d.exclude = nil, nil
	require.Equal(t, none, marked(d, at(announcedFor), nil))
	d.exclude = excluded().exclude
	require.Equal(t, one("n2", cluster.Excluded), marked(d, at(2*announcedFor), nil), "it was taken back and is announced again")

	d = excluded()
	require.Equal(t, one("n2", cluster.Excluded), marked(d, start, nil))
	require.Equal(t, none, marked(d, at(time.Minute), map[string]string{"n2": "-"}))
	require.Equal(t, none, marked(d, at(2*time.Minute), map[string]string{"n2": "2"}), "it has restarted")
	require.Equal(t, none, marked(d, at(3*time.Minute), map[string]string{"n2": "2"}))

	marked(d, at(2*rememberedFor), map[string]string{"n2": "-"})
	require.Empty(t, d.heard, "nodes that do not come back")
}

func TestTooManyAnnouncementsAreAMigration(t *testing.T) {
	t.Parallel()
	d := &departures{heard: map[string]announced{}}
	d.exclude = map[string][]string{"_name": {"n2", "n3"}}
	require.Len(t, marked(d, time.Unix(0, 0), nil), 2)
	d.exclude["_name"] = []string{"n2", "n3", "n4"}
	require.Empty(t, marked(d, time.Unix(0, 0), nil))
	require.Len(t, marked(d, time.Unix(0, 0), map[string]string{"n2": "2"}), 2, "one of them has restarted")
}

// What is published is not changed any more.
func TestMarksAreMadeOnCopies(t *testing.T) {
	t.Parallel()
	n := &cluster.Node{ID: "n1", Roles: []string{"data"}}
	nodes := []*cluster.Node{n, {ID: "n2", Roles: []string{"data"}}}
	d := &departures{heard: map[string]announced{}, announcements: announcements{shutdown: map[string]string{"n1": ""}}}
	d.mark(nodes, nil, nil, nil, time.Unix(0, 0))
	require.Equal(t, cluster.ShuttingDown, nodes[0].Leaving)
	require.Equal(t, cluster.Stays, n.Leaving)
}

// The engine is asked when its state moved, and for what is costly rarely even then.
func TestAnnouncementsAreReadRarely(t *testing.T) {
	t.Parallel()
	a := watchDepartures(t, 3, nil)
	a.Eventually("asked", func() bool { return a.f.Count("/_cluster/settings") > 0 && a.Ready() == nil })
	discoveries := func() int { return a.f.Count("/_cluster/state/version,nodes") }
	more := func() {
		settled := discoveries() + 4
		a.Eventually("discoveries", func() bool { return discoveries() > settled })
	}
	more() // the version is known
	asked := a.f.Count("/_cluster/settings")
	more()
	require.Equal(t, asked, a.f.Count("/_cluster/settings"), "nothing moved")
	a.f.Change(func() {})
	a.Eventually("it moved", func() bool { return a.f.Count("/_cluster/settings") > asked })
}

// Nodes apply a cluster state one after the other. What one that is behind tells is not taken for
// what the newest state says, even if nothing moves any more.
func TestAnnouncementsOfANodeThatIsBehind(t *testing.T) {
	t.Parallel()
	a := watchDepartures(t, 3, nil)
	a.exclude("_name", "name-n2")
	a.becomes(one("n2", cluster.Excluded))
	a.f.Lock()
	old, before := a.f.Announced.Settings, a.f.Version
	a.f.Unlock()
	var behind atomic.Bool
	behind.Store(true)
	a.f.On(func(n *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if !behind.Load() || r.URL.Path == "/_cluster/state/version" {
			return false // polls of the version are answered by one that is ahead
		}
		switch r.URL.Path {
		case "/_cluster/settings":
			return json.NewEncoder(w).Encode(old) == nil
		case "/_cluster/state/version,nodes":
			answer := a.f.StateOf(n)
			answer["version"] = before
			return json.NewEncoder(w).Encode(answer) == nil
		}
		return false
	})
	a.exclude("_name", "")
	discoveries := func() int { return a.f.Count("/_cluster/state/version,nodes") }
	asked := discoveries() + 3
	a.Eventually("the version is known, and what is behind was asked", func() bool {
		a.f.Lock()
		defer a.f.Unlock()
		return a.Snapshot().Version == a.f.Version && a.f.Asked["/_cluster/state/version,nodes"] > asked
	})
	require.Equal(t, one("n2", cluster.Excluded), leaving(a.Snapshot()))
	behind.Store(false)
	a.becomes(nil)
}

// Without the permission no node leaves. It is logged once, and the polls are counted.
func TestAccountThatMayNotReadAnnouncements(t *testing.T) {
	t.Parallel()
	log := &testkit.Log{}
	a := watchDepartures(t, 3, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	a.f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if !slices.Contains([]string{"/_cluster/settings", "/_cluster/state/metadata"}, r.URL.Path) {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	a.exclude("_name", "name-n2")
	count := func() float64 {
		return a.Metric("sidestep_cluster_polls_total", string(kindExclusions), string(cluster.PollFailed))
	}
	a.Eventually("asked and refused", func() bool { return count() > 3 && a.Ready() == nil })
	require.Empty(t, leaving(a.Snapshot()))
	require.Equal(t, 1, strings.Count(log.String(), "it cannot be read which nodes are to leave"))
}

// A node of which a relay told that it is about to leave does not stay because the relay fell silent. What own polls find
// counts as soon as they have asked.
func TestDeparturesThatARelayTold(t *testing.T) {
	t.Parallel()
	for _, told := range []cluster.Departure{cluster.Excluded, cluster.Decommissioned, cluster.ShuttingDown} {
		t.Run(string(told), func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, 3)
			var refuses atomic.Bool
			f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
				if !refuses.Load() || r.URL.Path != "/_cluster/settings" {
					return false
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			seed, err := url.Parse(f.Nodes[0].Server.URL)
			require.NoError(t, err)
			p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{seed}, Client: f.Nodes[0].Server.Client(), Source: silent{}})
			found := &cluster.Identity{ClusterUUID: f.UUID}
			for range 2 {
				p.DiscoveredByRelay(found, []*cluster.Node{{ID: "n1"}, {ID: "n2", Leaving: told}, {ID: "n3"}}, nil, nil)
				p.takeOver(p.Snapshot())
				p.departures.after = time.Now().Add(time.Hour) // it is drawn by lot
				refuses.Store(true)
				for range 3 {
					require.NoError(t, p.discover(t.Context()))
					require.Equal(t, one("n2", told), leaving(p.Snapshot()))
				}
				refuses.Store(false)
				p.departures.after = time.Time{}
				f.Change(func() {})
				require.NoError(t, p.discover(t.Context()))
				require.Empty(t, leaving(p.Snapshot()))
			}
		})
	}
}

// A drain of which a relay told outlives its silence, as the cluster does not know of it, but not the process of the node,
// also if that ended before the first own poll. It has no bound: what an operator says holds of any number of nodes, and again after
// the relay was silent before.
func TestADrainThatARelayToldOutlivesIt(t *testing.T) {
	t.Parallel()
	for _, polled := range []bool{true, false} {
		f := clustertest.New(t, 3)
		seed, err := url.Parse(f.Nodes[0].Server.URL)
		require.NoError(t, err)
		p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{seed}, Client: f.Nodes[0].Server.Client(), Source: silent{}})
		nodes := []*cluster.Node{{ID: "n1"}}
		for _, id := range []string{"n2", "n3"} {
			nodes = append(nodes, &cluster.Node{ID: id, EphemeralID: "e-" + id, Leaving: cluster.DrainedAtRelay})
		}
		p.DiscoveredByRelay(&cluster.Identity{ClusterUUID: f.UUID}, nodes, nil, nil)
		p.takeOver(p.Snapshot())
		p.departures.heard["n2"] = announced{cluster.DrainedAtRelay, "e-n2", time.Now().Add(-announcedFor)}
		p.takeOver(p.Snapshot())
		p.departures.after = time.Time{} // it is drawn by lot
		if polled {
			for range 3 {
				require.NoError(t, p.discover(t.Context()))
				require.Equal(t, map[string]cluster.Departure{"n2": cluster.DrainedAtRelay, "n3": cluster.DrainedAtRelay}, leaving(p.Snapshot()))
			}
		}
		f.Change(func() { f.Nodes[1].Restarted = "-again" })
		require.NoError(t, p.discover(t.Context()))
		require.Equal(t, one("n3", cluster.DrainedAtRelay), leaving(p.Snapshot()))
	}
}

// What spreads the reads of many after a relay fell silent is kept when they first learn which cluster it is.
func TestTheFirstReadAfterARelayWaits(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{seed}, Client: &http.Client{Transport: &http.Transport{}}})
	discover(p, nil)
	p.takeOver(cluster.NewSnapshot(cluster.Contents{ClusterUUID: f.UUID}))
	require.NotZero(t, p.departures.after)
	p.departures.after = time.Now().Add(time.Hour) // it is drawn by lot
	p.readDepartures(t.Context(), seed, &cluster.Identity{ClusterUUID: f.UUID}, 7)
	require.Zero(t, f.Count("/_cluster/state/metadata"))
	p.readDepartures(t.Context(), seed, &cluster.Identity{ClusterUUID: "another"}, 7)
	require.Equal(t, 1, f.Count("/_cluster/state/metadata"), "that was the cost of the other cluster's answers")
}
