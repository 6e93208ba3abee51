// Package relay hands one sidestep's view of a cluster to others, so that one polls
// instead of hundreds: [Server] tells it, [Follower] reads it.
package relay

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
)

// What a relay says. A relay is a sidestep that others ask for what it knows of the
// cluster, so that one polls instead of hundreds. The protocol has three requests,
// all of them without state in the relay that a reader could not tell it anew, so that any
// number of relays may stand behind one address, if that leads a reader to one of them:
//
//	GET  /snapshot?version=1&relay=ID&after=N&busy=true&suspects=3,17
//	GET  /snapshot/target?version=1&about=shards&expression=E&routing=R
//	POST /snapshot/uses?version=1 ["index", …]
//
// The first answers with one [report]: what has changed since report N of the relay
// ID. Everything, if that is another relay (it started again, or a second one has the
// address), or if N is too old to tell. It answers once there is a newer report, which
// is after one interval of statistics at most. busy says that searches come, so that
// statistics matter. suspects names nodes, by their place in the list of that relay, which the relay
// is to probe: for all of its readers it sends as many probes as for one.
//
// The second answers with a [resolvedTarget]: what the index expression stands for, from
// the relay's memory or, once for all who ask, from the cluster. about is shards or
// layout.
//
// The third says which indices are searched, so that the relay keeps their placement
// up to date and looks where they are if it does not know: a sidestep says so within
// [usesPause], again every [usesInterval], and when it misses one. The body is gzip'd, the answer is 204.
//
// Answers are JSON and always gzip'd. A relay that has nothing good to tell (it is not
// ready, its placement is old, it follows a relay itself) answers 503, and one that
// speaks another version 400: whoever asks then polls the cluster himself.
const relayVersion = 1

// Pages below the address of the snapshot.
const (
	targetPage = "/target"
	usesPage   = "/uses"
)

const (
	// usesInterval is how often a sidestep says that an index is searched.
	usesInterval = cluster.UseExpiry / 4
	// usesPause is between two times that it says so of any. It is well below
	// BelieveFor: an index is usually up to date before it would not be believed any more.
	usesPause = 10 * time.Second
	// usesAtOnce is how many indices it names at once: a relay reads maxUses at most.
	usesAtOnce = 10_000
)

// report is what changed since another report.
type report struct {
	Version int    `json:"version"` // relayVersion
	Relay   string `json:"relay"`   // changes when the relay starts
	Seq     int64  `json:"seq"`
	// Full says that this is everything: forget what other reports said.
	Full bool `json:"full,omitempty"`
	// Now is when the report was made, in ms since the relay started, as all times.
	Now int64 `json:"now"`
	// Cluster is there if engine or nodes changed.
	Cluster *reportedCluster `json:"cluster,omitempty"`
	// IDs continues the list of node ids at IDsFrom. Nodes are named by their place
	// in the whole list below, which is the same for the life of a relay.
	IDs       []string          `json:"ids,omitempty"`
	IDsFrom   int               `json:"ids_from,omitempty"`
	Placement reportedPlacement `json:"placement"`
	Indices   []reportedIndex   `json:"indices,omitempty"` // changed or new
	Gone      []string          `json:"gone,omitempty"`    // deleted indices
	Stats     []reportedStats   `json:"stats,omitempty"`   // by node
	Failures  []reportedFailure `json:"failures,omitempty"`
	Seen      []reportedSeen    `json:"seen,omitempty"`
	// Readers is how many sidesteps read these reports, about. A relay that is older does not tell. It
	// decides how rarely they probe, so whatever it is, it does no harm.
	Readers int `json:"readers,omitempty"`
	// Findings are what probes found since, and not part of everything.
	Findings []reportedFinding `json:"findings,omitempty"`
}

type reportedCluster struct {
	Engine      cluster.Engine `json:"engine"`
	Name        string         `json:"name"`
	UUID        string         `json:"uuid"`
	Nodes       []reportedNode `json:"nodes"`
	Unsupported []string       `json:"unsupported,omitempty"` // indices that are left alone
	Closed      []string       `json:"closed,omitempty"`      // those of them that are closed
}

// reportedNode is a node and its address.
type reportedNode struct {
	cluster.Node
	URL string `json:"url,omitempty"`
}

