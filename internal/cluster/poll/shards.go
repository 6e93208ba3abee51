package poll

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"sidestep/internal/cluster"
)

// catRow is one row of _cat/shards. All values are strings or null.
type catRow struct {
	Index  text `json:"index"`
	Shard  text `json:"shard"`
	Prirep text `json:"prirep"`
	State  text `json:"state"`
	ID     text `json:"id"`
	// node is asked for as well but not read: names are not unique, and for a
	// relocating copy it holds both nodes. The id is that of the source.
}

// text is a JSON string, or nothing. It is read into the memory of the one before:
// big clusters have a hundred thousand rows, of few different values.
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

// parseCatShards reads the rows of _cat/shards?format=json row by row.
func parseCatShards(r io.Reader, b *placementBuilder) ([]cluster.Index, error) {
	dec := json.NewDecoder(r)
	err := eachElement(dec, func() error { return b.decodeRow(dec) })
	if err != nil {
		return nil, fmt.Errorf("answer of _cat/shards: %w", err)
	}
	return b.indices(), nil
}

// parseListShards adds a page of _list/shards?format=json to b, row by row. next
// names the page that follows, empty if none does.
func parseListShards(r io.Reader, b *placementBuilder) (next string, err error) {
	dec := json.NewDecoder(r)
	rows := false
	err = eachField(dec, func(key string) error {
		switch key {
		case "next_token":
			return dec.Decode(&next) // null is none
		case "shards":
			rows = true
			return eachElement(dec, func() error { return b.decodeRow(dec) })
		}
		return skipValue(dec)
	})
	if err == nil && !rows {
		err = errors.New("it has no shards")
	}
	if err != nil {
		return "", fmt.Errorf("answer of _list/shards: %w", err)
	}
	return next, nil
}

func (b *placementBuilder) decodeRow(dec *json.Decoder) error {
	row := &b.row
	row.Index, row.Shard, row.Prirep, row.State, row.ID = row.Index[:0], row.Shard[:0], row.Prirep[:0], row.State[:0], row.ID[:0]
	if err := dec.Decode(row); err != nil {
		return err
	}
	number, err := shardNumber(row.Shard)
	if err != nil {
		return fmt.Errorf("index %q: %w", row.Index, err)
	}
	if len(row.Index) == 0 {
		return errors.New("a row has no index")
	}
	if len(row.Prirep) != 1 {
		return fmt.Errorf("shard [%s][%d]: prirep is %q", row.Index, number, row.Prirep)
	}
	b.begin(row.Index)
	b.add(number, cluster.Copy{Node: b.intern(row.ID), Kind: row.Prirep[0], State: cluster.ParseCopyState(b.intern(row.State))})
	return nil
}

func shardNumber(s []byte) (int, error) {
	n, err := strconv.Atoi(string(s))
	if err != nil || n < 0 || n > cluster.MaxShardNumber {
		return 0, fmt.Errorf("%q is not a shard number", s)
	}
	return n, nil
}
