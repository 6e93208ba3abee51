package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"time"

	"sidestep/internal/cluster"
)

const (
	// placementMaxAge is how long a placement whose version stays is kept.
	placementMaxAge = 30 * time.Second
	// wholeMaxAge is the same for the indices that nobody searches.
	wholeMaxAge = 10 * time.Minute
	// refreshPause is the least time between a fetch, or a check that a hint asked for, and the next one that a hint
	// asks for.
	refreshPause = 500 * time.Millisecond
	// costFactor bounds the share of time that fetches of the indices in use may take:
	// one that took t is not repeated before costFactor·t, so that large clusters with
	// many changes are not busy with our polls. wholeCostFactor is the same for fetches
	// of all there is, but for those that fail.
	costFactor      = 10
	wholeCostFactor = 100
	// wholeGrace spreads the fetches of all there is after a relay fell silent: all who had it for a relay begin to poll at
	// the same moment.
	wholeGrace = 30 * time.Second
	// settleAfter is how many checks in a row must find a lower version
	// than known before it is believed: one node may be behind or cut off.
	settleAfter = 5
)

func versionPath(e cluster.Engine) string {
	return "_cluster/state/version" + ownState(e) + "filter_path=cluster_uuid,version"
}

// stateVersion is _cluster/state/version.
type stateVersion struct {
	ClusterUUID string `json:"cluster_uuid"`
	Version     int64  `json:"version"`

	from *url.URL
	asOf time.Time
}

// placer keeps the placement: at every move of the version it asks where the indices
// in use are, or, if its cost allows it, where all are. Its fields belong to the goroutine of
// placeLoop.
type placer struct {
	poller  *Poller
	fetched time.Time     // when the last fetch ended
	lower   int           // checks in a row that found a lower version
	refused time.Duration // the pause after the last check, if the account was refused; else 0

	inUseAfter   time.Time // do not ask for the indices in use before
	inUseFailed  bool      // the last fetch of them did
	membersAfter time.Time // the same for the members
	membersDue   bool      // they may have changed

	wholeVersion int64     // of the last whole placement, 0 if there was none or it is void
	wholeAt      time.Time // when that was taken in
	wholeAfter   time.Time // do not ask for all indices before
	wholeErr     error     // why the last attempt failed
}

// newPlacer returns a placer for p. What a relay told is not asked for again before it changes.
func newPlacer(p *Poller) *placer {
	placer := &placer{poller: p}
	if s := p.Snapshot(); s != nil && s.HasPlacement() && p.o.Source != nil {
		now := time.Now()
		placer.fetched, placer.wholeVersion, placer.wholeAt, placer.wholeAfter = now, s.Version, now, now.Add(rand.N(wholeGrace))
	}
	return placer
}

// placeLoop confirms the placement at every interval and brings it up to date when
// the version of the cluster state moved.
func (p *Poller) placeLoop(ctx context.Context) {
	defer p.newest.Store(nil)
	placer := newPlacer(p)
	tick := time.NewTimer(p.o.PlacementInterval)
	defer tick.Stop()
	var hintedAt time.Time
	for {
		hinted := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(p.PlacementInterval())
		case <-p.replace:
			if placer.refused > 0 {
				continue
			}
			if !Sleep(ctx, refreshPause-min(time.Since(placer.fetched), time.Since(hintedAt))) {
				continue
			}
			hinted, hintedAt = true, time.Now()
		}
		if s := p.Snapshot(); s == nil || s.Engine.Serverless() {
			continue
		}
		err := placer.check(ctx, hinted)
		if ctx.Err() == nil {
			p.status.report(placing, err)
			p.store.LearnAgain()
		}
		if placer.refuse(err); placer.refused > 0 {
			tick.Reset(placer.refused)
		}
	}
}

// refuse makes the pause twice as long each time that the account is refused: each refusal costs the engine the check of
// a password.
func (p *placer) refuse(err error) {
	if stateOf(err) != StateUnauthorized {
		p.refused = 0
		return
	}
	usual := p.poller.PlacementInterval()
	p.refused = max(usual, min(2*max(p.refused, usual), ceilingInterval))
}