type reportedPlacement struct {
	Version int64  `json:"version"` // of the cluster state
	Source  string `json:"source"`  // placementSource: readers of the version before want one
	At      int64  `json:"at"`      // when it was last confirmed
}

// placementSource is the one way in which placements are read.
const placementSource = "routing_table"

type reportedIndex struct {
	Name string `json:"n"`
	// Stale says that nobody searched it, so that it may be elsewhere by now.
	Stale  bool            `json:"x,omitempty"`
	Shards []reportedShard `json:"s"`
}

type reportedShard struct {
	Number int            `json:"i,omitempty"`
	Copies []reportedCopy `json:"c"`
}

type reportedCopy struct {
	Node  int               `json:"n"` // -1: none
	Kind  string            `json:"k"`
	State cluster.CopyState `json:"s,omitempty"` // STARTED if empty
}

// reportedStats are the counters of a node as they stand: whoever missed a report
// misses nothing. They are the node, when it answered, how long that took (µs), and
// the fields of [counters] in their order.
type reportedStats [3 + counterFields]int64

// counterFields is how many numbers of a node are reported.
// A relay of an older version reports the first 13, 17 or 21; the others are 0.
const counterFields = 23

// countersOf returns the numbers of a node that are reported.
func countersOf(r *poll.RawStats) (n [counterFields]int64) {
	pool, worker, write, search, cpu := r.ThreadPool.Search, r.ThreadPool.SearchWorker, r.ThreadPool.Write, r.Indices.Search, r.OS.Cgroup.CPU
	return [counterFields]int64{
		pool.Threads, pool.Queue, pool.Active, pool.Completed, worker.Threads, worker.Queue, worker.Active,
		search.Queries, search.QueryMillis, search.FetchMillis,
		pool.Rejected, worker.Completed, worker.Rejected,
		write.Queue, write.Active, write.Completed, write.Rejected,
		write.Threads, max(0, cpu.Quota), max(0, cpu.Period), max(0, cpu.Stat.Throttled), // -1: no quota
		max(0, r.Process.CPU.Total), max(0, r.Process.At),
	}
}

// raw returns the statistics that were reported.
func (s reportedStats) raw() *poll.RawStats {
	n := s[3:]
	r := &poll.RawStats{}
	r.ThreadPool.Search = &poll.RawPool{Threads: n[0], Queue: n[1], Active: n[2], Completed: n[3], Rejected: n[10]}
	r.ThreadPool.SearchWorker = poll.RawPool{Threads: n[4], Queue: n[5], Active: n[6], Completed: n[11], Rejected: n[12]}
	r.ThreadPool.Write = poll.RawPool{Queue: n[13], Active: n[14], Completed: n[15], Rejected: n[16], Threads: n[17]}
	r.OS.Cgroup.CPU.Quota, r.OS.Cgroup.CPU.Period, r.OS.Cgroup.CPU.Stat.Throttled = n[18], n[19], n[20]
	r.Process.CPU.Total, r.Process.At = n[21], n[22]
	r.Indices.Search = poll.RawSearch{Queries: n[7], QueryMillis: n[8], FetchMillis: n[9]}
	return r
}

// reportedFailure is a node that did not answer its last poll.
type reportedFailure struct {
	Node  int               `json:"n"`
	At    int64             `json:"at"`
	Took  int64             `json:"took"` // µs
	State cluster.PollState `json:"state"`
	Error string            `json:"error,omitempty"`
}

// reportedSeen is what a coordinating node saw of others: pairs of three, which node,
// its response time in µs, and that when it last told.
type reportedSeen struct {
	Node   int     `json:"n"`
	Others []int64 `json:"o"`
}

// reportedFinding is a [cluster.Finding].
type reportedFinding struct {
	Sent   int64           `json:"at"`
	Local  bool            `json:"local,omitempty"`
	Probes []reportedProbe `json:"p"`
}

// reportedProbe is a [cluster.FoundProbe].
type reportedProbe struct {
	Node   int    `json:"n"`
	Via    int    `json:"v"`
	Burst  bool   `json:"burst,omitempty"`
	Took   int64  `json:"took"` // µs
	Failed bool   `json:"failed,omitempty"`
	Error  string `json:"error,omitempty"`
}

