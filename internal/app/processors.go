package app

import (
	"context"
	"os"
	"runtime"
	runtimemetrics "runtime/metrics"
	"time"
)

const (
	// processorInterval is between two readings of the CPU time that the process has used.
	processorInterval = 50 * time.Millisecond
	// busyShare is the share of one processor from which on all are used, at once, and
	// calmShare the share below which one is enough again, if it was in each of calmReadings.
	busyShare, calmShare = 0.7, 0.5
	calmReadings         = 20
	// A goroutine waits for a processor for longer than longWait (s) where something computes
	// for long, or other processes take the CPU. All processors are used if more than
	// waitShare of at least judgedWaits goroutines did.
	longWait    = 0.005
	waitShare   = 0.1
	judgedWaits = 20
)

// LimitProcessors keeps the runtime on one processor (GOMAXPROCS) while the process needs
// much less than one, until ctx ends. With more, a request that becomes ready wakes up an
// idle thread, which looks for work, finds it done and sleeps again: that costs more CPU
// than the request where little is to be done. As soon as much is to be done, or something has
// to wait, the runtime uses what it does by default. It does nothing if the operator has set
// GOMAXPROCS. It concerns the whole process: call it once.
func LimitProcessors(ctx context.Context) {
	used, known := cpuTime()
	if !known || os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	tick := time.NewTicker(processorInterval)
	defer tick.Stop()
	defer runtime.SetDefaultGOMAXPROCS()
	var p processors
	last, waits := time.Now(), newWaits()
	waits.long()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		total, _ := cpuTime()
		changed := p.observe(float64(total-used)/float64(now.Sub(last)), waits.long())
		last, used = now, total
		switch {
		case !changed:
		case p.one:
			runtime.GOMAXPROCS(1)
		default:
			runtime.SetDefaultGOMAXPROCS()
		}
	}
}

// processors decides how many processors are used.
type processors struct {
	one  bool // one; else as many as the runtime uses by default
	calm int  // readings in a row with less than calmShare
}

// observe takes the processors used in the mean since the last reading, and whether
// something waited for one for long. It returns whether the decision has changed.
func (p *processors) observe(used float64, waited bool) bool {
	if used < calmShare && !waited {
		p.calm++
	} else {
		p.calm = 0
	}
	before := p.one
	switch {
	case used >= busyShare || waited:
		p.one = false
	case p.calm >= calmReadings:
		p.one = true
	}
	return p.one != before
}

// waits counts how long goroutines waited for a processor.
type waits struct {
	sample    []runtimemetrics.Sample
	all, late uint64 // how many waited, and for longer than longWait
}

func newWaits() *waits {
	return &waits{sample: []runtimemetrics.Sample{{Name: "/sched/latencies:seconds"}}}
}

// long reports whether many waited for long since it last judged: it does so as soon as enough
// have waited.
func (w *waits) long() bool {
	runtimemetrics.Read(w.sample)
	if w.sample[0].Value.Kind() != runtimemetrics.KindFloat64Histogram {
		return false
	}
	h := w.sample[0].Value.Float64Histogram()
	var all, late uint64
	for i, n := range h.Counts {
		all += n
		if h.Buckets[i] >= longWait {
			late += n
		}
	}
	if all-w.all < judgedWaits {
		return false
	}
	share := float64(late-w.late) / float64(all-w.all)
	w.all, w.late = all, late
	return share > waitShare
}
