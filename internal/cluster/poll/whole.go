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
	// wholeDeadline is how long the whole placement may take to be read at most: twice as long as the last time, as it takes
	// a large cluster longer than any other answer.
	wholeDeadline = 30 * time.Second
	// longestRest is for how long at most is not read again what could not be read.
	longestRest = time.Minute
	// minHalf is from how many indices on half of all there are is as good as all.
	minHalf = 200
)

// effort is what a read took the last time, which decides when it may be made again.
type effort struct {
	ended time.Time     // when the last one ended, well or not
	took  time.Duration // how long that took
	err   error         // how it ended
	twice bool          // and the one before had failed as well
}

// note takes in how a read ended.
func (e *effort) note(took time.Duration, err error) {
	*e = effort{ended: time.Now(), took: took, err: err, twice: e.err != nil && err != nil}
}

// rests reports whether the read is not to be made again yet, where that may take one part in factor of the time.
func (e *effort) rests(factor int) bool {
	rest := time.Duration(factor) * e.took
	switch {
	case e.twice:
		rest = min(rest, longestRest)
	case e.err != nil: // it may be of a node that stands still: the next one is asked at once
		rest = 0
	}
	return time.Since(e.ended) < rest
}

// wholeState is what the placer knows of reads of the whole placement.
type wholeState struct {
	answer chan wholeAnswer   // of the read in flight; nil if there is none
	cancel context.CancelFunc // ends it

	effort
	uuid    string    // of the cluster that all is about
	version int64     // of the last one that was taken in, 0 if there was none
	grace   time.Time // none before this, where it may take wholeCostFactor
}

// wholeKnown returns what is known of the whole placement when its reads begin:
// what a relay told need not be read again before it changes.
func (p *Poller) wholeKnown() wholeState {
	s := p.Snapshot()
	if s == nil || !s.HasPlacement() || p.o.Source == nil {
		return wholeState{}
	}
	return wholeState{uuid: s.ClusterUUID, version: s.Version, grace: time.Now().Add(rand.N(wholeGrace))}
}

// forget begins anew, for the cluster with this uuid. What is in flight is of no account any more, and ends.
func (w *wholeState) forget(uuid string) {
	if w.answer != nil {
		w.cancel()
	}
	*w = wholeState{uuid: uuid}
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
	if w.answer != nil || w.rests(factor) || factor == wholeCostFactor && time.Now().Before(w.grace) {
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
	w.note(answer.took, answer.err)
	if answer.err != nil {
		p.poller.o.Logger.Debug("the whole placement was not read", "err", answer.err)
		return
	}
	w.version = answer.state.Version
	asOf := answer.asked.asOf
	if w.version < answer.asked.Version && p.poller.Snapshot().HasPlacement() {
		asOf = time.Time{} // of another node, behind one address, that is behind: it confirms nothing
	}
	p.poller.store.PlacedAll(asOf, answer.state)
}

// drain waits for the read in flight, of which the context has ended.
func (p *placer) drain() {
	if p.whole.answer != nil {
		<-p.whole.answer
	}
}
