package diagnosis

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// followerShare is the share of spikes in which a sidestep that follows a relay asks the
// node itself. In a fleet of a hundred that is five, which is enough.
const followerShare = 0.05

// capture starts asking about the node of a record, in the background. r.mu is held.
func (r *Recorder) capture(ctx context.Context, open *recording) {
	if open.capturing || len(open.record.Captures) >= maxCaptures {
		return
	}
	if why := r.mayAsk(); why != "" {
		r.metrics.captures.WithLabelValues(captureDropped).Inc()
		open.record.Captures = append(open.record.Captures, Capture{At: Time{time.Now()}, Notes: []string{why}})
		r.assess(open)
		return
	}
	trouble, well := context.WithCancel(ctx)
	open.capturing, open.well = true, well
	if open.record.Ended != nil {
		well()
	}
	r.done.Go(func() {
		defer well()
		r.ask(ctx, trouble, open)
	})
}

// mayAsk takes a slot for asking, or returns why there is none.
func (r *Recorder) mayAsk() (why string) {
	if r.source.Load().Follows() && rand.Float64() >= followerShare { //nolint:gosec // a draw, not a secret
		return "not asked: statistics come from a relay, and few of the sidesteps that follow it ask"
	}
	select {
	case r.slots <- struct{}{}:
		return ""
	default:
		return "not asked: too many nodes were in trouble at once"
	}
}

// ask asks about the node every captureEvery while it is in trouble, for at most
// captureFor.
func (r *Recorder) ask(ctx, trouble context.Context, open *recording) {
	a := newQuerier(r.source.Load(), open.record.NodeID, r.baseline.fine)
	answered := make(chan struct{})
	heard := sync.OnceFunc(func() { close(answered) })
	var hot sync.WaitGroup
	if r.wantsHot(open) {
		once := *a // a copy: it takes turns of its own
		hot.Go(func() {
			select {
			case <-answered:
			case <-time.After(hotAfter):
			case <-ctx.Done():
				return
			}
			r.askOnce(ctx, open, once)
		})
	}

	tick := time.NewTicker(captureEvery)
	defer tick.Stop()
	over := time.NewTimer(captureFor)
	defer over.Stop()
	for again := true; again; {
		r.askStats(ctx, open, a, heard)
		select {
		case <-tick.C:
		case <-over.C:
			again = false
		case <-trouble.Done():
			again = false
		}
	}
	hot.Wait()
	r.askStats(ctx, open, a, heard) // after the end: whether the node recovered
	<-r.slots
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	open.capturing = false
	r.assess(open)
	if open.lasts() && trouble.Err() != nil {
		r.capture(ctx, open) // it got into trouble again meanwhile
	}
}

// wantsHot reports whether the node is in trouble and there is room for more hot threads.
func (r *Recorder) wantsHot(open *recording) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return open.record.Ended == nil && len(open.record.HotThreads) < maxHot
}

// askStats takes one capture. It asks the node itself and, at the same time, another node
// about it: from the two times one can tell a slow way from clients to the node from a
// slow way between nodes. The first counters to arrive are assessed at once, after heard
// was called.
func (r *Recorder) askStats(ctx context.Context, open *recording, a *querier, heard func()) {
	c := Capture{At: Time{time.Now()}}
	var errDirect, errVia error
	var first sync.Once
	answer := func(counters Counters, err error) {
		if err == nil {
			first.Do(func() {
				heard()
				r.addStats(ctx, open, counters)
			})
		}
	}
	via := a.next()
	var both sync.WaitGroup
	if a.direct != nil {
		both.Go(func() {
			counters, took, err := a.stats(ctx, other{})
			c.Took, c.Error, c.Status, errDirect = ptr(millis(took)), text(err), statusOf(err), err
			answer(counters, err)
		})
	}
	if via.url != nil {
		c.Via = via.name
		both.Go(func() {
			counters, took, err := a.stats(ctx, via)
			c.ViaTook, c.ViaError, c.ViaStatus, errVia = ptr(millis(took)), text(err), statusOf(err), err
			answer(counters, err)
		})
	}
	both.Wait()
	if ctx.Err() != nil {
		return
	}
	r.metrics.captures.WithLabelValues(r.result(errDirect, errVia)).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	open.record.Captures = append(open.record.Captures, c)
	r.assess(open)
}

// addStats adds counters of the node to its record.
func (r *Recorder) addStats(ctx context.Context, open *recording, c Counters) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	open.record.Stats = append(open.record.Stats, c)
	r.assess(open)
}

// askOnce asks for tasks and pending tasks once, and for hot threads twice.
func (r *Recorder) askOnce(ctx context.Context, open *recording, a querier) {
	take := func() {
		h, err := a.hotThreads(ctx)
		r.addResult(open, "hot threads", err, func(rec *Record) {
			rec.HotThreads = append(rec.HotThreads, h)
			fold(open.folded, h.Threads)
			for i := range h.Threads {
				h.Threads[i].stacks = nil
			}
		})
	}
	began := time.Now()
	take()
	tasks, err := a.tasks(ctx)
	r.addResult(open, "running searches", err, func(rec *Record) { rec.Tasks = append(rec.Tasks, tasks...) })
	pending, err := a.pending(ctx)
	r.addResult(open, "pending tasks", err, func(rec *Record) { rec.Pending = pending })
	select {
	case <-time.After(hotAgain - time.Since(began)):
		take()
	case <-ctx.Done():
	}
}

// addResult puts into the record what was captured, or the error why it was not.
func (r *Recorder) addResult(open *recording, what string, err error, put func(*Record)) {
	r.metrics.captures.WithLabelValues(r.result(err)).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		put(&open.record)
		return
	}
	open.record.Captures = append(open.record.Captures, Capture{At: Time{time.Now()}, Notes: []string{what + ": " + err.Error()}})
}

// result returns the label of a capture, of which some part may have failed. It logs once
// that the account lacks the privilege.
func (r *Recorder) result(errs ...error) string {
	failed := captureOK
	for _, err := range errs {
		if refused(err) {
			r.refused.Do(func() {
				r.o.Logger.Warn("spikes are recorded without the nodes' own figures: grant sidestep's account the cluster privilege monitor")
			})
			return captureRefused
		}
		if err != nil {
			failed = captureFailed
		}
	}
	return failed
}

func ptr(ms float64) *float64 { return &ms }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
