package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"time"
)

// Sources of a placement. The set is closed: used as a metric label.
const (
	SourceCatShards    = "cat_shards"
	SourceListShards   = "list_shards"
	SourceRoutingTable = "routing_table"
	// SourceInUse is the routing table of the indices in use alone. It brings a
	// placement up to date and is the source of none.
	SourceInUse = "in_use"
)

const (
	// placementMaxAge is how long a placement whose version stays is kept.
	placementMaxAge = 30 * time.Second
	// wholeMaxAge is the same for the indices that nobody searches.
	wholeMaxAge = 10 * time.Minute
	// believeFor is for how long an index that was not asked about is believed to be
	// placed as it was after the version moved.
	believeFor = 30 * time.Second
	// refreshPause is the least time between a fetch and one that a hint asks for.
	refreshPause = 500 * time.Millisecond
	// firstPatience is how long the first table, which waits for its slowest node, is
	// waited for before the routing table is fetched besides.
	firstPatience = time.Second
	// costFactor bounds the share of time that fetches of the indices in use may take:
	// one that took t is not repeated before costFactor·t, so that large clusters with
	// many changes are not busy with our polls. wholeCostFactor is the same for fetches
	// of all there is.
	costFactor      = 10
	wholeCostFactor = 100
	// settleAfter is how many version polls in a row must find a lower version
	// than known before it is believed: one node may be behind or cut off.
	settleAfter = 5

	versionPath = "_cluster/state/version?local=true"
)

// stateVersion is _cluster/state/version.
type stateVersion struct {
	ClusterUUID string `json:"cluster_uuid"`
	Version     int64  `json:"version"`

	from *url.URL
	asOf time.Time
}

// placer keeps the placement: at every move of the version it asks where the indices
// in use are, and now and then where all are. Its fields belong to the goroutine of
// placeLoop.
type placer struct {
	c       *Cluster
	fetched time.Time // when the last fetch ended
	lower   int       // version polls in a row that found a lower version

	inUseAfter   time.Time // do not ask for the indices in use before
	membersAfter time.Time // the same for the members
	membersDue   bool      // they may have changed

	whole wholeState
}

// placeLoop confirms the placement at every interval and brings it up to date when
// the version of the cluster state moved.
func (c *Cluster) placeLoop(ctx context.Context) {
	p := &placer{c: c, whole: c.wholeKnown()}
	tick := time.NewTimer(c.o.PlacementInterval)
	defer tick.Stop()
	for {
		hinted := false
		select {
		case <-ctx.Done():
			p.drain()
			return
		case answer := <-p.whole.answer:
			p.wholeArrived(ctx, answer)
			continue
		case <-tick.C:
			tick.Reset(c.placementInterval())
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
	if p.whole.answer != nil {
		<-p.whole.answer
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
		p.c.forgetVersions()
		p.whole.version, p.whole.forgotten = 0, true
	}
	p.lower = 0
	p.beginWhole(ctx, v)
	if p.membersDue {
		p.checkMembers(ctx)
	}
	switch {
	case known.table == nil:
		return p.fetchFirst(ctx, v)
	case v.Version == known.Version && !force && time.Since(p.fetched) < placementMaxAge:
		p.c.confirmed(v)
		return nil
	}
	return p.fetchInUse(ctx, v)
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

// fetchInUse brings the placement of the indices in use to version v. All others
// stay as they were; they are believed for a while.
func (p *placer) fetchInUse(ctx context.Context, v stateVersion) error {
	if time.Now().Before(p.inUseAfter) {
		return nil // the version stays unconfirmed: the next tick comes back to it
	}
	started := time.Now()
	names := p.c.namesInUse(started.Add(-useExpiry))
	if len(names) > 0 {
		// Only the node that told the version is sure to have applied it.
		asOf, err := p.c.placeIndices(ctx, v.from, names)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.inUseAfter = time.Now().Add(costFactor * time.Since(started))
		switch {
		case err != nil:
			return fmt.Errorf("fetch the placement of %d indices in use: %w", len(names), err)
		case asOf < v.Version:
			return nil // another node answered, behind one address: the same
		}
	}
	p.fetched = time.Now()
	p.c.confirmed(v)
	p.membersDue = true
	return nil
}

// namesInUse lists the indices that searches or learned targets used since then.
func (c *Cluster) namesInUse(since time.Time) []string {
	names := map[string]bool{}
	c.school.usedSince(since, names)
	for _, name := range c.inUse.names(since) {
		names[name] = true
	}
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	return all
}

// placeIndices asks where the copies of these indices are, and takes in the answer.
// It asks the node at from alone; nil is any. It returns the version that the answer
// is at least of.
func (c *Cluster) placeIndices(ctx context.Context, from *url.URL, names []string) (version int64, err error) {
	if s := c.Snapshot(); from != nil && len(names) > minHalf && len(names) > s.table.indices.Len()/2 {
		return c.placeAll(ctx, from)
	}
	uuid := c.Snapshot().ClusterUUID
	version = math.MaxInt64
	paths, of := namesPaths(names)
	for i, path := range paths {
		state, err := c.readRoutingTable(ctx, from, "/"+path)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		c.countRefresh(SourceInUse, err)
		if err != nil {
			return 0, err
		}
		if state.uuid == uuid {
			c.placed(state, of[i])
		}
		version = min(version, state.version)
	}
	return version, nil
}

// minHalf is from how many indices on half of all there are is as good as all.
const minHalf = 200

// placeAll is placeIndices for all indices at once.
func (c *Cluster) placeAll(ctx context.Context, from *url.URL) (version int64, err error) {
	uuid := c.Snapshot().ClusterUUID
	state, err := c.readRoutingTable(ctx, from, "")
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	c.countRefresh(SourceRoutingTable, err)
	if err != nil {
		return 0, err
	}
	if state.uuid == uuid {
		c.placedWhole(SourceRoutingTable, time.Now(), state)
	}
	return state.version, nil
}

// readRoutingTable asks a node for its routing table, or for that of some indices.
func (c *Cluster) readRoutingTable(ctx context.Context, from *url.URL, names string) (state *routingState, err error) {
	deadline := c.o.PollTimeout
	if names != "" {
		deadline = min(2*localDeadline, deadline)
	}
	q := query{
		kind: pollRoutingTable, deadline: deadline,
		path: "_cluster/state/version,routing_table" + names + "?local=true&ignore_unavailable=true&allow_no_indices=true&expand_wildcards=all" + routingFields,
		decode: func(r io.Reader) (err error) {
			state, err = parseRoutingTable(r, newPlacementBuilder(c.Snapshot().table))
			return err
		},
	}
	if from != nil {
		return state, c.fleet.askOne(ctx, from, q)
	}
	_, err = c.fleet.ask(ctx, q)
	return state, err
}

// checkMembers looks whether the nodes are still those that were discovered.
func (p *placer) checkMembers(ctx context.Context) {
	started := time.Now()
	if started.Before(p.membersAfter) {
		return
	}
	var state struct {
		Nodes map[string]stateNode `json:"nodes"`
	}
	_, err := p.c.fleet.ask(ctx, query{kind: pollMembers, path: membersPath, deadline: min(localDeadline, p.c.o.PollTimeout), decode: decodeJSON(&state)})
	p.membersDue = false
	p.membersAfter = time.Now().Add(wholeCostFactor * time.Since(started))
	if err != nil || !maps.Equal(members(state.Nodes), p.c.membersKnown()) {
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
