package simcluster

import (
	"sync"
	"time"
)

// idleCPU is the share of a processor that a node uses while it runs.
const idleCPU = 0.05

// usage is what a node's statistics report of its faults.
type usage struct {
	mu    sync.Mutex
	since time.Time // until when time was counted
	spent spent
}

// spent is time that went into something, and how often that happened.
type spent struct {
	ran, gc, merge, refresh, throttled time.Duration
	gcs, merges                        int64
}

// change counts the end of the fault f.
func (v *usage) change(f Fault, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pass(f, now)
	if f.Pause && f.Collecting {
		v.spent.gcs++
	}
	if f.Merging {
		v.spent.merges++
	}
}

// told returns what was spent up to now, under the fault f.
func (v *usage) told(f Fault, now time.Time) spent {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pass(f, now)
	return v.spent
}

// pass counts the time up to now.
func (v *usage) pass(f Fault, now time.Time) {
	d := now.Sub(v.since)
	v.since = now
	if f.Pause {
		if f.Collecting {
			v.spent.gc += d
		}
		return
	}
	v.spent.ran += d
	if f.Merging {
		v.spent.merge += d
	}
	if f.Refreshing {
		v.spent.refresh += d
	}
	if f.Throttled {
		v.spent.throttled += d
	}
}
