package poll

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"sidestep/internal/cluster"
)

// routingFields are what is read of a routing table: a third of what it holds.
const routingFields = "&filter_path=cluster_uuid,version," +
	"routing_table.indices.*.shards.*.state,routing_table.indices.*.shards.*.primary," +
	"routing_table.indices.*.shards.*.searchOnly,routing_table.indices.*.shards.*.node"

// text is a JSON string, or nothing. Only [placementBuilder.intern] makes a string of it, which is kept:
// big clusters have hundreds of thousands of copies, of few different values.
type text []byte

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(value []byte) error {
	*t = (*t)[:0]
	if string(value) == "null" {
		return nil
	}
	if !isPlain(value) {
		return t.decode(value)
	}
	*t = append(*t, value[1:len(value)-1]...)
	return nil
}

// isPlain reports whether a value is a string that stands for itself.
func isPlain(value []byte) bool {
	if len(value) < 2 || value[0] != '"' {
		return false
	}
	for _, c := range value[1 : len(value)-1] {
		if c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

func (t *text) decode(value []byte) error {
	var decoded string
	if err := json.Unmarshal(value, &decoded); err != nil {
		return err
	}
	*t = append(*t, decoded...)
	return nil
}

// tableCopy is one copy in the routing table of the cluster state.
type tableCopy struct {
	State      text `json:"state"`
	Primary    bool `json:"primary"`
	SearchOnly bool `json:"searchOnly"`
	Node       text `json:"node"`
}

func (c tableCopy) kind() byte {
	switch {
	case c.Primary:
		return 'p'
	case c.SearchOnly:
		return 's'
	}
	return 'r'
}

// parseRoutingTable reads the routing table index by index.
func parseRoutingTable(r io.Reader, b *placementBuilder) (*cluster.Placement, error) {
	dec := json.NewDecoder(r)
	var state cluster.Placement
	listed := false
	err := eachField(dec, func(key string) error {
		switch key {
		case "cluster_uuid":
			return dec.Decode(&state.ClusterUUID)
		case "version":
			return dec.Decode(&state.Version)
		case "routing_table":
			listed = true
			return eachField(dec, func(key string) error {
				if key != "indices" {
					return skipValue(dec)
				}
				return eachField(dec, func(index string) error { return b.decodeRouted(dec, index) })
			})
		}
		return skipValue(dec)
	})
	switch {
	case err != nil:
	case !listed && state.ClusterUUID == "": // a table without indices is left out
		err = errors.New("it has no routing table")
	case state.Version <= 0:
		err = errors.New("it names no version")
	}
	if err != nil {
		return nil, fmt.Errorf("answer of _cluster/state/routing_table: %w", err)
	}
	state.Indices = b.indices()
	return &state, nil
}

// decodeRouted adds an index in the routing table.
func (b *placementBuilder) decodeRouted(dec *json.Decoder, index string) error {
	var routed struct {
		Shards map[string][]tableCopy `json:"shards"`
	}
	if err := dec.Decode(&routed); err != nil {
		return fmt.Errorf("index %q: %w", index, err)
	}
	b.rows = b.rows[:0]
	for number, copies := range routed.Shards {
		n, err := shardNumber([]byte(number))
		if err != nil {
			return fmt.Errorf("index %q: %w", index, err)
		}
		for _, c := range copies {
			b.rows = append(b.rows, row{n, cluster.Copy{Node: b.intern(c.Node), Kind: c.kind(), State: cluster.ParseCopyState(b.intern(c.State))}})
		}
	}
	b.add(index)
	return nil
}

func shardNumber(s []byte) (int, error) {
	n, err := strconv.Atoi(string(s))
	if err != nil || n < 0 || n > cluster.MaxShardNumber {
		return 0, fmt.Errorf("%q is not a shard number", s)
	}
	return n, nil
}

// maxNames is how long the names in one request may be, in bytes: the engines read
// request lines of up to 4 kB.
const maxNames = 3000

// namesPaths joins the names of indices into as few path segments as hold them.
func namesPaths(names []string) (paths []string, of [][]string) {
	length := maxNames
	for _, name := range names {
		escaped := url.PathEscape(name)
		if length += len(escaped) + 1; length > maxNames {
			paths, of, length = append(paths, ""), append(of, nil), len(escaped)
		} else {
			paths[len(paths)-1] += ","
		}
		paths[len(paths)-1] += escaped
		of[len(of)-1] = append(of[len(of)-1], name)
	}
	return paths, of
}
