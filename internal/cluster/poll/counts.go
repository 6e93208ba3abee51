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
	// countedFor is for how long after its last use an index is counted.
	countedFor = time.Minute
	// maxCounted is how many indices are counted in one round: those whose counts are the
	// oldest.
	maxCounted = 50
)

// maxCount is the most that a count may be.
const maxCount = int64(1<<63-1) / int64(time.Millisecond)

// Counts are the engine's own counts of the documents of an index, of the primary copies
// and by number of the shard. They are not to be changed.
type Counts struct {
	Index string
	// Operations is how many documents were ever written, changed or deleted: the highest
	// sequence number and one. In an index that is only added to these are its documents.
	// Nil if the engine does not tell.
	Operations []int64
	// Documents is how many a search finds. It lags: an index that nobody searches is
	// not refreshed, so that none may show of what was written for hours.
	Documents []int64
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
	for _, e := range x.countable(time.Now().Add(-countedFor)) {
		e.countedAt = time.Now()
		index := x.o.Count(e.facts.Load().value)
		counts, err := x.poller.readCounts(ctx, index)
		switch {
		case err == nil:
			counts.Index, counts.At = index, e.countedAt
			e.counts.Store(counts)
		case ctx.Err() != nil:
			return true
		case errors.Is(err, errPrimaryDown): // what was counted before is still of use
		case settled(err):
			e.counts.Store(nil) // closed or deleted
		default:
			x.poller.o.Logger.Debug("documents not counted", "index", index, "err", err)
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
func (p *Poller) readCounts(ctx context.Context, index string) (counts *Counts, err error) {
	down := false
	_, err = p.endpoints.ask(ctx, Query{
		Kind: kindCounts, Path: "_cat/shards/" + url.PathEscape(index) + "?format=json&h=shard,prirep,docs,seq_no.max",
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

// errPrimaryDown says that a shard has no primary copy that counts its documents.
var errPrimaryDown = errors.New("a shard has no primary copy")

// countedRow is one copy in the answer of _cat/shards.
type countedRow struct {
	Shard     string  `json:"shard"`
	Kind      string  `json:"prirep"`
	Documents *string `json:"docs"`       // null where the copy is not there
	Last      *string `json:"seq_no.max"` // -1 where nothing was written
}

// parseCounts reads the counts of the primary copies.
func parseCounts(r io.Reader) (*Counts, error) {
	var rows []countedRow
	if err := json.NewDecoder(r).Decode(&rows); err != nil {
		return nil, fmt.Errorf("answer of _cat/shards: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(row countedRow) bool { return row.Kind != "p" })
	counts := &Counts{Operations: make([]int64, len(rows)), Documents: make([]int64, len(rows))}
	seen := make([]bool, len(rows))
	for _, row := range rows {
		shard, err := shardNumber([]byte(row.Shard))
		if err != nil {
			return nil, err
		}
		if row.Documents == nil || shard >= len(rows) || seen[shard] {
			return nil, errPrimaryDown
		}
		seen[shard] = true
		if counts.Documents[shard], err = count(*row.Documents, 0); err != nil {
			return nil, fmt.Errorf("documents of shard %d: %w", shard, err)
		}
		if row.Last == nil || counts.Operations == nil {
			counts.Operations = nil
			continue
		}
		last, err := count(*row.Last, -1)
		if err != nil {
			return nil, fmt.Errorf("sequence number of shard %d: %w", shard, err)
		}
		counts.Operations[shard] = last + 1
	}
	if len(rows) == 0 {
		return nil, errPrimaryDown
	}
	return counts, nil
}

// count reads a number that is not less than another.
func count(text string, least int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > maxCount {
		return 0, fmt.Errorf("%.50q is no count", text)
	}
	return n, nil
}
