package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const (
	// countInterval is how often the documents of indices in use are counted, ±20 %.
	countInterval = 30 * time.Second
	// maxCounted is how many indices are counted in one round: those whose counts are the
	// oldest.
	maxCounted = 50
)

// Counts are the engine's own counts of the documents of an index.
type Counts struct {
	Index     string
	Documents []int64   // of the primary copy, by number of the shard; not to be changed
	At        time.Time // when they were asked for
}

// countLoop counts the documents of indices in use. While the engine does not answer it
// does so half as often.
func (x *Indices[T]) countLoop(ctx context.Context) {
	pause := countInterval
	for sleep(ctx, jitter(pause)) {
		pause = countInterval
		if !x.countRound(ctx) {
			pause = 2 * countInterval
		}
	}
}

// countRound counts the documents of the indices that were used in the last minute. It
// reports false if the engine does not answer; then it asks no more.
func (x *Indices[T]) countRound(ctx context.Context) bool {
	for _, e := range x.countable(time.Now().Add(-keptFor)) {
		e.countedAt = time.Now()
		counts := Counts{Index: x.o.Count(e.facts.Load().value), At: e.countedAt}
		var err error
		counts.Documents, err = x.c.readCounts(ctx, counts.Index)
		switch {
		case err == nil:
			e.counts.Store(&counts)
		case ctx.Err() != nil:
			return true
		case errors.Is(err, errPrimaryDown): // what was counted before is still of use
		case settled(err):
			e.counts.Store(nil) // closed or deleted
		default:
			x.c.o.Logger.Debug("documents not counted", "index", counts.Index, "err", err)
			return false
		}
	}
	return true
}

// countable returns the entries whose documents are to be counted, those counted the
// longest ago first.
func (x *Indices[T]) countable(since time.Time) []*indexEntry[T] {
	var due []*indexEntry[T]
	for _, e := range *x.known.Load() {
		if e.usedAt.Load() >= since.Unix() && x.o.Count(e.facts.Load().value) != "" {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *indexEntry[T]) int { return a.countedAt.Compare(b.countedAt) })
	return due[:min(len(due), maxCounted)]
}

// readCounts asks how many documents each shard of an index has.
func (c *Cluster) readCounts(ctx context.Context, index string) (documents []int64, err error) {
	down := false
	_, err = c.fleet.ask(ctx, query{
		kind: pollCounts, path: "_cat/shards/" + url.PathEscape(index) + "?format=json&bytes=b&h=index,shard,prirep,state,docs,store",
		deadline: min(lookUpDeadline, c.o.PollTimeout),
		decode: func(r io.Reader) (err error) {
			if documents, err = parseCounts(r); errors.Is(err, errPrimaryDown) {
				down, err = true, nil // any node would say so
			}
			return err
		},
	})
	if down {
		return nil, errPrimaryDown
	}
	return documents, err
}

// errPrimaryDown says that a shard has no primary copy that counts its documents.
var errPrimaryDown = errors.New("a shard has no primary copy")

// parseCounts reads the documents of the primary copies, by number of the shard.
func parseCounts(r io.Reader) ([]int64, error) {
	var rows []struct {
		Shard  string  `json:"shard"`
		Kind   string  `json:"prirep"`
		Number *string `json:"docs"` // null where the copy is not there
	}
	if err := json.NewDecoder(r).Decode(&rows); err != nil {
		return nil, fmt.Errorf("answer of _cat/shards: %w", err)
	}
	counted := map[int]int64{}
	for _, row := range rows {
		if row.Kind != "p" {
			continue
		}
		shard, err := shardNumber([]byte(row.Shard))
		if err != nil {
			return nil, err
		}
		if row.Number == nil {
			return nil, errPrimaryDown
		}
		if counted[shard], err = strconv.ParseInt(*row.Number, 10, 64); err != nil || counted[shard] < 0 {
			return nil, fmt.Errorf("shard %d has %.50q documents", shard, *row.Number)
		}
	}
	if len(counted) == 0 {
		return nil, errPrimaryDown
	}
	documents := make([]int64, len(counted))
	for shard, n := range counted {
		if shard >= len(documents) {
			return nil, errPrimaryDown
		}
		documents[shard] = n
	}
	return documents, nil
}
