package poll

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"sidestep/internal/cluster"
)

const (
	// lookUpWorkers is how many targets are looked up at once. One of them looks up
	// again what is known, and nothing else: it does not wait for what clients invent.
	lookUpWorkers = 3
	// lookUpPause is the least time between two look-ups of one worker: however
	// many different routings the clients use, they stay cheap for the cluster.
	lookUpPause = 10 * time.Millisecond
	// refusedRest stands for what a look-up through a relay took that failed: the target rests for ten times as long.
	refusedRest = 100 * time.Millisecond
	// unauthorizedRest does the same where the account is not known.
	unauthorizedRest = time.Second
	// publishPause gathers targets learned at about the same time into one snapshot.
	publishPause = 20 * time.Millisecond
	// lookUpDeadline bounds the look-up of a target, which may be all indices there are.
	lookUpDeadline = 3 * time.Second
)

// lookUpLoop makes the look-ups that are due: those of targets that are known to
// resolve, and of others if fresh allows it.
func (p *Poller) lookUpLoop(ctx context.Context, fresh bool) {
	for {
		t, ok := p.store.Targets().Next(ctx, fresh)
		if !ok {
			return
		}
		p.LookUp(ctx, t)
		if !Sleep(ctx, lookUpPause) {
			return
		}
	}
}

// LookUp looks a target up, has the store keep what was found, and returns it; nil if that is nothing.
func (p *Poller) LookUp(ctx context.Context, t cluster.LookUp) *cluster.Resolved {
	asked, started, follows := p.Snapshot(), time.Now(), p.Follows()
	found := &cluster.Resolved{Version: asked.Version, At: started}
	rest := func() {
		if found.Failed, found.Took = true, time.Since(started); follows {
			// The relay sees to what it costs, and own polls may take over at any moment. But it may refuse at once.
			found.At, found.Took = time.Now(), refusedRest
		}
	}
	if t.Of == cluster.OfPlacement {
		p.Place(ctx, asked.NamesIn(t.Target))
		rest()
		p.store.Targets().LookedUp(t, found)
		return nil
	}
	err := p.lookUp(ctx, t, found)
	if ctx.Err() != nil {
		return nil
	}
	switch {
	case notFound(err):
		found.Unknown = true
	case missing(err): // a gateway may say so
		found.Unknown, found.Refused = true, true
	case found.Unknown: // a relay says so
	case err != nil:
		if rest(); unauthorized(err) {
			found.Took = max(found.Took, unauthorizedRest)
		}
		p.o.Logger.Debug("target not learned", "target", t.Expression, "err", err)
	}
	p.Place(ctx, found.Indices())
	if p.Snapshot().ClusterUUID != asked.ClusterUUID {
		found = nil // it is about another cluster
	}
	if news := p.store.Targets().LookedUp(t, found); news {
		hint(p.retarget)
	}
	if found == nil || found.Failed {
		return nil
	}
	return found
}

// Place fetches the placement of those indices that the snapshot does not
// know well enough.
func (p *Poller) Place(ctx context.Context, names []string) {
	s := p.Snapshot()
	missing := slices.DeleteFunc(slices.Clone(names), s.Believes)
	if len(missing) == 0 {
		return
	}
	if p.Follows() {
		p.o.Source.Use(ctx, missing)
		return
	}
	if _, err := p.placeIndices(ctx, nil, missing); err != nil && ctx.Err() == nil {
		p.o.Logger.Debug("indices not placed", "indices", len(missing), "err", err)
	}
}

// lookUp asks what a target stands for. What that took is told of the node that answered: one that stood still made nothing
// dear. A relay sees to it itself.
func (p *Poller) lookUp(ctx context.Context, t cluster.LookUp, l *cluster.Resolved) (err error) {
	if p.Follows() {
		return p.o.Source.LookUp(ctx, t, l)
	}
	var began time.Time
	defer func() { l.Took = time.Since(began) }()
	if t.Of == cluster.OfLayout {
		l.Layout, err = p.lookUpLayout(ctx, t.Expression, &began)
		return err
	}
	_, err = p.endpoints.askFirst(ctx, p.newest.Load(), Query{
		Kind: kindSearchShards, Path: searchShardsPath(t.Target), Deadline: min(lookUpDeadline, p.o.PollTimeout), ofName: true, began: &began,
		Decode: func(r io.Reader) (err error) {
			l.Shards, l.Incomplete, err = parseSearchShards(r)
			return err
		},
	})
	return err
}

// searchShardsPath asks for the shards of a target as a search would find them. All versions go by the parameter here.
func searchShardsPath(t cluster.Target) string {
	path := "_search_shards?local=true&filter_path=shards"
	if t.Expression != "" {
		path = url.PathEscape(t.Expression) + "/" + path
	}
	if t.Routing != "" {
		path += "&routing=" + url.QueryEscape(t.Routing)
	}
	return path
}

// parseSearchShards reads which shards are named. A shard without an active copy
// is listed as an empty group that does not say which shard it is.
func parseSearchShards(r io.Reader) (shards []cluster.ShardName, incomplete bool, err error) {
	dec := json.NewDecoder(r)
	index := ""
	group := func() error {
		var copies []struct {
			Shard int    `json:"shard"`
			Index string `json:"index"`
		}
		if err := dec.Decode(&copies); err != nil {
			return err
		}
		if len(copies) == 0 {
			incomplete = true
			return nil
		}
		if copies[0].Shard < 0 || copies[0].Index == "" {
			return fmt.Errorf("[%s][%d] is not a shard", copies[0].Index, copies[0].Shard)
		}
		if copies[0].Index != index { // one string of each name: they come in order
			index = copies[0].Index
		}
		shards = append(shards, cluster.ShardName{Index: index, Number: copies[0].Shard})
		return nil
	}
	err = eachField(dec, func(key string) error {
		if key != "shards" {
			return skipValue(dec)
		}
		return eachElement(dec, group)
	})
	if err != nil {
		return nil, false, fmt.Errorf("answer of _search_shards: %w", err)
	}
	return shards, incomplete, nil
}

// retargetLoop publishes what was learned of targets.
func (p *Poller) retargetLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.retarget:
		}
		if !Sleep(ctx, publishPause) {
			return
		}
		p.store.Publish()
	}
}
