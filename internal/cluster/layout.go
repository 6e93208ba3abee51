package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"sidestep/internal/es"
)

// Layout says how the documents of an index are spread over its shards, or why
// reads of them by id are left alone.
type Layout struct {
	Index   string // the concrete index that a name stands for
	Routing es.Routing
	// Miss is [MissNone] where Routing tells the shard of a document and any copy of
	// it may be read.
	Miss Miss
}

// Locate returns what reading these documents touches: each shard that holds one
// of them, once. It does no I/O and takes no lock. [MissUnknownTarget] says that a
// layout is not known yet: call [Cluster.LearnLayout] with the name of each index.
func (s *Snapshot) Locate(docs []es.Document) (*Plan, Miss) {
	switch {
	case s.Engine.Serverless():
		return nil, MissUnsupported
	case s.table == nil:
		return nil, MissNoPlacement
	case len(docs) == 0:
		return nil, MissEmptyTarget
	}
	plan := &Plan{Exact: true}
	var seen map[ShardName]bool
	if len(docs) > 1 {
		seen = make(map[ShardName]bool)
	}
	for _, doc := range docs {
		name, copies, miss := s.locate(doc)
		if miss != MissNone {
			return nil, miss
		}
		if seen[name] {
			continue
		}
		if seen != nil {
			seen[name] = true
		}
		plan.Names = append(plan.Names, name)
		plan.Shards = append(plan.Shards, copies)
	}
	return plan, MissNone
}

// locate finds the shard of a document and the positions of the nodes that serve it.
func (s *Snapshot) locate(doc es.Document) (ShardName, []int, Miss) {
	if !isOneName(doc.Index) {
		return ShardName{}, nil, MissNotOneIndex
	}
	l := s.lesson(topic{Target: Target{Expression: doc.Index}, of: aboutLayout})
	if l == nil {
		return ShardName{}, nil, MissUnknownTarget
	}
	layout := l.layout
	if layout.Miss != MissNone {
		return ShardName{}, nil, layout.Miss
	}
	p := s.table.get(layout.Index)
	// Deleted, and perhaps created again with other shards, since it was learned.
	if p == nil || len(p.index.Shards) != layout.Routing.Shards {
		return ShardName{}, nil, MissUnknownTarget
	}
	p.use.mark(s)
	if !s.believes(p) {
		return ShardName{}, nil, MissUnknownTarget
	}
	if miss := p.forbids(s.frame); miss != MissNone {
		return ShardName{}, nil, miss
	}
	number := layout.Routing.Shard(doc.ID, doc.Routing)
	serving := p.serves(number, s.frame)
	if len(serving) == 0 {
		return ShardName{}, nil, MissShardUnavailable
	}
	return ShardName{Index: layout.Index, Number: number}, serving, MissNone
}

// isOneName tells what may be the name of one index or alias from index
// expressions, which reads by id do not take.
func isOneName(index string) bool {
	return index != "" && index != "_all" && !strings.ContainsAny(index, "*,<:")
}

// LearnLayout asks for the layout of the index with this name or alias to be
// looked up in the background, on the terms of [Cluster.Learn].
func (c *Cluster) LearnLayout(index string) {
	s := c.Snapshot()
	if s == nil || s.table == nil || !isOneName(index) {
		return
	}
	about := topic{Target: Target{Expression: index}, of: aboutLayout}
	if l := s.lesson(about); l != nil && l.layout.Index != "" {
		if p := s.table.get(l.layout.Index); p == nil || !s.believes(p) {
			c.school.renew(topic{Target: Target{Expression: l.layout.Index}, of: aboutPlacement})
		}
	}
	c.school.enrol(about, s.Version)
}