// reportCluster puts engine and nodes, of which some are drained, and which indices are left alone, into the form of a
// report.
func reportCluster(s *cluster.Snapshot, drained []string) *reportedCluster {
	told := &reportedCluster{
		Engine: s.Engine, Name: s.ClusterName, UUID: s.ClusterUUID, Nodes: reportNodes(s.Nodes, drained), Unsupported: slices.Sorted(maps.Keys(s.LeftAlone())),
	}
	for _, index := range told.Unsupported {
		if s.LeftAlone()[index] == cluster.MissClosed {
			told.Closed = append(told.Closed, index)
		}
	}
	return told
}

// reportNodes puts nodes into the form of a report.
func reportNodes(nodes []*cluster.Node, drained []string) []reportedNode {
	out := make([]reportedNode, len(nodes))
	for i, n := range nodes {
		out[i].Node = *n
		if n.Leaving == cluster.Stays && slices.Contains(drained, n.ID) {
			out[i].Leaving = cluster.DrainedAtRelay
		}
		if n.URL != nil {
			out[i].URL = n.URL.String()
		}
	}
	return out
}

// reportIndex puts the placement of an index into the form of a report; number
// returns the place of a node id in the list of ids.
func reportIndex(index *cluster.Index, number func(id string) int) reportedIndex {
	out := reportedIndex{Name: index.Name, Shards: make([]reportedShard, len(index.Shards))}
	for i, shard := range index.Shards {
		copies := make([]reportedCopy, len(shard.Copies))
		for j, c := range shard.Copies {
			copies[j] = reportedCopy{Node: number(c.Node), Kind: string(rune(c.Kind)), State: c.State}
			if c.State == cluster.Started {
				copies[j].State = ""
			}
		}
		out.Shards[i] = reportedShard{Number: shard.Number, Copies: copies}
	}
	return out
}

// index is the inverse of reportIndex; id returns the node id at a place.
func (r reportedIndex) index(id func(number int) string) cluster.Index {
	index := cluster.Index{Name: strings.Clone(r.Name), Shards: make([]cluster.Shard, len(r.Shards))}
	for i, shard := range r.Shards {
		copies := make([]cluster.Copy, len(shard.Copies))
		for j, c := range shard.Copies {
			copies[j] = cluster.Copy{Node: id(c.Node), State: cluster.Started}
			if c.State != "" {
				copies[j].State = cluster.ParseCopyState(string(c.State))
			}
			if len(c.Kind) == 1 {
				copies[j].Kind = c.Kind[0]
			}
		}
		index.Shards[i] = cluster.Shard{Number: shard.Number, Copies: copies}
	}
	return index
}

// resolvedTarget is what a target stands for.
type resolvedTarget struct {
	// StateVersion is that of the cluster state when it was looked up, at the latest.
	StateVersion int64 `json:"state_version"`
	// Age is how long ago that was, in ms. A relay that is older does not tell.
	Age        int64           `json:"age,omitempty"`
	Unknown    bool            `json:"unknown,omitempty"`
	Incomplete bool            `json:"incomplete,omitempty"`
	Shards     []packedShards  `json:"shards,omitempty"`
	Layout     *cluster.Layout `json:"layout,omitempty"`
}

// tellOf puts what was found into the form of an answer.
func tellOf(of cluster.Subject, found *cluster.Resolved, now time.Time) *resolvedTarget {
	told := &resolvedTarget{
		StateVersion: found.Version, Age: now.Sub(found.At).Milliseconds(),
		Unknown: found.Unknown, Incomplete: found.Incomplete, Shards: packShards(found.Shards),
	}
	if of == cluster.OfLayout && !found.Unknown {
		told.Layout = &found.Layout
	}
	return told
}

// packedShards are shards of an index that follow each other.
type packedShards struct {
	Index   string `json:"n"`
	Numbers []int  `json:"i"`
}

// packShards gathers shards that follow each other by index.
func packShards(shards []cluster.ShardName) (packed []packedShards) {
	for i, s := range shards {
		if i == 0 || shards[i-1].Index != s.Index {
			packed = append(packed, packedShards{Index: s.Index})
		}
		last := &packed[len(packed)-1]
		last.Numbers = append(last.Numbers, s.Number)
	}
	return packed
}

// unpackShards is the inverse of packShards.
func unpackShards(packed []packedShards) (shards []cluster.ShardName) {
	for _, p := range packed {
		for _, number := range p.Numbers {
			shards = append(shards, cluster.ShardName{Index: p.Index, Number: number})
		}
	}
	return shards
}
