// Package clustertest is what tests of the packages below cluster share: a cluster of
// HTTP servers that answer as the engines do, and a recorder of what is found out.
package clustertest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidestep/internal/cluster"
)

// Fake is a cluster of HTTP servers, one per node, that answer as the engines do.
type Fake struct {
	T *testing.T

	Mu        sync.Mutex
	Info      map[string]any
	UUID      string
	Version   int64
	Nodes     []*Node
	Indices   []cluster.Index
	Settings  map[string]any
	Announced Announcements
	Targets   map[cluster.Target][]cluster.ShardName
	Metadata  map[string]Object            // by index: what the cluster state says of it
	Aliases   map[string]map[string]Object // by index and alias
	intercept func(node *Node, w http.ResponseWriter, r *http.Request) bool
	Asked     map[string]int // by path
}

// Node is a node of a [Fake].
type Node struct {
	ID, name  string
	Roles     []string
	Server    *httptest.Server
	Version   int64 // of its own cluster state if it lags behind
	search    Pool
	Write     Pool
	Queries   [2]int64 // query_total, query_time_in_millis
	AnswerID  string   // if another node has the address
	Restarted string   // part of its ephemeral id
}

// Announcements are what a cluster tells of nodes that are to leave.
type Announcements struct {
	Settings Object // _cluster/settings
	Metadata Object // of the cluster state
}

// Pool is a thread pool of a node.
type Pool struct {
	Threads   int64 `json:"threads"`
	Queue     int64 `json:"queue"`
	Active    int64 `json:"active"`
	Completed int64 `json:"completed"`
	Rejected  int64 `json:"rejected"`
}

// New starts a cluster of so many nodes, n1, n2, …
func New(t *testing.T, nodes int) *Fake {
	f := &Fake{
		T: t, UUID: "uuid-1", Version: 10,
		Info:    map[string]any{"cluster_name": "c", "version": map[string]any{"distribution": "opensearch", "number": "3.6.0"}},
		Targets: map[cluster.Target][]cluster.ShardName{}, Asked: map[string]int{},
		Metadata: map[string]Object{}, Aliases: map[string]map[string]Object{},
	}
	for i := range nodes {
		f.AddNode("n" + strconv.Itoa(i+1))
	}
	return f
}

// AddNode has a node join.
func (f *Fake) AddNode(id string) *Node {
	n := &Node{ID: id, name: "name-" + id, Roles: []string{"data", "ingest"}}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.Serve(n, w, r) }))
	f.T.Cleanup(func() {
		n.Server.CloseClientConnections()
		n.Server.Close()
	})
	f.Change(func() { f.Nodes = append(f.Nodes, n) })
	return n
}

// Change alters the cluster state.
func (f *Fake) Change(do func()) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	do()
	f.Version++
}

// Lock keeps the cluster state as it is until unlock.
func (f *Fake) Lock() { f.Mu.Lock() }

// Unlock is the inverse of lock.
func (f *Fake) Unlock() { f.Mu.Unlock() }

// On makes handlers run before the usual answers; they return false to pass.
func (f *Fake) On(handle func(n *Node, w http.ResponseWriter, r *http.Request) bool) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.intercept = handle
}

// Count returns how often a path was asked for.
func (f *Fake) Count(path string) int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.Asked[path]
}

// Hang answers nothing until the client gives up.
func Hang(r *http.Request) { <-r.Context().Done() }