// lookUpLayout asks how the documents of an index are spread. An alias must stand
// for one index, and have no routing of its own.
func (c *Cluster) lookUpLayout(ctx context.Context, name string) (Layout, error) {
	var found []Layout
	deadline := min(localDeadline, c.o.PollTimeout)
	_, err := c.fleet.ask(ctx, query{
		kind: pollMetadata, path: layoutPath(name), deadline: deadline,
		decode: func(r io.Reader) (err error) {
			found, err = parseLayouts(r)
			return err
		},
	})
	switch {
	case err != nil:
		return Layout{}, err
	case len(found) != 1:
		return Layout{Miss: MissNotOneIndex}, nil
	case found[0].Index == name:
		return found[0], nil
	}
	var answer map[string]struct {
		Aliases map[string]struct {
			IndexRouting  string `json:"index_routing"`
			SearchRouting string `json:"search_routing"`
		} `json:"aliases"`
	}
	var engine Engine
	if s := c.Snapshot(); s != nil {
		engine = s.Engine
	}
	path := aliasPath(engine, found[0].Index)
	if _, err := c.fleet.ask(ctx, query{kind: pollAliases, path: path, deadline: deadline, decode: decodeJSON(&answer)}); err != nil {
		return Layout{}, err
	}
	alias, ok := answer[found[0].Index].Aliases[name]
	if !ok || alias.IndexRouting != "" || alias.SearchRouting != "" {
		return Layout{Miss: MissNotOneIndex}, nil
	}
	return found[0], nil
}

// aliasPath asks the node's own copy of the cluster state, too. From Elasticsearch 9.0 on
// every node answers from its own, and refuses the parameter.
func aliasPath(e Engine, index string) string {
	path := url.PathEscape(index) + "/_alias"
	if e.Distribution == elasticsearch && e.Major >= 9 {
		return path
	}
	return path + "?local=true"
}

// layoutPath asks the node's own copy of the cluster state.
func layoutPath(name string) string {
	const index = "metadata.indices.*."
	fields := []string{
		index + "routing_num_shards", index + "settings.index.number_of_shards", index + "settings.index.routing_partition_size",
		index + "settings.index.replication.type", index + "settings.index.mode", index + "settings.index.routing_path",
	}
	return "_cluster/state/metadata/" + url.PathEscape(name) + "?local=true&filter_path=" + strings.Join(fields, ",")
}

// parseLayouts reads the layouts in the metadata of a cluster state.
func parseLayouts(r io.Reader) ([]Layout, error) {
	var answer struct {
		Metadata struct {
			Indices map[string]indexMetadata `json:"indices"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return nil, fmt.Errorf("answer of _cluster/state/metadata: %w", err)
	}
	layouts := make([]Layout, 0, len(answer.Metadata.Indices))
	for name, meta := range answer.Metadata.Indices {
		l, err := meta.layout(name)
		if err != nil {
			return nil, err
		}
		layouts = append(layouts, l)
	}
	return layouts, nil
}

// indexMetadata is one index in the metadata of a cluster state. Settings are
// strings.
type indexMetadata struct {
	RoutingNumShards int `json:"routing_num_shards"`
	Settings         struct {
		Index struct {
			NumberOfShards string `json:"number_of_shards"`
			PartitionSize  string `json:"routing_partition_size"`
			Replication    struct {
				Type string `json:"type"`
			} `json:"replication"`
			Mode        string          `json:"mode"`
			RoutingPath json.RawMessage `json:"routing_path"` // a list or a string
		} `json:"index"`
	} `json:"settings"`
}

func (m indexMetadata) layout(name string) (Layout, error) {
	settings := m.Settings.Index
	l := Layout{Index: name}
	switch {
	case settings.Mode != "" && settings.Mode != "standard", len(settings.RoutingPath) > 0:
		l.Miss = MissRoutedByFields
		return l, nil
	case strings.EqualFold(settings.Replication.Type, "SEGMENT"):
		// Only without a preference does the engine read the primary, which alone has
		// what was just written.
		l.Miss = MissSegmentReplication
		return l, nil
	}
	shards, err := strconv.Atoi(settings.NumberOfShards)
	l.Routing = es.Routing{Shards: shards, RoutingShards: m.RoutingNumShards, PartitionSize: 1}
	if err == nil && settings.PartitionSize != "" {
		l.Routing.PartitionSize, err = strconv.Atoi(settings.PartitionSize)
	}
	if err != nil || !l.Routing.Valid() {
		return Layout{}, fmt.Errorf("index %q in the cluster state: %q shards, %d routing shards, partition size %q", name,
			settings.NumberOfShards, m.RoutingNumShards, settings.PartitionSize)
	}
	return l, nil
}