// check reads the version and fetches what is out of date.
func (p *placer) check(ctx context.Context, force bool) error {
	v, err := p.readVersion(ctx)
	if err != nil {
		if stateOf(err) != StateUnauthorized {
			hint(p.poller.rediscover) // it tells which nodes are still there
		}
		return fmt.Errorf("read the version of the cluster state: %w", err)
	}
	known := p.poller.Snapshot()
	behind := func() bool { return known.HasPlacement() && v.Version < known.Version }
	if behind() { // a manager applies a state last, after up to 30 s if a node does not
		if other, err := p.readVersion(ctx); err == nil && other.Version > v.Version {
			v = other
		}
	}
	if behind() {
		if p.lower++; p.lower < settleAfter {
			return nil
		}
		p.poller.store.ForgetVersions(v.ClusterUUID)
		p.wholeVersion = 0
	}
	p.lower = 0
	p.poller.newest.Store(v.from)
	if p.membersDue {
		p.checkMembers(ctx)
	}
	if p.wholeIsDue(v.Version) {
		p.wholeErr = p.fetchWhole(ctx, v)
		if p.wholeErr == nil || ctx.Err() != nil {
			return p.wholeErr
		}
		p.poller.o.Logger.Debug("placement of all indices not fetched", "err", p.wholeErr, "retry_at", p.wholeAfter)
	}
	switch {
	case !known.HasPlacement():
		return p.wholeErr
	case v.Version == known.Version && !force && time.Since(p.fetched) < placementMaxAge:
		p.poller.store.Confirmed(v.ClusterUUID, v.Version, v.asOf)
		return nil
	}
	return p.fetchInUse(ctx, v)
}

// readVersion asks a node of the known cluster which version of the cluster state it has. What has not joined one names
// none, and behind one of the addresses may be another cluster.
func (p *placer) readVersion(ctx context.Context) (v stateVersion, err error) {
	known, asOf := p.poller.Snapshot(), time.Now()
	v.from, err = p.poller.endpoints.ask(ctx, Query{
		Kind: kindVersion, Path: versionPath(known.Engine), Deadline: min(localDeadline, p.poller.o.PollTimeout),
		Decode: func(r io.Reader) error {
			v = stateVersion{asOf: asOf}
			switch err := DecodeJSON(&v)(r); {
			case err != nil:
				return err
			case v.Version == 0:
				return errors.New("the answer names no version")
			case v.ClusterUUID != known.ClusterUUID:
				return foreignError(v.ClusterUUID)
			}
			return nil
		},
	})
	return v, err
}

// wholeIsDue reports whether the placement of all indices is to be brought to a version now.
func (p *placer) wholeIsDue(version int64) bool {
	if p.wholeErr == nil && !p.poller.Snapshot().HasPlacement() {
		return true // nothing was tried yet, or that was of another cluster
	}
	return !time.Now().Before(p.wholeAfter) && (version != p.wholeVersion || time.Since(p.wholeAt) >= wholeMaxAge)
}

// fetchWhole brings the placement of all indices to version v or a later one.
func (p *placer) fetchWhole(ctx context.Context, v stateVersion) error {
	started := time.Now()
	version, err := p.poller.placeAll(ctx, v.from, started)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	took := time.Since(started)
	if err != nil {
		p.wholeVersion, p.wholeAfter = 0, time.Now().Add(costFactor*took)
		return fmt.Errorf("fetch the placement of all indices: %w", err)
	}
	p.wholeAfter = time.Now().Add(wholeCostFactor * took)
	if version < v.Version {
		return nil // another node answered, behind one address: the next tick comes back to it
	}
	p.wholeVersion, p.wholeAt, p.fetched, p.membersDue = version, time.Now(), time.Now(), true
	p.poller.store.Confirmed(v.ClusterUUID, version, started)
	return nil
}