// Serve answers as a node.
func (f *Fake) Serve(n *Node, w http.ResponseWriter, r *http.Request) {
	f.Mu.Lock()
	f.Asked[r.URL.Path]++
	intercept := f.intercept
	f.Mu.Unlock()
	if intercept != nil && intercept(n, w, r) {
		return
	}
	f.Mu.Lock()
	answer := f.answer(n, r)
	body, err := json.Marshal(answer)
	f.Mu.Unlock()
	if err != nil || answer == nil {
		http.Error(w, `{"error":"no handler found"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// Object is a JSON object.
type Object = map[string]any

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

// WriteJSON answers v.
func WriteJSON(w http.ResponseWriter, v any) error { return json.NewEncoder(w).Encode(v) }

func (f *Fake) answer(n *Node, r *http.Request) any {
	switch path := r.URL.Path; {
	case path == "/":
		f.Info["cluster_uuid"] = f.UUID
		return f.Info
	case path == "/_cluster/state/version":
		return Object{"cluster_uuid": f.UUID, "version": f.versionAt(n)}
	case path == "/_cluster/state/version,nodes":
		return f.stateOf(n)
	case path == "/_cluster/settings":
		return f.Announced.Settings
	case path == "/_cluster/state/metadata":
		return Object{"metadata": f.Announced.Metadata}
	case strings.HasPrefix(path, "/_cluster/state/metadata/"):
		return f.metadataOf(strings.TrimPrefix(path, "/_cluster/state/metadata/"))
	case strings.HasSuffix(path, "/_alias"):
		index := strings.Trim(strings.TrimSuffix(path, "_alias"), "/")
		return Object{index: Object{"aliases": f.Aliases[index]}}
	case strings.HasPrefix(path, "/_cluster/state/version,routing_table"):
		names := strings.Trim(strings.TrimPrefix(path, "/_cluster/state/version,routing_table"), "/")
		return f.RoutingTable(n, names)
	case path == "/_nodes/http,os,thread_pool":
		nodes := Object{}
		for _, n := range f.Nodes {
			nodes[n.ID] = Object{
				"name": n.name, "host": "host-" + n.ID, "roles": n.Roles, "os": Object{"allocated_processors": 2},
				"http": Object{"publish_address": n.Server.Listener.Addr().String(), "max_content_length_in_bytes": 100 << 20},
			}
		}
		return Object{"nodes": nodes}
	case strings.HasPrefix(path, "/_nodes/_local/stats/"):
		id := n.ID
		if n.AnswerID != "" {
			id = n.AnswerID
		}
		return Object{"nodes": Object{id: n.stats()}}
	case strings.HasPrefix(path, "/_nodes/stats/"):
		nodes := Object{}
		for _, n := range f.Nodes {
			nodes[n.ID] = n.stats()
		}
		return Object{"nodes": nodes}
	case strings.HasSuffix(path, "_search_shards"):
		return f.searchShards(strings.Trim(strings.TrimSuffix(path, "_search_shards"), "/"), r.URL.Query().Get("routing"))
	case strings.HasPrefix(path, "/_all/_settings/"):
		return f.Settings
	}
	return nil
}

func (n *Node) stats() Object {
	return Object{
		"thread_pool": Object{"search": n.search, "write": n.Write},
		"indices":     Object{"search": Object{"query_total": n.Queries[0], "query_time_in_millis": n.Queries[1]}},
	}
}

// StateOf returns what the cluster state of a node says of the members.
func (f *Fake) StateOf(n *Node) Object {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.stateOf(n)
}

func (f *Fake) stateOf(n *Node) Object {
	return Object{"cluster_uuid": f.UUID, "version": f.versionAt(n), "nodes": f.stateNodes()}
}

func (f *Fake) stateNodes() Object {
	nodes := Object{}
	for _, n := range f.Nodes {
		nodes[n.ID] = Object{"name": n.name, "ephemeral_id": "e-" + n.ID + n.Restarted, "transport_address": "10.0.0." + strings.TrimPrefix(n.ID, "n") + ":9300"}
	}
	return nodes
}

// versionAt is the version of the cluster state that a node has.
func (f *Fake) versionAt(n *Node) int64 {
	if n.Version != 0 {
		return n.Version
	}
	return f.Version
}

// RoutingTable is about all indices, or those of these names.
func (f *Fake) RoutingTable(n *Node, names string) any {
	indices := Object{}
	for _, index := range f.Indices {
		if names != "" && !slices.Contains(strings.Split(names, ","), index.Name) {
			continue
		}
		shards := Object{}
		for _, shard := range index.Shards {
			copies := []routedCopy{}
			for _, c := range shard.Copies {
				copies = append(copies, routedCopy{State: string(c.State), Primary: c.Kind == 'p', SearchOnly: c.Kind == 's', Node: c.Node, Shard: shard.Number, Index: index.Name})
			}
			shards[strconv.Itoa(shard.Number)] = copies
		}
		indices[index.Name] = Object{"shards": shards}
	}
	return Object{"cluster_uuid": f.UUID, "version": f.versionAt(n), "routing_table": Object{"indices": indices}}
}

func (f *Fake) searchShards(expression, routing string) any {
	groups := [][]routedCopy{}
	for _, name := range f.Targets[cluster.Target{Expression: expression, Routing: routing}] {
		group := []routedCopy{}
		if name.Index != "" {
			group = append(group, routedCopy{State: "STARTED", Index: name.Index, Shard: name.Number})
		}
		groups = append(groups, group)
	}
	return Object{"shards": groups}
}

// metadataOf answers for an index, or for all that an alias stands for.
func (f *Fake) metadataOf(name string) any {
	indices := Object{}
	for index, metadata := range f.Metadata {
		if _, alias := f.Aliases[index][name]; alias || index == name {
			indices[index] = metadata
		}
	}
	return Object{"metadata": Object{"indices": indices}}
}

// Index makes an index whose shard i has a started copy on each node of copies[i],
// the first of them the primary.
func Index(name string, copies ...[]string) cluster.Index {
	index := cluster.Index{Name: name}
	for number, nodes := range copies {
		shard := cluster.Shard{Number: number}
		for i, node := range nodes {
			kind := byte('r')
			if i == 0 {
				kind = 'p'
			}
			shard.Copies = append(shard.Copies, cluster.Copy{Node: node, Kind: kind, State: cluster.Started})
		}
		index.Shards = append(index.Shards, shard)
	}
	return index
}

// InProcess asks the nodes of a fake without a connection, so that time can be virtual.
type InProcess struct {
	Fake    *Fake
	Takes   time.Duration // a look-up of a target that is not there
	LookUps *atomic.Int64 // of such targets
}

// Invented marks the targets that clients make up: the engine knows none of them.
const Invented = "invented-"

// RoundTrip implements http.RoundTripper.
func (p InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if strings.HasPrefix(r.URL.Path, "/"+Invented) && strings.HasSuffix(r.URL.Path, "/_search_shards") {
		p.LookUps.Add(1)
		select {
		case <-time.After(p.Takes):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		w.WriteHeader(http.StatusNotFound)
		_, err := w.WriteString(`{"error":{"type":"index_not_found_exception"},"status":404}`)
		return w.Result(), err
	}
	for _, n := range p.Fake.Nodes {
		if n.Server.Listener.Addr().String() == r.URL.Host {
			p.Fake.Serve(n, w, r)
		}
	}
	return w.Result(), nil
}
