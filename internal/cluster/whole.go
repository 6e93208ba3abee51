package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// After a failure _cat/shards is left alone for a while, which doubles.
	firstCatPause = 5 * time.Second
	lastCatPause  = time.Minute
	// listPage is how many copies a page of _list/shards holds: the most that the
	// engine gives.
	listPage = 20_000
	// maxPages ends a list that does not end.
	maxPages = 1000

	shardColumns  = "?format=json&h=index,shard,prirep,state,id,node"
	catShardsPath = "_cat/shards" + shardColumns
)

// wholeState is what the placer knows of fetches of the whole placement.
type wholeState struct {
	answer chan wholeAnswer // of the fetch in flight; nil if there is none
	// forgotten says that what is in flight is about versions that are void.
	forgotten bool
	version   int64         // of the last one that was taken in, 0 if there was none
	at        time.Time     // when that was
	after     time.Time     // do not begin one before
	catAfter  time.Time     // the same for one from _cat/shards
	catPause  time.Duration // after its next failure
}

// wholeAnswer is how a fetch of the whole placement ended.
type wholeAnswer struct {
	state  routingState // version is at least that of the answer
	source string
	asOf   time.Time
	took   time.Duration // of the fetch that succeeded
	catErr error         // of _cat/shards, also where the routing table served instead
	err    error
}

// beginWhole begins to fetch the whole placement, at least as new as v, if it is out
// of date and its cost allows it.
func (p *placer) beginWhole(ctx context.Context, v stateVersion) {
	w := &p.whole
	upToDate := v.Version == w.version && time.Since(w.at) < wholeMaxAge
	if w.answer != nil || p.c.Snapshot().table != nil && (upToDate || time.Now().Before(w.after)) {
		return
	}
	answer := make(chan wholeAnswer, 1)
	w.answer, w.forgotten = answer, false
	cat := !time.Now().Before(w.catAfter)
	p.c.done.Go(func() { answer <- p.c.fetchWhole(ctx, v, cat) })
}

// fetchWhole lists all copies: by pages if the engine has them, else at once, and
// where that does not answer from the routing table of one node.
func (c *Cluster) fetchWhole(ctx context.Context, v stateVersion, cat bool) wholeAnswer {
	answer := wholeAnswer{asOf: v.asOf, state: routingState{uuid: v.ClusterUUID, version: v.Version}}
	started := time.Now()
	if cat {
		answer.source, answer.state.indices, answer.catErr = c.listCopies(ctx, v.from)
		if answer.catErr == nil || ctx.Err() != nil {
			answer.err, answer.took = answer.catErr, time.Since(started)
			return answer
		}
	}
	started = time.Now()
	state, err := c.readRoutingTable(ctx, v.from, "")
	c.countRefresh(SourceRoutingTable, err)
	answer.source, answer.err, answer.took = SourceRoutingTable, err, time.Since(started)
	if err == nil {
		answer.state.indices, answer.state.version = state.indices, max(state.version, v.Version)
	}
	return answer
}

// listCopies asks for the copies of all shards with their states.
func (c *Cluster) listCopies(ctx context.Context, from *url.URL) (source string, indices []Index, err error) {
	if c.listsPages() {
		indices, err = c.listPages(ctx, from)
		if err == nil || !missing(err) {
			c.countRefresh(SourceListShards, err)
			return SourceListShards, indices, err
		}
		c.noPages.Store(true)
	}
	err = c.fleet.client.get(ctx, from, query{
		kind: pollCatShards, path: catShardsPath, deadline: c.o.PollTimeout,
		decode: func(r io.Reader) (err error) {
			indices, err = parseCatShards(r, newPlacementBuilder(c.Snapshot().table))
			return err
		},
	})
	c.countRefresh(SourceCatShards, err)
	return SourceCatShards, indices, err
}

// listsPages reports whether the engine has _list/shards.
func (c *Cluster) listsPages() bool { return c.Snapshot().Engine.listsPages() && !c.noPages.Load() }

// listsPages reports whether engines of this version have _list/shards.
func (e Engine) listsPages() bool {
	return e.Distribution == opensearch && (e.Major > 2 || e.Major == 2 && e.Minor >= 18)
}

// missing reports whether an error says that the engine has no such API, or not for
// us. A response limit (429) or a timeout does not.
func missing(err error) bool {
	status, ok := errors.AsType[*httpError](err)
	return ok && settled(err) && status.code != http.StatusTooManyRequests
}

// listPages asks for the copies page by page, each with a deadline of its own.
func (c *Cluster) listPages(ctx context.Context, from *url.URL) ([]Index, error) {
	b := newPlacementBuilder(c.Snapshot().table)
	next := ""
	for range maxPages {
		path := "_list/shards" + shardColumns + "&size=" + strconv.Itoa(listPage)
		if next != "" {
			path += "&next_token=" + url.QueryEscape(next)
		}
		err := c.fleet.client.get(ctx, from, query{
			kind: pollListShards, path: path, deadline: c.o.PollTimeout,
			decode: func(r io.Reader) (err error) {
				next, err = parseListShards(r, b)
				return err
			},
		})
		if err != nil {
			return nil, err
		}
		if next == "" {
			return b.indices(), nil
		}
	}
	return nil, errors.New("the list of shards does not end")
}

// wholeArrived takes in how a fetch of the whole placement ended. It reports whether
// there is a placement now.
func (p *placer) wholeArrived(ctx context.Context, answer wholeAnswer) bool {
	w := &p.whole
	w.answer = nil
	if ctx.Err() != nil || w.forgotten {
		return false
	}
	w.after = time.Now().Add(min(wholeCostFactor*answer.took, lastCatPause))
	switch {
	case answer.catErr != nil:
		w.catAfter = time.Now().Add(jitter(w.catPause))
		w.catPause = min(2*w.catPause, lastCatPause)
		p.c.o.Logger.Debug("shard copies not listed", "err", answer.catErr, "retry_at", w.catAfter)
	case answer.source != SourceRoutingTable:
		w.catPause = firstCatPause
	}
	if answer.err != nil {
		return false
	}
	w.after = time.Now().Add(wholeCostFactor * answer.took)
	w.version, w.at = answer.state.version, time.Now()
	p.c.placedWhole(answer.source, answer.asOf, &answer.state)
	p.membersDue = true
	return true
}

// fetchFirst waits a while for the first placement, and then takes the routing table.
func (p *placer) fetchFirst(ctx context.Context, v stateVersion) error {
	patience := time.NewTimer(min(firstPatience, p.c.o.PollTimeout))
	defer patience.Stop()
	select {
	case answer := <-p.whole.answer:
		if p.wholeArrived(ctx, answer) {
			return nil
		}
		return answer.err
	case <-patience.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := p.c.placeAll(ctx, v.from)
	return err
}
