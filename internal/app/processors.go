package app

import (
	"context"
	"os"
	"runtime"
	"time"
)

const (
	// processorInterval is between two readings of the CPU time that the process has used.
	processorInterval = 50 * time.Millisecond
	// busyShare is the share of one processor from which on all are used, at once, and
	// calmShare the share below which one is enough again, if it was in each of calmReadings.
	busyShare, calmShare = 0.7, 0.5
	calmReadings         = 20
)

// LimitProcessors keeps the runtime on one processor (GOMAXPROCS) while the process needs
// much less than one, until ctx ends. With more, a request that becomes ready wakes up an
// idle thread, which looks for work, finds it done and sleeps again: that costs more CPU
// than the request where little is to be done. As soon as much is to be done, the runtime
// uses what it does by default. It does nothing if the operator has set GOMAXPROCS. It
// concerns the whole process: call it once.
func LimitProcessors(ctx context.Context) {
	used, known := cpuTime()
	if !known || os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	tick := time.NewTicker(processorInterval)
	defer tick.Stop()
	defer runtime.SetDefaultGOMAXPROCS()
	var p processors
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		total, _ := cpuTime()
		changed := p.observe(float64(total-used) / float64(now.Sub(last)))
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

// observe takes the processors used in the mean since the last reading, and returns
// whether the decision has changed.
func (p *processors) observe(used float64) bool {
	if used < calmShare {
		p.calm++
	} else {
		p.calm = 0
	}
	before := p.one
	switch {
	case used >= busyShare:
		p.one = false
	case p.calm >= calmReadings:
		p.one = true
	}
	return p.one != before
}
