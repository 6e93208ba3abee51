package poll

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sidestep/internal/cluster"
)

const (
	// After a failure _cat/shards is left alone for a while, which doubles.
	firstCatPause = 5 * time.Second
	lastCatPause  = time.Minute
	// listPage is how many copies a page of _list/shards holds: the most that the
	// engine gives.
	listPage = 20_000
	// wholeGrace spreads the fetches of whole placements after a relay fell silent: all
	// who had it for a relay begin to poll at the same moment.
	wholeGrace = 30 * time.Second
	// maxPages ends a list that does not end.
	maxPages = 1000

	shardColumns  = "?format=json&h=index,shard,prirep,state,id,node"
	catShardsPath = "_cat/shards" + shardColumns
)

// wholeKnown returns what is known of the whole placement when its fetches begin:
// what a relay told need not be fetched again before it changes.
func (p *Poller) wholeKnown() wholeState {
	w := wholeState{catPause: firstCatPause}
	if s := p.Snapshot(); s != nil && s.HasPlacement() && p.o.Source != nil {
		now := time.Now()
		w.version, w.at, w.after = s.Version, now, now.Add(rand.N(wholeGrace))
	}
	return w
}

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

	// While there is no placement: why the last attempt failed, and when the next may be made.
	firstErr   error
	firstAfter time.Time
}

// attempted takes in how an attempt at the whole placement ended.
func (w *wholeState) attempted(err error, took time.Duration) {
	w.firstErr, w.firstAfter = err, time.Time{}
	if err != nil {
		w.firstAfter = time.Now().Add(costFactor * took)
	}
}

// wholeAnswer is how a fetch of the whole placement ended.
type wholeAnswer struct {
	state  cluster.Placement // version is at least that of the answer
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
	after, upToDate := w.firstAfter, false
	if p.poller.Snapshot().HasPlacement() {
		after, upToDate = w.after, v.Version == w.version && time.Since(w.at) < wholeMaxAge
	}
	if w.answer != nil || upToDate || time.Now().Before(after) {
		return
	}
	answer := make(chan wholeAnswer, 1)
	w.answer, w.forgotten = answer, false
	cat := !time.Now().Before(w.catAfter)
	p.poller.done.Go(func() { answer <- p.poller.fetchWhole(ctx, v, cat) })
}

// fetchWhole lists all copies: by pages if the engine has them, else at once, and
// where that does not answer from the routing table of one node.
func (p *Poller) fetchWhole(ctx context.Context, v stateVersion, cat bool) wholeAnswer {
	answer := wholeAnswer{asOf: v.asOf, state: cluster.Placement{ClusterUUID: v.ClusterUUID, Version: v.Version}}
	started := time.Now()
	if cat {
		answer.source, answer.state.Indices, answer.catErr = p.listCopies(ctx, v.from)
		if answer.catErr == nil || ctx.Err() != nil {
			answer.err, answer.took = answer.catErr, time.Since(started)
			return answer
		}
	}
	started = time.Now()
	state, err := p.readRoutingTable(ctx, v.from, "")
	p.countRefresh(cluster.SourceRoutingTable, err)
	answer.source, answer.err, answer.took = cluster.SourceRoutingTable, err, time.Since(started)
	if err == nil {
		answer.state.Indices, answer.state.Version = state.Indices, max(state.Version, v.Version)
	}
	return answer
}

// listCopies asks for the copies of all shards with their states.
func (p *Poller) listCopies(ctx context.Context, from *url.URL) (source string, indices []cluster.Index, err error) {
	if listsPages(p.Snapshot().Engine) {
		indices, err = p.listPages(ctx, from)
		if err == nil || !missing(err) {
			p.countRefresh(cluster.SourceListShards, err)
			return cluster.SourceListShards, indices, err
		}
		// Not remembered: the node that was asked may be the last one of the version before.
	}
	err = p.endpoints.client.get(ctx, from, Query{
		Kind: kindCatShards, Path: catShardsPath, Deadline: p.o.PollTimeout, longest: maxPlacement,
		Decode: func(r io.Reader) (err error) {
			indices, err = parseCatShards(r, newPlacementBuilder(p.Snapshot()))
			return err
		},
	})
	p.countRefresh(cluster.SourceCatShards, err)
	return cluster.SourceCatShards, indices, err
}

// listsPages reports whether engines of this version may have _list/shards. One that calls itself 7.10.2, for the sake of old
// clients, is of 1 or 2: it is asked.
func listsPages(e cluster.Engine) bool {
	return e.Distribution == cluster.OpenSearch && (e.Major > 2 || e.Major == 2 && e.Minor >= 18)
}

// missing reports whether an error says that the engine has no such API, or not for
// us, be it a gateway that says so. A response limit (429) or a timeout does not.
func missing(err error) bool {
	status, ok := errors.AsType[*httpError](err)
	return ok && status.code < 500 && status.code != http.StatusTooManyRequests
}

// listPages asks for the copies page by page, each with a deadline of its own.
func (p *Poller) listPages(ctx context.Context, from *url.URL) ([]cluster.Index, error) {
	b := newPlacementBuilder(p.Snapshot())
	next := ""
	for range maxPages {
		path := "_list/shards" + shardColumns + "&size=" + strconv.Itoa(listPage)
		if next != "" {
			path += "&next_token=" + url.QueryEscape(next)
		}
		err := p.endpoints.client.get(ctx, from, Query{
			Kind: kindListShards, Path: path, Deadline: p.o.PollTimeout,
			Decode: func(r io.Reader) (err error) {
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
		w.catAfter = time.Now().Add(Jitter(w.catPause))
		w.catPause = min(2*w.catPause, lastCatPause)
		p.poller.o.Logger.Debug("shard copies not listed", "err", answer.catErr, "retry_at", w.catAfter)
	case answer.source != cluster.SourceRoutingTable:
		w.catPause = firstCatPause
	}
	if answer.err == nil || !p.poller.Snapshot().HasPlacement() {
		w.attempted(answer.err, answer.took)
	}
	if answer.err != nil {
		return false
	}
	w.after = time.Now().Add(wholeCostFactor * answer.took)
	w.version, w.at = answer.state.Version, time.Now()
	p.poller.store.PlacedAll(answer.source, answer.asOf, &answer.state)
	p.membersDue = true
	return true
}

// fetchFirst waits a while for the first placement, and then takes the routing table. What fails is not tried again
// at once.
func (p *placer) fetchFirst(ctx context.Context, v stateVersion) error {
	if time.Now().Before(p.whole.firstAfter) {
		return p.whole.firstErr
	}
	patience := time.NewTimer(min(firstPatience, p.poller.o.PollTimeout))
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
	started := time.Now()
	_, err := p.poller.placeAll(ctx, v.from)
	p.whole.attempted(err, time.Since(started))
	return err
}
