package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"time"

	"sidestep/internal/cluster"
)

const (
	// refreshPause is the least time between two checks that hints ask for.
	refreshPause = 500 * time.Millisecond
	// costFactor bounds the share of time that fetches of the indices in use may take:
	// one that took t is not repeated before costFactor·t, so that large clusters with
	// many changes are not busy with our polls. wholeCostFactor is the same for reads
	// of all there is, once there is a placement.
	costFactor      = 10
	wholeCostFactor = 100
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
// in use are, and where all are as often as that may be asked. Its fields belong to the goroutine of
// placeLoop.
type placer struct {
	poller  *Poller
	lower   int           // checks in a row that found a lower version
	refused time.Duration // the pause after the last check, if the account was refused; else 0

	inUse     effort // of reads of the indices in use
	members   effort // of looks at the members
	membersOf int64  // the version at which they were last looked at
	whole     wholeState
}

// placeLoop confirms the placement at every interval and brings it up to date when
// the version of the cluster state moved.
func (p *Poller) placeLoop(ctx context.Context) {
	defer p.newest.Store(nil)
	placer := &placer{poller: p, whole: p.wholeKnown()}
	placer.membersOf = placer.whole.version
	tick := time.NewTimer(p.o.PlacementInterval)
	defer tick.Stop()
	var hintedAt time.Time
	for {
		hinted := false
		select {
		case <-ctx.Done():
			placer.drain()
			return
		case answer := <-placer.whole.answer:
			placer.wholeArrived(ctx, answer)
			if s := p.Snapshot(); !s.HasPlacement() && ctx.Err() == nil {
				p.status.report(placing, placer.whole.err)
			}
			continue
		case <-tick.C:
			tick.Reset(p.PlacementInterval())
		case <-p.replace:
			if placer.refused > 0 {
				continue
			}
			if !Sleep(ctx, refreshPause-time.Since(hintedAt)) {
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
	v, err := p.readVersion(ctx, nil)
	if err != nil {
		if stateOf(err) != StateUnauthorized {
			hint(p.poller.rediscover) // it tells which nodes are still there
		}
		return fmt.Errorf("read the version of the cluster state: %w", err)
	}
	known := p.poller.Snapshot()
	behind := func() bool { return known.HasPlacement() && v.Version < known.Version }
	if behind() { // a manager applies a state last, after up to 30 s if a node does not
		if other, err := p.readVersion(ctx, p.poller.endpoints.other(v.from)); err == nil && other.Version > v.Version {
			v = other
		}
	}
	if behind() {
		if p.lower++; p.lower < settleAfter {
			return nil
		}
		p.poller.store.ForgetVersions(v.ClusterUUID)
		p.whole.forget(v.ClusterUUID)
	}
	p.lower = 0
	if p.whole.uuid != v.ClusterUUID {
		p.whole.forget(v.ClusterUUID)
	}
	p.poller.newest.Store(v.from)
	if !known.HasPlacement() {
		p.beginWhole(ctx, v, costFactor)
		return p.whole.err
	}
	names := p.poller.store.Unseen(v.Version, v.asOf)
	if force {
		names = p.poller.store.NamesInUse()
	}
	read, err := p.readInUse(ctx, v, names)
	// While the version stays, what was seen at it is true. What was not is believed until that is confirmed.
	if read || v.Version == known.Version && v.asOf.Sub(known.PlacedAt) > min(cluster.BelieveFor, p.poller.o.PlacementMaxAge)/2 {
		p.poller.store.Confirmed(v.ClusterUUID, v.Version, v.asOf)
	}
	if v.Version != p.whole.version {
		p.beginWhole(ctx, v, wholeCostFactor)
	}
	if v.Version != p.membersOf && !p.members.rests(wholeCostFactor) {
		p.checkMembers(ctx, v)
	}
	return err
}

// readVersion asks a node of the known cluster which version of the cluster state it has, first the one at this address,
// if any. What has not joined a cluster names none, and behind one of the addresses may be another cluster.
func (p *placer) readVersion(ctx context.Context, first *url.URL) (v stateVersion, err error) {
	known, asOf := p.poller.Snapshot(), time.Now()
	v.from, err = p.poller.endpoints.askFirst(ctx, first, Query{
		Kind: kindVersion, Path: versionPath(known.Engine), Deadline: min(localDeadline, p.poller.o.PollTimeout),
		Decode: func(r io.Reader) error {
			v = stateVersion{asOf: asOf}
			switch err := DecodeJSON(&v)(r); {
			case err != nil:
				return err
			case v.Version == 0:
				return errors.New("the answer names no version")
			case v.ClusterUUID != known.ClusterUUID:
				return fmt.Errorf("the answer is of another cluster (uuid %s)", v.ClusterUUID)
			}
			return nil
		},
	})
	return v, err
}

// readInUse reads where these indices are, at version v or later, and reports whether it did. All others stay as they were;
// they are believed for a while.
func (p *placer) readInUse(ctx context.Context, v stateVersion, names []string) (read bool, err error) {
	switch {
	case len(names) == 0:
		return true, nil
	case p.inUse.rests(costFactor):
		return false, nil // the next tick comes back to it
	case len(names) > minHalf && len(names) > p.poller.Snapshot().CountIndices()/2 && p.whole.soon(p.poller.o.PlacementMaxAge):
		p.beginWhole(ctx, v, costFactor) // as good, and confirms what it finds
		return false, nil
	}
	started := time.Now()
	// Only the node that told the version is sure to have applied it.
	asOf, err := p.poller.placeIndices(ctx, v.from, names)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	p.inUse.note(time.Since(started), err)
	if err != nil {
		return false, fmt.Errorf("read the placement of %d indices in use: %w", len(names), err)
	}
	return asOf >= v.Version, nil // behind one address another node may have answered
}

// placeIndices asks where the copies of these indices are, and takes in the answer.
// It asks the node at from alone; nil is any. It returns the version that the answer
// is at least of.
func (p *Poller) placeIndices(ctx context.Context, from *url.URL, names []string) (version int64, err error) {
	version = math.MaxInt64
	paths, of := namesPaths(names)
	for i, path := range paths {
		state, err := p.readRoutingTable(ctx, from, "/"+path, min(2*localDeadline, p.o.PollTimeout))
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		p.countRefresh(inUseTable, err)
		if err != nil {
			return 0, err
		}
		p.store.PlacedSome(state, of[i])
		version = min(version, state.Version)
	}
	return version, nil
}

// readRoutingTable asks a node of the known cluster for its routing table, or for that of some indices.
func (p *Poller) readRoutingTable(ctx context.Context, from *url.URL, names string, deadline time.Duration) (state *cluster.Placement, err error) {
	known := p.Snapshot()
	q := Query{
		Kind: kindRoutingTable, Deadline: deadline, longest: maxPlacement,
		Path: "_cluster/state/version,routing_table" + names + ownState(known.Engine) + "ignore_unavailable=true&allow_no_indices=true&expand_wildcards=all" + routingFields,
		Decode: func(r io.Reader) (err error) {
			state, err = parseRoutingTable(r, newPlacementBuilder(p.Snapshot()))
			if err == nil && state.ClusterUUID != known.ClusterUUID {
				return fmt.Errorf("the answer is of another cluster (uuid %s)", state.ClusterUUID)
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
func (p *placer) checkMembers(ctx context.Context, v stateVersion) {
	s, started := p.poller.Snapshot(), time.Now()
	state, _, err := p.poller.askMembers(ctx, v.from, s.Engine, s.ClusterUUID)
	p.members.note(time.Since(started), err)
	p.membersOf = v.Version
	known := p.poller.members.Load()
	if err != nil || known != nil && !maps.Equal(state.members(), *known) {
		hint(p.poller.rediscover)
	}
}

// Sources of a placement. The set is closed: used as a metric label.
const (
	wholeTable = "routing_table"
	inUseTable = "in_use" // the routing table of the indices in use alone
)

func (p *Poller) countRefresh(source string, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	p.metrics.refreshes.WithLabelValues(source, result).Inc()
}
