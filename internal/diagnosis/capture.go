package diagnosis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// followerShare is the share of spikes in which a node is asked by a sidestep that
// follows a relay: in a fleet of a hundred five do, which is enough.
const followerShare = 0.05

// capture has the node of a record asked in the background. r.mu is held.
func (r *Recorder) capture(ctx context.Context, open *recording) {
	if open.capturing || len(open.record.Captures) >= maxCaptures {
		return
	}
	if why := r.mayAsk(); why != "" {
		r.metrics.captures.WithLabelValues(captureDropped).Inc()
		open.record.Captures = append(open.record.Captures, Capture{At: Time{time.Now()}, Notes: []string{why}})
		r.assess(open, time.Now())
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

// mayAsk takes a slot for asking; otherwise it returns why none may be taken.
func (r *Recorder) mayAsk() (why string) {
	if r.source.Load().Follows() && rand.Float64() >= followerShare { //nolint:gosec // a draw, not a secret
		return "not asked: a relay tells about the cluster, and a few of those who follow it ask"
	}
	select {
	case r.slots <- struct{}{}:
		return ""
	default:
		return "not asked: too many nodes were in trouble at once"
	}
}

// ask asks about the node while it is in trouble, captureFor at most.
func (r *Recorder) ask(ctx, trouble context.Context, open *recording) {
	a := newAsker(r.source.Load(), open.record.NodeID, r.baseline.well)
	answered := make(chan struct{})
	heard := sync.OnceFunc(func() { close(answered) })
	var hot sync.WaitGroup
	if r.wantsHot(open) {
		once := *a // its turns are its own
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
	r.askStats(ctx, open, a, heard) // how it came back, or that it did not
	<-r.slots
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	open.capturing = false
	r.assess(open, time.Now())
	r.count(open)
	if trouble.Err() != nil && open.record.Ended == nil {
		r.capture(ctx, open) // it is in trouble again meanwhile
	}
}

// wantsHot reports whether the node is in trouble and there is room for more hot threads.
func (r *Recorder) wantsHot(open *recording) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return open.record.Ended == nil && len(open.record.HotThreads) < maxHot
}

// askStats takes one capture: the node itself and another one are asked at the same
// time, for how long either takes tells the way to the node from the way between nodes.
// The counters of who answers first are judged at once, after heard was called.
func (r *Recorder) askStats(ctx context.Context, open *recording, a *asker, heard func()) {
	c := Capture{At: Time{time.Now()}}
	var errDirect, errVia error
	var first sync.Once
	answer := func(counters Counters, err error) {
		if err == nil {
			first.Do(func() {
				heard()
				r.told(ctx, open, counters)
			})
		}
	}
	via := a.next()
	var both sync.WaitGroup
	if a.direct != nil {
		both.Go(func() {
			counters, took, err := a.stats(ctx)
			c.Took, c.Error, errDirect = ptr(millis(took)), text(err), err
			answer(counters, err)
		})
	}
	if via.url != nil {
		c.Via = via.name
		both.Go(func() {
			counters, took, err := a.statsVia(ctx, via)
			c.ViaTook, c.ViaError, errVia = ptr(millis(took)), text(err), err
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
	r.assess(open, time.Now())
}

// told takes in counters of the node of a record.
func (r *Recorder) told(ctx context.Context, open *recording, c Counters) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	open.record.Stats = append(open.record.Stats, c)
	r.assess(open, time.Now())
}

// askOnce asks for what is asked for once, and for hot threads twice.
func (r *Recorder) askOnce(ctx context.Context, open *recording, a asker) {
	take := func() {
		h, err := a.hotThreads(ctx)
		r.noted(open, "hot threads", err, func(rec *Record) {
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
	r.noted(open, "running searches", err, func(rec *Record) { rec.Tasks = append(rec.Tasks, tasks...) })
	pending, err := a.pending(ctx)
	r.noted(open, "pending tasks", err, func(rec *Record) { rec.Pending = pending })
	select {
	case <-time.After(hotAgain - time.Since(began)):
		take()
	case <-ctx.Done():
	}
}

// noted puts into the record what was captured, or why it was not.
func (r *Recorder) noted(open *recording, what string, err error, put func(*Record)) {
	r.metrics.captures.WithLabelValues(r.result(err)).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		put(&open.record)
		return
	}
	open.record.Captures = append(open.record.Captures, Capture{At: Time{time.Now()}, Notes: []string{what + ": " + err.Error()}})
}

// result is how a capture ended, of which some part may have failed. That the account
// lacks the privilege is told in the log, once.
func (r *Recorder) result(errs ...error) string {
	failed := captureOK
	for _, err := range errs {
		if errors.Is(err, errRefused) {
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
