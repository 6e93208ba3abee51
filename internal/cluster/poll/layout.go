package poll

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
)

// lookUpLayout asks how the documents of an index are spread. An alias must stand
// for one index, and have no routing of its own.
func (p *Poller) lookUpLayout(ctx context.Context, name string, began *time.Time) (cluster.Layout, error) {
	var found []cluster.Layout
	deadline := min(localDeadline, p.o.PollTimeout)
	from, err := p.endpoints.askFirst(ctx, p.newest.Load(), Query{
		Kind: kindMetadata, Path: layoutPath(p.engine(), name), Deadline: deadline, ofName: true, began: began,
		Decode: func(r io.Reader) (err error) {
			found, err = parseLayouts(r)
			return err
		},
	})
	switch {
	case err != nil:
		return cluster.Layout{}, err
	case len(found) != 1:
		return cluster.Layout{Miss: cluster.MissNotOneIndex}, nil
	case found[0].Index == name:
		return found[0], nil
	}
	var answer map[string]struct {
		Aliases map[string]struct {
			IndexRouting  string `json:"index_routing"`
			SearchRouting string `json:"search_routing"`
		} `json:"aliases"`
	}
	path := aliasPath(p.engine(), found[0].Index)
	if _, err := p.endpoints.askFirst(ctx, from, Query{Kind: kindAliases, Path: path, Deadline: deadline, Decode: DecodeJSON(&answer)}); err != nil {
		return cluster.Layout{}, err
	}
	alias, ok := answer[found[0].Index].Aliases[name]
	if !ok || alias.IndexRouting != "" || alias.SearchRouting != "" {
		return cluster.Layout{Miss: cluster.MissNotOneIndex}, nil
	}
	return found[0], nil
}

// aliasPath asks for the aliases of an index. From Elasticsearch 9.0 on every node answers from its own state, and refuses
// the parameter of ownState.
func aliasPath(e cluster.Engine, index string) string {
	path := url.PathEscape(index) + "/_alias"
	if e.Distribution == cluster.Elasticsearch && e.Major >= 9 {
		return path
	}
	return path + strings.TrimSuffix(ownState(e), "&")
}

func layoutPath(e cluster.Engine, name string) string {
	const of = "settings.index."
	return metadataPath(e, name, "routing_num_shards", of+"number_of_shards", of+"routing_partition_size", of+"number_of_virtual_shards",
		of+"replication.type", of+"mode", of+"routing_path")
}

// parseLayouts reads the layouts in the metadata of a cluster state.
func parseLayouts(r io.Reader) ([]cluster.Layout, error) {
	var answer struct {
		Metadata struct {
			Indices map[string]indexMetadata `json:"indices"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return nil, fmt.Errorf("answer of _cluster/state/metadata: %w", err)
	}
	layouts := make([]cluster.Layout, 0, len(answer.Metadata.Indices))
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
			VirtualShards  string `json:"number_of_virtual_shards"` // OpenSearch 3.6: between document and shard
			Replication    struct {
				Type string `json:"type"`
			} `json:"replication"`
			Mode        string          `json:"mode"`
			RoutingPath json.RawMessage `json:"routing_path"` // a list or a string
		} `json:"index"`
	} `json:"settings"`
}

func (m indexMetadata) layout(name string) (cluster.Layout, error) {
	settings := m.Settings.Index
	l := cluster.Layout{Index: name}
	switch {
	case settings.Mode != "" && settings.Mode != "standard", len(settings.RoutingPath) > 0,
		settings.VirtualShards != "" && settings.VirtualShards != "-1":
		l.Miss = cluster.MissRoutedByFields
		return l, nil
	case strings.EqualFold(settings.Replication.Type, "SEGMENT"):
		// Only without a preference does the engine read the primary, which alone has
		// what was just written.
		l.Miss = cluster.MissSegmentReplication
		return l, nil
	}
	shards, err := strconv.Atoi(settings.NumberOfShards)
	l.Routing = es.Routing{Shards: shards, RoutingShards: m.RoutingNumShards, PartitionSize: 1}
	if err == nil && settings.PartitionSize != "" {
		l.Routing.PartitionSize, err = strconv.Atoi(settings.PartitionSize)
	}
	if err != nil || !l.Routing.Valid() {
		return cluster.Layout{}, fmt.Errorf("index %q in the cluster state: %q shards, %d routing shards, partition size %q", name,
			settings.NumberOfShards, m.RoutingNumShards, settings.PartitionSize)
	}
	return l, nil
}
