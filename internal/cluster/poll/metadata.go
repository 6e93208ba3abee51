package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"sidestep/internal/cluster"
)

// maxMetadata bounds the answer about one name, in bytes: an index of 10,000 fields takes
// about 1 MB.
const maxMetadata = 8 << 20

var (
	errNoIndex = errors.New("no such index")
	errTooLong = unreadableError{fmt.Errorf("the metadata is longer than %d MiB", maxMetadata>>20)}
)

// unreadableError is why an answer about a name is of no use, however often it is asked for.
type unreadableError struct{ error }

// Unwrap returns what was wrong.
func (e unreadableError) Unwrap() error { return e.error }

// readIndex reads the metadata of an index, see [IndicesOptions]. Of a name that is not
// that of an index only what tells so is read: a data stream may have hundreds of indices,
// and an alias may stand for all there are. If wanted it also reads the aliases of an index
// that has some.
func (p *Poller) readIndex(ctx context.Context, s *cluster.Snapshot, name string, wantAliases bool) (body, aliases []byte, err error) {
	if _, placed := s.Lookup(name); !placed {
		body, names, err := p.readMetadata(ctx, name)
		if _, index := names[name]; err != nil || !index {
			return body, nil, err
		}
	}
	body, names, err := p.readMetadata(ctx, name, "settings", "mappings")
	if err != nil || !wantAliases {
		return body, nil, err
	}
	var metadata struct {
		Aliases []string `json:"aliases"`
	}
	if err := json.Unmarshal(names[name], &metadata); err == nil && len(metadata.Aliases) == 0 {
		return body, nil, nil
	}
	aliases, err = p.readRaw(ctx, kindAliases, aliasPath(s.Engine, name))
	return body, aliases, err
}

// readMetadata reads the metadata of what a name stands for: of each index these fields, its
// state, aliases and routing shards. It also returns the names of these indices.
func (p *Poller) readMetadata(ctx context.Context, name string, fields ...string) ([]byte, map[string]json.RawMessage, error) {
	body, err := p.readRaw(ctx, kindMetadata, metadataPath(p.engine(), name, append([]string{"state", "aliases", "routing_num_shards"}, fields...)...))
	if err != nil {
		return nil, nil, err
	}
	var answer struct {
		Metadata struct {
			Indices map[string]json.RawMessage `json:"indices"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nil, unreadableError{fmt.Errorf("answer of _cluster/state/metadata: %w", err)}
	}
	if len(answer.Metadata.Indices) == 0 {
		return nil, nil, errNoIndex
	}
	return body, answer.Metadata.Indices, nil
}

// readRaw reads an answer of bounded length.
func (p *Poller) readRaw(ctx context.Context, kind Kind, path string) (body []byte, err error) {
	_, err = p.endpoints.askFirst(ctx, p.newest.Load(), Query{
		Kind: kind, Path: path, Deadline: min(localDeadline, p.o.PollTimeout),
		Decode: func(r io.Reader) (err error) {
			body, err = io.ReadAll(io.LimitReader(r, maxMetadata+1))
			return err
		},
	})
	if err == nil && len(body) > maxMetadata {
		err = errTooLong
	}
	return body, err
}

// metadataPath asks for fields of the indices that a name stands for.
func metadataPath(e cluster.Engine, name string, fields ...string) string {
	const of = "metadata.indices.*."
	return "_cluster/state/metadata/" + url.PathEscape(name) + ownState(e) + "filter_path=" + of + strings.Join(fields, ","+of)
}
