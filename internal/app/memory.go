package app

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

const (
	// busyFloor is how much the runtime may use between frequent collections, whatever is
	// in use. With the pages of the binary that is less than 50 MiB resident.
	busyFloor = 24 << 20
	// busyInterval is the time between two collections below which they are frequent.
	// Less frequent ones cost little.
	busyInterval = time.Second

	// Bounds of GOGC. The runtime's default is 100: the room for garbage is as large as what
	// is in use. A third of that costs no CPU that can be measured, as a search allocates
	// little: with 1,000 clients 4 MiB less are resident than with a half (medians of six turns
	// each), and 10 less again than with all. mostPercent is the value at which the smallest
	// heap goal, 4 MiB at 100 %, stays within what busyFloor leaves for objects.
	leastPercent, mostPercent = 35, 400
)

// LimitMemory keeps the garbage small that is left by the placement of a large cluster, or by
// bursts of searches, until ctx ends. It makes collections rarer while they are frequent and
// little memory is in use. It does nothing if the operator has set GOMEMLIMIT or GOGC. It
// concerns the whole process: call it once.
func LimitMemory(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		return
	}
	collected := collections(ctx)
	percent := 0
	for last := (time.Time{}); ; {
		now := time.Now()
		if p := gcPercent(readUsage(), now.Sub(last)); p != percent {
			percent = p
			debug.SetGCPercent(p)
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
	}
}

// usage is the memory that the runtime needs, in bytes.
type usage struct {
	live uint64 // objects, as far as the last collection found
	rest uint64 // everything that is not for objects
	// roots is what a collection scans beside objects; it is part of rest.
	roots uint64
}

func readUsage() usage {
	samples := []runtimemetrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
		{Name: "/memory/classes/other:bytes"},
		{Name: "/memory/classes/profiling/buckets:bytes"},
	}
	runtimemetrics.Read(samples)
	u := usage{live: samples[0].Value.Uint64(), roots: samples[1].Value.Uint64() + samples[2].Value.Uint64()}
	for _, s := range samples[3:] {
		u.rest += s.Value.Uint64()
	}
	return u
}

// gcPercent returns GOGC after a collection, so many seconds after the one before. The
// runtime collects next when the heap reaches
//
//	live + (live + roots) · GOGC / 100
//
// which should be busyFloor less the rest if collections are frequent, and never less
// than with leastPercent. Source: A Guide to the Go Garbage Collector
// (https://go.dev/doc/gc-guide).
func gcPercent(u usage, interval time.Duration) int {
	if interval >= busyInterval || u.live+u.rest >= busyFloor {
		return leastPercent
	}
	room := float64(busyFloor - u.rest - u.live)
	return int(min(max(leastPercent, 100*room/float64(max(1, u.live+u.roots))), mostPercent))
}

// collections returns a channel that receives after each collection of garbage until
// ctx ends.
func collections(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{}, 1)
	var watch func(struct{})
	watch = func(struct{}) {
		if ctx.Err() == nil {
			// An object that nothing refers to is freed by the next collection.
			runtime.AddCleanup(new([32]byte), watch, struct{}{})
		}
		select {
		case ended <- struct{}{}:
		default:
		}
	}
	watch(struct{}{})
	return ended
}