// fetchInUse brings the placement of the indices in use to version v. All others
// stay as they were; they are believed for a while.
func (p *placer) fetchInUse(ctx context.Context, v stateVersion) error {
	if time.Now().Before(p.inUseAfter) {
		return nil // the version stays unconfirmed: the next tick comes back to it
	}
	started := time.Now()
	names := p.poller.store.NamesInUse()
	if len(names) > 0 {
		// Only the node that told the version is sure to have applied it.
		asOf, err := p.poller.placeIndices(ctx, v.from, names)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || p.inUseFailed { // the first failure may be of a node that stands still: the next is asked at once
			p.inUseAfter = time.Now().Add(costFactor * time.Since(started))
		}
		p.inUseFailed = err != nil
		switch {
		case err != nil:
			return fmt.Errorf("fetch the placement of %d indices in use: %w", len(names), err)
		case asOf < v.Version:
			return nil // another node answered, behind one address: the same
		}
	}
	p.fetched = time.Now()
	p.poller.store.Confirmed(v.ClusterUUID, v.Version, v.asOf)
	p.membersDue = true
	return nil
}

// placeIndices asks where the copies of these indices are, and takes in the answer.
// It asks the node at from alone; nil is any. It returns the version that the answer
// is at least of.
func (p *Poller) placeIndices(ctx context.Context, from *url.URL, names []string) (version int64, err error) {
	if s := p.Snapshot(); from != nil && len(names) > minHalf && len(names) > s.CountIndices()/2 {
		return p.placeAll(ctx, from, time.Now())
	}
	version = math.MaxInt64
	paths, of := namesPaths(names)
	for i, path := range paths {
		state, err := p.readRoutingTable(ctx, from, "/"+path)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		p.countRefresh(sourceInUse, err)
		if err != nil {
			return 0, err
		}
		p.store.PlacedSome(state, of[i])
		version = min(version, state.Version)
	}
	return version, nil
}

// minHalf is from how many indices on half of all there are is as good as all.
const minHalf = 200

// placeAll is placeIndices for all indices at once, where they are at this time.
func (p *Poller) placeAll(ctx context.Context, from *url.URL, asOf time.Time) (version int64, err error) {
	state, err := p.readRoutingTable(ctx, from, "")
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	p.countRefresh(sourceRoutingTable, err)
	if err != nil {
		return 0, err
	}
	p.store.PlacedAll(asOf, state)
	return state.Version, nil
}

// readRoutingTable asks a node for its routing table, or for that of some indices.
func (p *Poller) readRoutingTable(ctx context.Context, from *url.URL, names string) (state *cluster.Placement, err error) {
	known, deadline := p.Snapshot(), p.o.PollTimeout
	if names != "" {
		deadline = min(2*localDeadline, deadline)
	}
	q := Query{
		Kind: kindRoutingTable, Deadline: deadline, longest: maxPlacement,
		Path: "_cluster/state/version,routing_table" + names + ownState(known.Engine) + "ignore_unavailable=true&allow_no_indices=true&expand_wildcards=all" + routingFields,
		Decode: func(r io.Reader) (err error) {
			if state, err = parseRoutingTable(r, newPlacementBuilder(known)); err == nil && state.ClusterUUID != known.ClusterUUID {
				err = foreignError(state.ClusterUUID)
			}
			return err
		},
	}
	if from != nil {
		return state, p.endpoints.askOne(ctx, from, q)
	}
	_, err = p.endpoints.askFirst(ctx, p.newest.Load(), q)
	return state, err
}

// checkMembers looks whether the nodes are still those that were discovered.
func (p *placer) checkMembers(ctx context.Context) {
	started := time.Now()
	if started.Before(p.membersAfter) {
		return
	}
	s := p.poller.Snapshot()
	state, _, err := p.poller.askMembers(ctx, p.poller.newest.Load(), s.Engine, s.ClusterUUID)
	p.membersDue = false
	p.membersAfter = time.Now().Add(wholeCostFactor * time.Since(started))
	known := p.poller.members.Load()
	if err != nil || known != nil && !maps.Equal(state.members(), *known) {
		hint(p.poller.rediscover)
	}
}

// foreignError says that an answer is of the cluster with this uuid, and not of the known one.
func foreignError(uuid string) error {
	return fmt.Errorf("the answer is of another cluster (uuid %s)", uuid)
}

// Sources of a placement. The set is closed: used as a metric label.
const (
	sourceRoutingTable = "routing_table" // the whole one
	sourceInUse        = "in_use"        // that of the indices in use
)

func (p *Poller) countRefresh(source string, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	p.metrics.refreshes.WithLabelValues(source, result).Inc()
}
