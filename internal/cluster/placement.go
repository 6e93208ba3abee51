package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"time"
)

// Sources of a placement. The set is closed: used as a metric label.
const (
	SourceCatShards    = "cat_shards"
	SourceRoutingTable = "routing_table"
)

const (
	// placementMaxAge is how long a placement whose version stays is kept.
	placementMaxAge = 30 * time.Second
	// refreshPause is the least time between a fetch and one that a hint asks for.
	refreshPause = 500 * time.Millisecond
	// catPatience is how long _cat/shards, which waits for its slowest node, is
	// waited for before the routing table is fetched besides.
	catPatience = time.Second
	// After a failure _cat/shards is left alone for a while, which doubles.
	firstCatPause = 5 * time.Second
	lastCatPause  = time.Minute
	// costFactor bounds the share of time that fetches of one kind may take: one
	// that took t is not repeated before costFactor·t, so that large clusters with
	// many changes are not busy with our polls.
	costFactor = 10
	// settleAfter is how many version polls in a row must find a lower version
	// than known before it is believed: one node may be behind or cut off.
	settleAfter = 5

	versionPath      = "_cluster/state/version?local=true"
	catShardsPath    = "_cat/shards?format=json&h=index,shard,prirep,state,id,node"
	routingTablePath = "_cluster/state/routing_table,nodes?local=true"
)

// stateVersion is _cluster/state/version.
type stateVersion struct {
	ClusterUUID string `json:"cluster_uuid"`
	Version     int64  `json:"version"`

	from *url.URL
	asOf time.Time
}

// catAnswer is how a fetch of _cat/shards ended.
type catAnswer struct {
	basis   stateVersion
	indices []Index
	took    time.Duration
	err     error
}

// placer keeps the placement. Its fields belong to the goroutine of placeLoop.
type placer struct {
	c       *Cluster
	fetched time.Time // when the last fetch ended
	lower   int       // version polls in a row that found a lower version

	cat        chan catAnswer // of the fetch in flight; nil if there is none
	catAfter   time.Time      // do not begin one before
	catPause   time.Duration  // after the next failure
	tableAfter time.Time      // the same for the routing table
}

// placeLoop confirms the placement at every interval and fetches it when the
// version of the cluster state moved.
func (c *Cluster) placeLoop(ctx context.Context) {
	p := &placer{c: c, catPause: firstCatPause}
	tick := time.NewTicker(c.o.PlacementInterval)
	defer tick.Stop()
	for {
		hinted := false
		select {
		case <-ctx.Done():
			p.drain()
			return
		case answer := <-p.cat:
			p.catArrived(answer)
			continue
		case <-tick.C:
		case <-c.replace:
			if !sleep(ctx, time.Until(p.fetched.Add(refreshPause))) {
				continue
			}
			hinted = true
		}
		if s := c.Snapshot(); s == nil || s.Engine.Serverless() {
			continue
		}
		err := p.check(ctx, hinted)
		if ctx.Err() == nil {
			c.status.report(placing, err)
			c.remind()
		}
	}
}

// drain waits for the fetch in flight, whose context has ended.
func (p *placer) drain() {
	if p.cat != nil {
		<-p.cat
	}
}

// check reads the version and fetches what is out of date.
func (p *placer) check(ctx context.Context, force bool) error {
	v, err := p.readVersion(ctx)
	if err != nil {
		hint(p.c.rediscover) // it tells who is still there
		return fmt.Errorf("read the version of the cluster state: %w", err)
	}
	known := p.c.Snapshot()
	if v.ClusterUUID != known.ClusterUUID {
		hint(p.c.rediscover)
		return nil
	}
	if known.table != nil && v.Version < known.Version {
		if p.lower++; p.lower < settleAfter {
			return nil
		}
	}
	p.lower = 0
	moved := known.table == nil || v.Version != known.Version
	if !moved && !force && time.Since(p.fetched) < placementMaxAge {
		p.c.confirmed(v.asOf)
		return nil
	}
	return p.fetch(ctx, v)
}

func (p *placer) readVersion(ctx context.Context) (stateVersion, error) {
	v := stateVersion{asOf: time.Now()}
	var err error
	v.from, err = p.c.fleet.ask(ctx, query{kind: pollVersion, path: versionPath, deadline: min(localDeadline, p.c.o.PollTimeout), decode: decodeJSON(&v)})
	if err == nil && v.Version == 0 {
		err = errors.New("the answer names no version")
	}
	return v, err
}

