// Package simcluster is a simulated cluster that speaks the HTTP API of
// Elasticsearch and OpenSearch on loopback sockets, one listener per node. Shard
// queries run on simulated search thread pools with bounded queues and random
// service times, coordinating nodes choose copies as the engines do, and every
// node can be given faults at run time.
//
// Time is real: a shard query sleeps for its service time, it burns no
// processor. What is not modelled: the fetch phase as a round trip of its own
// (it is part of the shard query), Lucene (every document matches every query),
// which shard a hit comes from (by number, not by routing) and what is written
// (operations of bulks are counted by shard, and not kept).
package simcluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Engines that a cluster can pretend to be.
const (
	OpenSearch    = "opensearch"
	Elasticsearch = "elasticsearch"
)

// Options describe a cluster. The zero value of everything but Nodes has a
// default.
type Options struct {
	Nodes   int         // at least 1
	Indices []IndexSpec // created at start; more with [Cluster.CreateIndex]
	// Attributes are those of node-1, node-2, …, such as {"zone": "a"}; nodes beyond
	// them have none. Copies are spread over the nodes in turn, whatever they are.
	Attributes []map[string]string
	// Engine is [OpenSearch] (3.6.0, the default) or [Elasticsearch] (8.19.4).
	Engine string
	// Serverless makes an [Elasticsearch] one that shows neither nodes nor shards.
	Serverless bool
	// ServiceTime is the median time of a shard query, default 4 ms; Sigma the
	// standard deviation of its logarithm, default 0.4, negative for none.
	ServiceTime time.Duration
	Sigma       float64
	// Threads is the number of search threads of a node, default 4. QueueSize
	// bounds the shard queries waiting for one, default 1000, negative for none;
	// beyond it they are rejected.
	Threads   int
	QueueSize int
	// Adaptive switches the engine's own adaptive replica selection on. The
	// setting cluster.routing.use_adaptive_replica_selection changes it later.
	Adaptive bool
	// RecoveryTime is how long a copy initializes or relocates, default 300 ms.
	RecoveryTime time.Duration
	// Seed makes service times and rotations repeatable.
	Seed   uint64
	Logger *slog.Logger // default: none
}

// IndexSpec describes an index.
type IndexSpec struct {
	Name           string
	Shards         int // default 1
	Replicas       int
	SearchReplicas int // search-only replicas (OpenSearch)
	Aliases        []string
	// RoutingNumShards is a multiple of Shards; default Shards. RoutingPartitionSize is
	// over how many parts a routing value is spread, default 1.
	RoutingNumShards, RoutingPartitionSize int
	// SegmentReplication has documents read from the primary unless there is a
	// preference (OpenSearch).
	SegmentReplication bool
	// Docs is the number of documents, default 1000. All match every search.
	Docs int
}

func (o Options) withDefaults() (Options, error) {
	if o.Nodes < 1 {
		return o, errors.New("simcluster: Nodes must be at least 1")
	}
	if o.Engine == "" {
		o.Engine = OpenSearch
	}
	if o.Engine != OpenSearch && o.Engine != Elasticsearch {
		return o, fmt.Errorf("simcluster: unknown engine %q", o.Engine)
	}
	if o.Serverless && o.Engine != Elasticsearch {
		return o, errors.New("simcluster: only Elasticsearch is serverless")
	}
	if o.ServiceTime == 0 {
		o.ServiceTime = 4 * time.Millisecond
	}
	if o.Sigma == 0 {
		o.Sigma = 0.4
	}
	if o.Threads == 0 {
		o.Threads = 4
	}
	if o.QueueSize == 0 {
		o.QueueSize = 1000
	}
	if o.RecoveryTime == 0 {
		o.RecoveryTime = 300 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Sigma = max(o.Sigma, 0)
	o.QueueSize = max(o.QueueSize, 0)
	return o, nil
}

func (s IndexSpec) withDefaults() IndexSpec {
	s.Shards = max(s.Shards, 1)
	if s.Docs == 0 {
		s.Docs = 1000
	}
	if s.RoutingNumShards == 0 {
		s.RoutingNumShards = s.Shards
	}
	s.RoutingPartitionSize = max(s.RoutingPartitionSize, 1)
	return s
}
