package poll

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
	// countedFor is for how long after its counts were last asked for an index is counted.
	countedFor = time.Minute
	// maxCounted is how many indices are counted in one round: those whose counts are the
	// oldest.
	maxCounted = 50
)

// maxCount is the most that a count may be.
const maxCount = int64(1<<63-1) / int64(time.Millisecond)

// Counts are the engine's own counts of the documents of an index.
type Counts struct {
	// Operations is how many documents were ever written, changed or deleted, of the primary copies and by number of the
	// shard: the highest sequence number and one. In an index that is only added to these are its documents. How many a
	// search finds lags: an index that nobody searches is not refreshed, so that none may show of what was written for
	// hours. It is not to be changed.
	Operations []int64
	At         time.Time // when they were asked for
}

// countLoop counts the documents of indices of which the counts are asked for. While the engine does not answer it
// does so half as often.
func (x *Indices[T]) countLoop(ctx context.Context) {
	pause := countInterval
	for Sleep(ctx, Jitter(pause)) {
		pause = countInterval
		if !x.countRound(ctx) {
			pause = 2 * countInterval
		}
	}
}

// countRound counts the documents of the indices of which the counts were asked for in the last minute. It
// reports false if the engine does not answer; then it asks no more.
func (x *Indices[T]) countRound(ctx context.Context) bool {
	for _, e := range x.countable(time.Now().Add(-countedFor)) {
		e.countedAt = time.Now()
		counts, err := x.poller.readCounts(ctx, e.name)
		switch {
		case err == nil:
			counts.At = e.countedAt
			e.counts.Store(counts)
		case ctx.Err() != nil:
			return true
		case errors.Is(err, errPrimaryDown): // what was counted before is still of use
		case missing(err) && !stranger(err):
			e.counts.Store(nil) // closed or deleted
		default:
			x.poller.o.Logger.Debug("documents not counted", "index", e.name, "err", err)
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
		if e.wantedAt.Load() >= since.Unix() {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *indexEntry[T]) int { return a.countedAt.Compare(b.countedAt) })
	return due[:min(len(due), maxCounted)]
}

// readCounts asks how many documents each shard of an index has.
func (p *Poller) readCounts(ctx context.Context, index string) (counts *Counts, err error) {
	down := false
	_, err = p.endpoints.askFirst(ctx, nil, Query{
		Kind: kindCounts, Path: countsPath(index),
		Deadline: min(lookUpDeadline, p.o.PollTimeout),
		Decode: func(r io.Reader) (err error) {
			if counts, err = parseCounts(r); errors.Is(err, errPrimaryDown) {
				down, err = true, nil // any node would say so
			}
			return err
		},
	})
	if down {
		return nil, errPrimaryDown
	}
	return counts, err
}

func countsPath(index string) string {
	return "_cat/shards/" + url.PathEscape(index) + "?format=json&h=shard,prirep,seq_no.max"
}

// errPrimaryDown says that a shard has no primary copy that counts its documents.
var errPrimaryDown = errors.New("a shard has no primary copy")

// countedRow is one copy in the answer of _cat/shards.
type countedRow struct {
	Shard string  `json:"shard"`
	Kind  string  `json:"prirep"`
	Last  *string `json:"seq_no.max"` // -1 where nothing was written, null where the copy is not there
}

// parseCounts reads the counts of the primary copies.
func parseCounts(r io.Reader) (*Counts, error) {
	var rows []countedRow
	if err := json.NewDecoder(r).Decode(&rows); err != nil {
		return nil, fmt.Errorf("answer of _cat/shards: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(row countedRow) bool { return row.Kind != "p" })
	counts := &Counts{Operations: make([]int64, len(rows))}
	seen := make([]bool, len(rows))
	for _, row := range rows {
		shard, err := shardNumber([]byte(row.Shard))
		if err != nil {
			return nil, err
		}
		if row.Last == nil || shard >= len(rows) || seen[shard] {
			return nil, errPrimaryDown
		}
		seen[shard] = true
		last, err := strconv.ParseInt(*row.Last, 10, 64)
		if err != nil || last < -1 || last > maxCount {
			return nil, fmt.Errorf("sequence number of shard %d: %.50q is no count", shard, *row.Last)
		}
		counts.Operations[shard] = last + 1
	}
	if len(rows) == 0 {
		return nil, errPrimaryDown
	}
	return counts, nil
}
