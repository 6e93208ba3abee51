package bulk

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Index is what determines whether and how documents of an index are kept together.
type Index struct {
	// Shards and RoutingShards are number_of_shards and routing_num_shards.
	Shards, RoutingShards int
	// Values has a routing value for each shard; nil if one value does not lead to one
	// shard, or if the metadata does not tell. It is shared and must not be changed.
	Values []string
	// Refused is why operations without a routing stay unchanged; empty if they can be
	// given one. RefusedRouted is the same for those with a routing.
	Refused, RefusedRouted Reason
	// Resized says that the index was made by splitting, shrinking or cloning another
	// one, whose slots it does not have.
	Resized bool
	// AppendOnly says that the index refuses documents with ids of the client's (OpenSearch).
	AppendOnly bool
	// WriteIndex is the index that documents go to; empty for an alias or a data stream.
	WriteIndex string
	// UUID tells the index from another one that had its name before.
	UUID string
}

// The parts of the answer that are used.
type (
	metadataAnswer struct {
		Metadata struct {
			Indices map[string]indexMetadata `json:"indices"`
		} `json:"metadata"`
	}
	indexMetadata struct {
		State    text `json:"state"`
		Settings struct {
			Index settings `json:"index"`
		} `json:"settings"`
		Mappings      map[string]mapping `json:"mappings"`
		Aliases       names              `json:"aliases"`
		RoutingShards int                `json:"routing_num_shards"`
	}
	settings struct {
		UUID            text            `json:"uuid"`
		Shards          text            `json:"number_of_shards"`
		PartitionSize   text            `json:"routing_partition_size"`
		VirtualShards   text            `json:"number_of_virtual_shards"` // OpenSearch 3.6: between document and shard
		Mode            text            `json:"mode"`
		RoutingPath     json.RawMessage `json:"routing_path"`
		DefaultPipeline text            `json:"default_pipeline"`
		FinalPipeline   text            `json:"final_pipeline"`
		AppendOnly      struct {
			Enabled text `json:"enabled"`
		} `json:"append_only"`
		LogsDB struct {
			RouteOnSortFields text `json:"route_on_sort_fields"`
		} `json:"logsdb"`
		Resize struct {
			Source struct {
				Name text `json:"name"`
				UUID text `json:"uuid"`
			} `json:"source"`
		} `json:"resize"`
	}
	// mapping is the mapping of a document or of one of its fields.
	mapping struct {
		Type    text `json:"type"`
		Routing struct {
			Required text `json:"required"`
		} `json:"_routing"`
		Properties map[string]mapping `json:"properties"`
	}
)

// text is a string, or another value in its JSON form. Settings are strings, but some
// versions write some of them otherwise.
type text string

// UnmarshalJSON reads any value.
func (t *text) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*t = text(s)
		return nil
	}
	*t = text(raw)
	return nil
}

// names is a list of strings; anything else counts as empty.
type names []string

// UnmarshalJSON reads any value.
func (n *names) UnmarshalJSON(raw []byte) error {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		*n = list
	}
	return nil
}

// ParseIndices reads the answer of
//
//	GET /_cluster/state/metadata/{names}?local=true
//
// of which `state`, `settings`, `mappings`, `routing_num_shards` and `aliases` of the
// indices are looked at. It returns what it found by the name to write to: indices, and
// their aliases, which are refused. Work and memory are in proportion to the body, which
// the caller limits.
func ParseIndices(body []byte) (map[string]Index, error) {
	var answer metadataAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("parse index metadata: %w", err)
	}
	found := make(map[string]Index, len(answer.Metadata.Indices))
	values := make(map[[2]int][]string) // most indices have the same number of shards
	for name, metadata := range answer.Metadata.Indices {
		for _, alias := range metadata.Aliases {
			found[alias] = Index{Refused: ReasonAlias, RefusedRouted: ReasonAlias}
		}
		found[name] = metadata.index(name, values)
	}
	return found, nil
}

// HasRoutedAlias reports whether an alias of the index has a routing of its own, by the
// answer to GET /INDEX/_alias; true if that cannot be parsed.
func HasRoutedAlias(index string, body []byte) bool {
	var answer map[string]struct {
		Aliases map[string]struct {
			IndexRouting  string `json:"index_routing"`
			SearchRouting string `json:"search_routing"`
		} `json:"aliases"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return true
	}
	for _, alias := range answer[index].Aliases {
		if alias.IndexRouting != "" || alias.SearchRouting != "" {
			return true
		}
	}
	return false
}

func (m indexMetadata) index(name string, values map[[2]int][]string) Index {
	s := m.Settings.Index
	shards, _ := strconv.Atoi(string(s.Shards))
	x := Index{
		WriteIndex: name, UUID: string(s.UUID), Shards: shards, RoutingShards: m.RoutingShards,
		Resized:    s.Resize.Source.Name != "" || s.Resize.Source.UUID != "",
		AppendOnly: s.AppendOnly.Enabled == "true",
	}
	if !s.partitioned() && !s.virtual() && !s.routedByFields() {
		division := [2]int{shards, m.RoutingShards}
		if _, known := values[division]; !known {
			values[division] = Values(shards, m.RoutingShards)
		}
		x.Values = values[division]
	}
	x.Refused, x.RefusedRouted = m.refused(x, false), m.refused(x, true)
	return x
}

// refused returns the reason that the metadata of an index gives for leaving operations as
// they are: those that have a routing, or those that have none.
func (m indexMetadata) refused(x Index, routed bool) Reason {
	s := m.Settings.Index
	switch {
	case m.State == "close":
		return ReasonClosed
	case s.partitioned():
		return ReasonPartitioned
	case s.virtual():
		return ReasonUnreadable
	case s.routedByFields():
		return ReasonRoutedByFields
	case isPipeline(s.DefaultPipeline), isPipeline(s.FinalPipeline):
		return ReasonPipeline
	}
	for _, root := range m.Mappings {
		switch {
		case !routed && root.Routing.Required != "" && root.Routing.Required != "false":
			return ReasonRoutingRequired
		case root.joins():
			return ReasonJoinField
		}
	}
	switch {
	case routed && x.Resized:
		return ReasonResized
	case x.Shards == 1:
		return ReasonOneShard
	case x.Values == nil:
		return ReasonUnreadable
	}
	return ""
}

func (s settings) partitioned() bool { return s.PartitionSize != "" && s.PartitionSize != "1" }

func (s settings) virtual() bool { return s.VirtualShards != "" && s.VirtualShards != "-1" }

func (s settings) routedByFields() bool {
	path := string(s.RoutingPath)
	return strings.EqualFold(string(s.Mode), "time_series") ||
		(path != "" && path != "null" && path != "[]" && path != `""`) ||
		(s.LogsDB.RouteOnSortFields != "" && s.LogsDB.RouteOnSortFields != "false")
}

func isPipeline(name text) bool { return name != "" && name != "_none" }

// joins reports whether a field, at any depth, is a join field.
func (m mapping) joins() bool {
	if m.Type == "join" {
		return true
	}
	for _, field := range m.Properties {
		if field.joins() {
			return true
		}
	}
	return false
}
