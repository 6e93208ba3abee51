package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

const (
	soon = 30 * time.Second      // long enough on a busy machine, with the race detector
	tick = 10 * time.Millisecond // of require.Eventually
)

// fake is a cluster of HTTP servers, one per node, that answer as the engines do.
type fake struct {
	t *testing.T

	mu        sync.Mutex
	info      map[string]any
	uuid      string
	version   int64
	nodes     []*fakeNode
	indices   []Index
	settings  map[string]any
	targets   map[Target][]ShardName
	metadata  map[string]object            // by index: what the cluster state says of it
	aliases   map[string]map[string]object // by index and alias
	intercept func(node *fakeNode, w http.ResponseWriter, r *http.Request) bool
	asked     map[string]int // by path
}

type fakeNode struct {
	id, name string
	roles    []string
	server   *httptest.Server
	version  int64 // of its own cluster state if it lags behind
	search   rawPool
	write    rawPool
	queries  [2]int64 // query_total, query_time_in_millis
	answerID string   // if another node has the address
}

func newFake(t *testing.T, nodes int) *fake {
	f := &fake{
		t: t, uuid: "uuid-1", version: 10,
		info:    map[string]any{"cluster_name": "c", "version": map[string]any{"distribution": "opensearch", "number": "3.6.0"}},
		targets: map[Target][]ShardName{}, asked: map[string]int{},
		metadata: map[string]object{}, aliases: map[string]map[string]object{},
	}
	for i := range nodes {
		f.addNode("n" + strconv.Itoa(i+1))
	}
	return f
}

func (f *fake) addNode(id string) *fakeNode {
	n := &fakeNode{id: id, name: "name-" + id, roles: []string{"data", "ingest"}}
	n.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(n, w, r) }))
	f.t.Cleanup(func() {
		n.server.CloseClientConnections()
		n.server.Close()
	})
	f.change(func() { f.nodes = append(f.nodes, n) })
	return n
}

// change alters the cluster state.
func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.version++
}

