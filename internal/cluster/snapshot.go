// Package cluster is the model of a cluster: its nodes, where every shard's copies are,
// what index expressions stand for, and how each node is doing. A [Store] keeps it and
// publishes immutable [Snapshot]s. It asks nobody: package poll asks the cluster, and
// package relay another sidestep.
package cluster

import (
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/benbjohnson/immutable"
)

// Distributions of the engine.
const (
	Elasticsearch = "elasticsearch"
	OpenSearch    = "opensearch"
)

// MaxShardNumber is far above what an engine allows an index to have (1024, with
// a system property more).
const MaxShardNumber = 1 << 20

// MaxSearchQueue bounds [Node.SearchQueue].
const MaxSearchQueue = 1 << 30

// Engine says what the upstream is.
type Engine struct {
	Distribution string `json:"distribution"` // [Elasticsearch] or [OpenSearch]
	Version      string `json:"version"`      // "8.19.4"
	Major        int    `json:"major"`
	Minor        int    `json:"minor"`
	BuildFlavor  string `json:"build_flavor"` // "default", "serverless", …; empty on OpenSearch
}

// Serverless reports whether the engine shows no shards: nothing can be steered.
func (e Engine) Serverless() bool { return e.BuildFlavor == "serverless" }

// Node is one node of the cluster. Immutable once published. A relay tells it as JSON.
type Node struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"`
	Roles []string `json:"roles"` // nil: unknown
	// URL is where the node answers HTTP (its http publish address with the
	// scheme of the seeds): scheme, host and port alone. It is nil while unknown, if
	// what was told is no such address, and for every node under static discovery.
	URL *url.URL `json:"-"`
	// Processors is os.allocated_processors, 0 while unknown.
	Processors int `json:"processors,omitempty"`
	// SearchQueue is how many tasks the queue of the search thread pool holds, 0 while
	// unknown.
	SearchQueue int `json:"search_queue,omitempty"`
	// MaxBody is how many bytes of a body the node takes (http.max_content_length), 0 while
	// unknown.
	MaxBody    int64             `json:"max_body,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	// EphemeralID is of the node's process: it changes when the node restarts. Empty while unknown.
	EphemeralID string `json:"ephemeral_id,omitempty"`
	// Leaving says that the cluster announces that the node is about to leave, or that the relay that is followed was told so.
	Leaving Departure `json:"leaving,omitempty"`
}

// Departure is what announces that a node is about to leave. The set is closed.
type Departure string

// What announces departures.
const (
	Stays          Departure = ""               // nothing does
	Excluded       Departure = "excluded"       // from the allocation of shards
	Decommissioned Departure = "decommissioned" // the value of an awareness attribute is (OpenSearch)
	ShuttingDown   Departure = "shutdown"       // _nodes/shutdown (Elasticsearch)

	// DrainedAtRelay is what no cluster announces, but the relay that is followed: an operator told it.
	DrainedAtRelay Departure = "drained_at_relay"
)

// Departures returns the closed set.
func Departures() []Departure {
	return []Departure{Stays, Excluded, Decommissioned, ShuttingDown, DrainedAtRelay}
}

// Data reports whether the node holds shards (any data role). A node whose roles
// are not known yet (Roles is nil) may.
func (n *Node) Data() bool {
	return n.Roles == nil || slices.ContainsFunc(n.Roles, isDataRole)
}

// ByID compares nodes as snapshots sort them.
func ByID(a, b *Node) int { return strings.Compare(a.ID, b.ID) }

// isDataRole also knows OpenSearch's roles for search-only replicas and warm
// indices.
func isDataRole(role string) bool {
	return role == "data" || strings.HasPrefix(role, "data_") || role == "search" || role == "warm"
}

// Coordinating reports whether the node may be sent client requests: dedicated
// cluster managers, machine learning and transform nodes may not.
func (n *Node) Coordinating() bool {
	if n.Data() || slices.Contains(n.Roles, "ingest") {
		return true
	}
	return !slices.ContainsFunc(n.Roles, isDedicatedRole)
}

func isDedicatedRole(role string) bool {
	switch role {
	case "master", "cluster_manager", "voting_only", "ml", "transform":
		return true
	}
	return false
}

// CopyState is the state of a shard copy as the engine prints it.
type CopyState string

// States of a copy. Only Started and Relocating copies serve searches.
const (
	Started      CopyState = "STARTED"
	Relocating   CopyState = "RELOCATING"
	Initializing CopyState = "INITIALIZING"
	Unassigned   CopyState = "UNASSIGNED"
)

// ParseCopyState returns the constants for the known states, so that the decoded
// strings can be freed.
func ParseCopyState(s string) CopyState {
	for _, known := range []CopyState{Started, Relocating, Initializing, Unassigned} {
		if string(known) == s {
			return known
		}
	}
	return CopyState(s)
}

// Copy is one copy of a shard.
type Copy struct {
	Node  string // node id; empty if unassigned. For a relocating copy the source, which still serves.
	Kind  byte   // 'p' primary, 'r' replica, 's' search-only replica
	State CopyState
}

// Serving reports whether the copy answers searches.
func (c Copy) Serving() bool {
	return c.Node != "" && (c.State == Started || c.State == Relocating)
}

// Shard is one shard of an index with all its copies.
type Shard struct {
	Number int
	Copies []Copy
}

// Index is one index with its shards, ordered by number.
type Index struct {
	Name   string
	Shards []Shard
}

// Plan is what a search on a target touches: for every shard the nodes whose
// copy may serve it.
type Plan struct {
	// Shards holds, for each shard touched, indexes into Snapshot.Nodes of the
	// nodes whose copy may serve a search.
	Shards [][]int
	// Names holds, parallel to Shards, index and number of each shard.
	Names []ShardName
	// Exact is false when the plan covers more shards than the search will touch
	// (routing not resolved yet): still safe to cover.
	Exact bool

	sets    [][]int // the different ones in Shards, nil if they were not looked for
	weights []int   // how often each is in Shards
	outline *Outline
}

// ShardName names a shard.
type ShardName struct {
	Index  string
	Number int
}

// Miss says why a target has no plan. The set is closed: used as a metric label.
type Miss string

// Reasons for having no plan.
const (
	MissNone             Miss = ""
	MissUnknownTarget    Miss = "unknown_target"    // being learned in the background
	MissShardUnavailable Miss = "shard_unavailable" // a shard touched has no serving copy
	MissNoPlacement      Miss = "no_placement"      // nothing known yet, or too old
	MissUnsupported      Miss = "unsupported_index" // serverless, remote snapshot, warm …
	MissClosed           Miss = "closed_index"      // the engine refuses it, in its own words
	MissEmptyTarget      Miss = "empty_target"      // resolves to no shard

	// Of reads by id alone:
	MissNotOneIndex        Miss = "not_one_index"       // no index, an alias of several or with a routing of its own
	MissRoutedByFields     Miss = "routed_by_fields"    // time series, logsdb, virtual shards: neither id nor routing tells the shard
	MissSegmentReplication Miss = "segment_replication" // the engine itself must find that no preference is given
)

// Misses returns the closed set, without MissNone.
func Misses() []Miss {
	return []Miss{
		MissUnknownTarget, MissShardUnavailable, MissNoPlacement, MissUnsupported, MissClosed, MissEmptyTarget,
		MissNotOneIndex, MissRoutedByFields, MissSegmentReplication,
	}
}

// Snapshot is everything known about the cluster at one moment. Immutable:
// readers need no lock and may keep it for the length of a request.
type Snapshot struct {
	Identity
	// Nodes, sorted by id. Plan.Shards and NodeStats refer to it by position.
	Nodes []*Node
	// PlacedAt is when the placement was last confirmed (fetched, or found
	// unchanged by its version). Zero while there is none.
	PlacedAt time.Time
	// Version is the cluster state version of the placement.
	Version int64

	frame   *frame
	table   *table // nil while there is no placement
	targets *immutable.Map[LookUp, *target]
	inUse   *inUse // nil where nobody wants to know
	// trusted is the version from which on the placement of an index is believed: an
	// index that nobody searched was not asked about since (see placer).
	trusted int64
	// stamp is when the snapshot was made, in Unix seconds: the time of day for uses.
	stamp int64
}

// Target is an index expression with the routing of a search on it.
type Target struct{ Expression, Routing string }

// Contents is what a [Snapshot] is made of.
type Contents struct {
	Engine                   Engine
	ClusterName, ClusterUUID string
	Nodes                    []*Node // in any order
	Indices                  []Index // nil while no placement is known
	// LeftAlone says why which indices are left alone.
	LeftAlone map[string]Miss
	// Targets holds the shards that learned targets stand for.
	Targets map[Target][]ShardName
	// Layouts holds the layouts that were learned, by name of the index or alias.
	Layouts  map[string]Layout
	PlacedAt time.Time
	Version  int64
}

// NewSnapshot builds a snapshot. It keeps the contents: they must not change
// afterwards.
func NewSnapshot(c Contents) *Snapshot {
	s := &Snapshot{
		Identity: Identity{c.Engine, c.ClusterName, c.ClusterUUID},
		Nodes:    slices.SortedFunc(slices.Values(c.Nodes), ByID),
		PlacedAt: c.PlacedAt,
		Version:  c.Version,
	}
	s.frame = newFrame(s.Nodes, c.LeftAlone)
	if c.Indices != nil {
		s.table = newTable(c.Indices, c.Version)
	}
	targets := immutable.NewMapBuilder[LookUp, *target](newHasher[LookUp]())
	for t, shards := range c.Targets {
		targets.Set(LookUp{Target: t}, &target{Resolved: Resolved{Shards: shards}})
	}
	for name, layout := range c.Layouts {
		targets.Set(LookUp{Target: Target{Expression: name}, Of: OfLayout}, &target{Resolved: Resolved{Layout: layout}})
	}
	s.targets = targets.Map()
	return s
}

// Position returns where the node with this id is in Nodes.
func (s *Snapshot) Position(id string) (int, bool) {
	i, ok := s.frame.positions[id]
	return i, ok
}

// Lookup returns the index of this name with all its copies, serving or not.
func (s *Snapshot) Lookup(index string) (*Index, bool) {
	if p := s.table.get(index); p != nil {
		return &p.index, true
	}
	return nil, false
}

// Indices visits all indices of the placement, in no order, and says of each whether
// its placement is new enough to be used. It walks over all there is: not for the path
// of a search.
func (s *Snapshot) Indices() iter.Seq2[*Index, bool] {
	return func(yield func(*Index, bool) bool) {
		s.table.each(func(p *placedIndex) bool { return yield(&p.index, s.believes(p)) })
	}
}

// HasPlacement reports whether it is known where shard copies are.
func (s *Snapshot) HasPlacement() bool { return s.table != nil }

// Believes reports whether the placement of an index is known, and new enough to be
// used.
func (s *Snapshot) Believes(index string) bool {
	p := s.table.get(index)
	return p != nil && s.believes(p)
}

// CountIndices returns how many indices the placement has.
func (s *Snapshot) CountIndices() int {
	if s.table == nil {
		return 0
	}
	return s.table.indices.Len()
}

// Use marks an index as in use, as a search on it does.
func (s *Snapshot) Use(index string) {
	if p := s.table.get(index); p != nil {
		p.use.mark(s)
	}
}

// LeftAlone returns the names of the indices that are left alone: closed ones, which the engines show as started, and those
// that are not supported. The map must not be changed.
func (s *Snapshot) LeftAlone() map[string]Miss { return s.frame.leftAlone }

// SameNodes reports whether engine and nodes are those of an earlier snapshot.
func (s *Snapshot) SameNodes(before *Snapshot) bool {
	return before.Engine == s.Engine && before.ClusterUUID == s.ClusterUUID && before.frame == s.frame
}

// SamePlacement reports whether the placement, and what is believed of it, is that of an
// earlier snapshot.
func (s *Snapshot) SamePlacement(before *Snapshot) bool {
	return before.table == s.table && before.trusted == s.trusted
}

// Resolve returns what a search on target with routing touches. It does no I/O
// and takes no lock. An unknown target returns [MissUnknownTarget], and a routing
// that is not known yet a plan that is not Exact: call [Store.Learn] with the
// same arguments in both cases. The plan is shared: it must not be changed.
func (s *Snapshot) Resolve(expression, routing string) (*Plan, Miss) {
	if s.Engine.Serverless() {
		return nil, MissUnsupported
	}
	if s.table == nil {
		return nil, MissNoPlacement
	}
	p := s.table.get(expression)
	if p != nil {
		p.use.mark(s)
		if !s.believes(p) {
			return nil, MissUnknownTarget
		}
		if routing == "" {
			r := &p.plansIn(s).whole
			return r.plan, r.miss
		}
	}
	if l := s.target(LookUp{Target: Target{expression, routing}}); l != nil {
		r := &l.joinedIn(s).whole
		return r.plan, r.miss
	}
	if p != nil {
		r := &p.plansIn(s).unrouted
		return r.plan, r.miss
	}
	if routing == "" {
		return nil, MissUnknownTarget
	}
	// Routing only ever leaves shards out, also on aliases with a routing of their
	// own: what covers the whole target covers the routed search.
	l := s.target(LookUp{Target: Target{Expression: expression}})
	if l == nil {
		return nil, MissUnknownTarget
	}
	r := &l.joinedIn(s).unrouted
	return r.plan, r.miss
}

// believes reports whether the placement of an index is new enough to be used.
func (s *Snapshot) believes(p *placedIndex) bool { return p.version.Load() >= s.trusted }

// target returns what was looked up, nil if nothing, and marks it as used.
func (s *Snapshot) target(t LookUp) *target {
	l, ok := s.targets.Get(t)
	if !ok {
		return nil
	}
	l.markUsed(s.stamp)
	return l
}