// fetch gets the placement, at least as new as v: from _cat/shards if that
// answers soon, else from the routing table.
func (p *placer) fetch(ctx context.Context, v stateVersion) error {
	if p.cat == nil && time.Now().After(p.catAfter) {
		p.beginCat(ctx, v)
		patience := time.NewTimer(min(catPatience, p.c.o.PollTimeout))
		defer patience.Stop()
		select {
		case answer := <-p.cat:
			if p.catArrived(answer) {
				p.checkMembers(ctx)
				return nil
			}
		case <-patience.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if time.Now().Before(p.tableAfter) {
		return nil // the version stays unconfirmed: the next tick comes back to it
	}
	return p.fetchTable(ctx, v)
}

func (p *placer) beginCat(ctx context.Context, v stateVersion) {
	answers := make(chan catAnswer, 1)
	p.cat = answers
	p.c.done.Go(func() {
		answer := catAnswer{basis: v}
		answer.err = p.c.fleet.client.get(ctx, v.from, query{
			kind: pollCatShards, path: catShardsPath, deadline: p.c.o.PollTimeout,
			decode: func(r io.Reader) (err error) {
				answer.indices, err = parseCatShards(r)
				return err
			},
		})
		answer.took = time.Since(v.asOf)
		answers <- answer
	})
}

// catArrived takes in how a fetch of _cat/shards ended. It reports whether the
// placement is now what the fetch found.
func (p *placer) catArrived(answer catAnswer) bool {
	p.cat = nil
	p.c.countRefresh(SourceCatShards, answer.err)
	if answer.err != nil {
		p.catAfter = time.Now().Add(jitter(p.catPause))
		p.catPause = min(2*p.catPause, lastCatPause)
		p.c.o.Logger.Debug("shard copies not listed", "err", answer.err, "retry_at", p.catAfter)
		return false
	}
	p.catAfter = time.Now().Add(costFactor * answer.took)
	p.catPause = firstCatPause
	if known := p.c.Snapshot(); known.Source == SourceRoutingTable && known.Version > answer.basis.Version {
		return false // overtaken by the routing table
	}
	p.place(answer.basis, SourceCatShards, answer.indices)
	return true
}

func (p *placer) fetchTable(ctx context.Context, v stateVersion) error {
	started := time.Now()
	var state *routingState
	var indices []Index
	q := query{
		kind: pollRoutingTable, path: routingTablePath, deadline: min(2*localDeadline, p.c.o.PollTimeout),
		decode: func(r io.Reader) (err error) {
			state, indices, err = parseRoutingTable(r)
			return err
		},
	}
	// Only the node that told the version is sure to have applied it.
	err := p.c.fleet.askOne(ctx, v.from, q)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.c.countRefresh(SourceRoutingTable, err)
	p.tableAfter = time.Now().Add(costFactor * time.Since(started))
	if err != nil {
		return fmt.Errorf("fetch the routing table: %w", err)
	}
	p.place(v, SourceRoutingTable, indices)
	p.compareMembers(members(state.Nodes))
	return nil
}

func (p *placer) place(v stateVersion, source string, indices []Index) {
	p.fetched = time.Now()
	p.c.placed(v.ClusterUUID, placement{source: source, version: v.Version, asOf: v.asOf, indices: indices})
}

// checkMembers looks whether the nodes are still those that were discovered.
func (p *placer) checkMembers(ctx context.Context) {
	var state struct {
		Nodes map[string]stateNode `json:"nodes"`
	}
	_, err := p.c.fleet.ask(ctx, query{kind: pollMembers, path: membersPath, deadline: min(localDeadline, p.c.o.PollTimeout), decode: decodeJSON(&state)})
	if err != nil {
		hint(p.c.rediscover)
		return
	}
	p.compareMembers(members(state.Nodes))
}

func (p *placer) compareMembers(now membership) {
	if !maps.Equal(now, p.c.membersKnown()) {
		hint(p.c.rediscover)
	}
}

func (c *Cluster) countRefresh(source string, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	c.metrics.refreshes.WithLabelValues(source, result).Inc()
}