// on makes handlers run before the usual answers; they return false to pass.
func (f *fake) on(handle func(n *fakeNode, w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intercept = handle
}

func (f *fake) count(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[path]
}

// hang answers nothing until the client gives up.
func hang(r *http.Request) { <-r.Context().Done() }

func (f *fake) serve(n *fakeNode, w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked[r.URL.Path]++
	intercept := f.intercept
	f.mu.Unlock()
	if intercept != nil && intercept(n, w, r) {
		return
	}
	f.mu.Lock()
	answer := f.answer(n, r)
	body, err := json.Marshal(answer)
	f.mu.Unlock()
	if err != nil || answer == nil {
		http.Error(w, `{"error":"no handler found"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

type object = map[string]any

// routedCopy is one copy in the routing table of the cluster state and in the
// answer of _search_shards.
type routedCopy struct {
	State      string `json:"state"`
	Primary    bool   `json:"primary"`
	SearchOnly bool   `json:"searchOnly"`
	Node       string `json:"node"`
	Shard      int    `json:"shard"`
	Index      string `json:"index"`
}

func writeJSON(w http.ResponseWriter, v any) error { return json.NewEncoder(w).Encode(v) }

func (f *fake) answer(n *fakeNode, r *http.Request) any {
	switch path := r.URL.Path; {
	case path == "/":
		f.info["cluster_uuid"] = f.uuid
		return f.info
	case path == "/_cluster/state/version":
		return object{"cluster_uuid": f.uuid, "version": f.versionAt(n)}
	case path == "/_cluster/state/nodes":
		return object{"nodes": f.stateNodes()}
	case strings.HasPrefix(path, "/_cluster/state/metadata/"):
		return f.metadataOf(strings.TrimPrefix(path, "/_cluster/state/metadata/"))
	case strings.HasSuffix(path, "/_alias"):
		index := strings.Trim(strings.TrimSuffix(path, "_alias"), "/")
		return object{index: object{"aliases": f.aliases[index]}}
	case strings.HasPrefix(path, "/_cluster/state/version,routing_table"):
		names := strings.Trim(strings.TrimPrefix(path, "/_cluster/state/version,routing_table"), "/")
		return f.routingTable(n, names)
	case path == "/_cat/shards":
		return f.catShards()
	case path == "/_nodes/http,os,thread_pool":
		nodes := object{}
		for _, n := range f.nodes {
			nodes[n.id] = object{
				"name": n.name, "roles": n.roles, "os": object{"allocated_processors": 2},
				"http": object{"publish_address": n.server.Listener.Addr().String()},
			}
		}
		return object{"nodes": nodes}
	case strings.HasPrefix(path, "/_nodes/_local/stats/"):
		id := n.id
		if n.answerID != "" {
			id = n.answerID
		}
		return object{"nodes": object{id: n.stats()}}
	case strings.HasPrefix(path, "/_nodes/stats/"):
		nodes := object{}
		for _, n := range f.nodes {
			nodes[n.id] = n.stats()
		}
		return object{"nodes": nodes}
	case strings.HasSuffix(path, "_search_shards"):
		return f.searchShards(strings.Trim(strings.TrimSuffix(path, "_search_shards"), "/"), r.URL.Query().Get("routing"))
	case strings.HasPrefix(path, "/_all/_settings/"):
		return f.settings
	}
	return nil
}

func (n *fakeNode) stats() object {
	return object{
		"thread_pool": object{"search": n.search, "write": n.write},
		"indices":     object{"search": object{"query_total": n.queries[0], "query_time_in_millis": n.queries[1]}},
	}
}

func (f *fake) stateNodes() object {
	nodes := object{}
	for _, n := range f.nodes {
		nodes[n.id] = object{"name": n.name, "ephemeral_id": "e-" + n.id}
	}
	return nodes
}

func (f *fake) catShards() any {
	rows := []object{}
	for _, index := range f.indices {
		for _, shard := range index.Shards {
			for _, c := range shard.Copies {
				row := object{"index": index.Name, "shard": strconv.Itoa(shard.Number), "prirep": string(c.Kind), "state": c.State, "id": nil, "node": nil}
				if c.Node != "" {
					row["id"], row["node"] = c.Node, "name-"+c.Node
				}
				if c.State == Relocating {
					row["node"] = "name-" + c.Node + " -> 10.0.0.1 nX name-nX"
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// versionAt is the version of the cluster state that a node has.
func (f *fake) versionAt(n *fakeNode) int64 {
	if n.version != 0 {
		return n.version
	}
	return f.version
}

// routingTable is about all indices, or those of these names.
func (f *fake) routingTable(n *fakeNode, names string) any {
	indices := object{}
	for _, index := range f.indices {
		if names != "" && !slices.Contains(strings.Split(names, ","), index.Name) {
			continue
		}
		shards := object{}
		for _, shard := range index.Shards {
			copies := []routedCopy{}
			for _, c := range shard.Copies {
				copies = append(copies, routedCopy{State: string(c.State), Primary: c.Kind == 'p', SearchOnly: c.Kind == 's', Node: c.Node, Shard: shard.Number, Index: index.Name})
			}
			shards[strconv.Itoa(shard.Number)] = copies
		}
		indices[index.Name] = object{"shards": shards}
	}
	return object{"cluster_uuid": f.uuid, "version": f.versionAt(n), "routing_table": object{"indices": indices}}
}

func (f *fake) searchShards(expression, routing string) any {
	groups := [][]routedCopy{}
	for _, name := range f.targets[Target{expression, routing}] {
		group := []routedCopy{}
		if name.Index != "" {
			group = append(group, routedCopy{State: "STARTED", Index: name.Index, Shard: name.Number})
		}
		groups = append(groups, group)
	}
	return object{"shards": groups}
}

// metadataOf answers for an index, or for all that an alias stands for.
func (f *fake) metadataOf(name string) any {
	indices := object{}
	for index, metadata := range f.metadata {
		if _, alias := f.aliases[index][name]; alias || index == name {
			indices[index] = metadata
		}
	}
	return object{"metadata": object{"indices": indices}}
}

// index makes an index whose shard i has a started copy on each node of copies[i],
// the first of them the primary.
func index(name string, copies ...[]string) Index {
	index := Index{Name: name}
	for number, nodes := range copies {
		shard := Shard{Index: name, Number: number}
		for i, node := range nodes {
			kind := byte('r')
			if i == 0 {
				kind = 'p'
			}
			shard.Copies = append(shard.Copies, Copy{Node: node, Kind: kind, State: Started})
		}
		index.Shards = append(index.Shards, shard)
	}
	return index
}

// watcher is a running cluster under test with all it reported.
type watcher struct {
	*Cluster
	t *testing.T

	mu        sync.Mutex
	snapshots []*Snapshot
	stats     []NodeStats
}

// watch starts sidestep's view of the fake with short intervals. The first node is
// the seed, unless tweak says otherwise.
func (f *fake) watch(tweak func(*Options)) *watcher {
	transport := &http.Transport{}
	w := &watcher{t: f.t}
	seed, err := url.Parse(f.nodes[0].server.URL)
	require.NoError(f.t, err)
	o := Options{
		Seeds: []*url.URL{seed}, Client: &http.Client{Transport: transport}, Registerer: prometheus.NewPedanticRegistry(),
		DiscoveryInterval: 50 * time.Millisecond, PlacementInterval: 20 * time.Millisecond,
		StatsInterval: 20 * time.Millisecond, StatsTimeout: 300 * time.Millisecond, PollTimeout: 500 * time.Millisecond,
		OnSnapshot: func(s *Snapshot) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.snapshots = append(w.snapshots, s)
		},
		OnStats: func(s NodeStats) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stats = append(w.stats, s)
		},
	}
	if tweak != nil {
		tweak(&o)
	}
	w.Cluster = New(o)
	w.Start(context.Background())
	f.t.Cleanup(func() {
		w.Stop()
		transport.CloseIdleConnections()
	})
	return w
}

func (w *watcher) eventually(what string, holds func() bool) {
	w.t.Helper()
	require.Eventually(w.t, holds, soon, tick, what)
}

// resolves waits until a target is served by the nodes with these ids.
func (w *watcher) resolves(target, routing string, want ...[]string) {
	w.t.Helper()
	w.eventually(target+" resolves", func() bool {
		s := w.Snapshot()
		return s != nil && slices.EqualFunc(nodesOf(s, target, routing), want, slices.Equal)
	})
}

func nodesOf(s *Snapshot, target, routing string) [][]string {
	plan, _ := s.Resolve(target, routing)
	if plan == nil {
		return nil
	}
	var ids [][]string
	for _, positions := range plan.Shards {
		var shard []string
		for _, at := range positions {
			shard = append(shard, s.Nodes[at].ID)
		}
		ids = append(ids, shard)
	}
	return ids
}

func (w *watcher) lastStats(node string) (NodeStats, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Backward(w.stats) {
		if s.Node == node {
			return s, true
		}
	}
	return NodeStats{}, false
}

func (w *watcher) missIs(target, routing string, want Miss) {
	w.t.Helper()
	w.eventually(target+" misses with "+string(want), func() bool {
		s := w.Snapshot()
		if s == nil {
			return false
		}
		_, miss := s.Resolve(target, routing)
		return miss == want
	})
}
