package app

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

const (
	// memoryFloor is the soft limit of a sidestep that needs little: the runtime may use
	// that much before it works harder than usual.
	memoryFloor = 96 << 20
	// memoryRoom is the room for garbage above what is in use, as a share of it. Without
	// a limit the runtime takes as much again as is in use.
	memoryRoom = 0.5
	// memoryLook is how often the limit follows what is in use.
	memoryLook = time.Second
)

// LimitMemory keeps the runtime's soft memory limit somewhat above what is in use,
// until ctx ends, so that garbage of the placement of a big cluster and of bursts of
// searches is not kept for long. An operator who sets GOMEMLIMIT or GOGC knows better.
// It is for the process, whatever runs in it: call it once.
func LimitMemory(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		return
	}
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	for {
		debug.SetMemoryLimit(softLimit(inUse()))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// softLimit returns the limit for so many bytes in use.
func softLimit(inUse uint64) int64 {
	return max(memoryFloor, int64((1+memoryRoom)*float64(inUse)))
}

// inUse returns the bytes that the runtime cannot do without: live objects, as far as
// the last collection found, and all that is not for objects.
func inUse() uint64 {
	samples := []runtimemetrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
		{Name: "/memory/classes/other:bytes"},
		{Name: "/memory/classes/profiling/buckets:bytes"},
	}
	runtimemetrics.Read(samples)
	sum := uint64(0)
	for _, s := range samples {
		sum += s.Value.Uint64()
	}
	return sum
}
