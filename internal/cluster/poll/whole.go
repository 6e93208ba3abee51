package poll

import (
	"context"
	"math/rand/v2"
	"time"

	"sidestep/internal/cluster"
)

const (
	// wholeGrace spreads the reads of whole placements after a relay fell silent: all
	// that had it for a relay begin to poll at the same moment. Where most of many indices are in use they do not wait.
	wholeGrace = 30 * time.Second
	// wholeRest is for how long at most the whole placement is not read again after it could not be read, and wholeDeadline
	// how long it may take at most: twice as long as the last time, as it takes a large cluster longer than any other answer.
	wholeRest     = time.Minute
	wholeDeadline = 30 * time.Second
	// minHalf is from how many indices on half of all there are is as good as all.
	minHalf = 200
)

// wholeState is what the placer knows of reads of the whole placement.
type wholeState struct {
	answer chan wholeAnswer   // of the read in flight; nil if there is none
	cancel context.CancelFunc // ends it

	uuid    string    // of the cluster that all is about
	version int64     // of the last one that was taken in, 0 if there was none
	at      time.Time // when that was

	// The next one begins when a multiple of took has passed since ended.
	ended time.Time     // when the last one ended, well or not
	took  time.Duration // how long that took
	err   error         // how it ended
	twice bool          // and the one before had failed as well
	grace time.Time     // none before this, where it may take wholeCostFactor
}

// wholeKnown returns what is known of the whole placement when its reads begin:
// what a relay told need not be read again before it changes.
func (p *Poller) wholeKnown() wholeState {
	s := p.Snapshot()
	if s == nil || !s.HasPlacement() || p.o.Source == nil {
		return wholeState{}
	}
	now := time.Now()
	return wholeState{uuid: s.ClusterUUID, version: s.Version, at: now, grace: now.Add(rand.N(wholeGrace))}
}

// forget begins anew, for the cluster with this uuid. What is in flight is of no account any more, and ends.
func (w *wholeState) forget(uuid string) {
	if w.answer != nil {
		w.cancel()
	}
	*w = wholeState{uuid: uuid}
}

// rests reports whether the whole placement is not to be read again yet, where that may take one part in factor of the
// time.
func (w *wholeState) rests(factor int) bool {
	now, rest := time.Now(), time.Duration(factor)*w.took
	switch {
	case w.twice:
		rest = min(rest, wholeRest)
	case w.err != nil: // it may be of a node that stands still: the next one is asked at once
		rest = 0
	}
	return now.Sub(w.ended) < rest || factor == wholeCostFactor && now.Before(w.grace)
}

// soon reports whether reading the whole placement goes well, and so quickly that the placement is confirmed long before it
// is too old, though that is done for a tenth of the time alone.
func (w *wholeState) soon(maxAge time.Duration) bool {
	return w.err == nil && (costFactor+2)*w.took < maxAge/2
}

// wholeAnswer is how a read of the whole placement ended.
type wholeAnswer struct {
	state *cluster.Placement
	asked stateVersion // what was told before
	took  time.Duration
	err   error
}

// beginWhole begins to read the whole placement, at least as new as v, unless that is being done or its cost forbids it.
func (p *placer) beginWhole(ctx context.Context, v stateVersion, factor int) {
	w := &p.whole
	if w.answer != nil || w.rests(factor) {
		return
	}
	answer, deadline := make(chan wholeAnswer, 1), max(p.poller.o.PollTimeout, min(2*w.took, wholeDeadline))
	ctx, cancel := context.WithCancel(ctx)
	w.answer, w.cancel = answer, cancel
	p.poller.done.Go(func() {
		defer cancel()
		started := time.Now()
		state, err := p.poller.readRoutingTable(ctx, v.from, "", deadline)
		answer <- wholeAnswer{state, v, time.Since(started), err}
	})
}

// wholeArrived takes in how a read of the whole placement ended.
func (p *placer) wholeArrived(ctx context.Context, answer wholeAnswer) {
	w := &p.whole
	w.answer = nil
	if ctx.Err() != nil {
		return
	}
	p.poller.countRefresh(wholeTable, answer.err)
	w.twice = w.err != nil && answer.err != nil
	w.ended, w.took, w.err = time.Now(), answer.took, answer.err
	if answer.err != nil {
		p.poller.o.Logger.Debug("the whole placement was not read", "err", answer.err)
		return
	}
	w.version, w.at = answer.state.Version, w.ended
	asOf := answer.asked.asOf
	if w.version >= answer.asked.Version {
		p.fetched = w.ended
	} else if p.poller.Snapshot().HasPlacement() {
		asOf = time.Time{} // of another node, behind one address, that is behind: it confirms nothing
	}
	p.poller.store.PlacedAll(asOf, answer.state)
	p.membersDue = true
}

// drain waits for the read in flight, of which the context has ended.
func (p *placer) drain() {
	if p.whole.answer != nil {
		<-p.whole.answer
	}
}
