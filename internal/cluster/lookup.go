package cluster

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	// maxTargetLength is the longest expression with routing that is looked up: the
	// engines' own limit is 4 kB for the whole request line.
	maxTargetLength = 4096
	// lookUpMaxAge is how long a target in use is believed although the cluster
	// state did not move: the node asked may have been behind.
	lookUpMaxAge = time.Minute
	// justNow is for how long what was looked up is believed although nothing uses it.
	justNow = time.Second
	// lookUpCostFactor bounds the share of time that is spent on looking a target up again:
	// one that took t is not looked up before lookUpCostFactor·t.
	lookUpCostFactor = 10
	// longestRest is for how long at most a target whose look-up failed is not looked up again, on the same terms.
	// leastRest is for how long at least: what fails at once costs the cluster something all the same.
	longestRest = 30 * time.Second
	leastRest   = missingPause
	// outdatedAtOnce is how many targets in use are looked up again at each tick
	// after the cluster state moved.
	outdatedAtOnce = 50
)

// LookUp is a question about a target that polls or a relay answer.
type LookUp struct {
	Target
	Of Subject
}

// Valid reports whether it may be looked up.
func (t LookUp) Valid() bool {
	if len(t.Expression)+len(t.Routing) > maxTargetLength {
		return false
	}
	return t.Of != OfLayout || IsOneName(t.Expression)
}

// Subject is what is asked about a target.
type Subject int

// Subjects.
const (
	OfShards    Subject = iota // which shards the target stands for
	OfLayout                   // the layout of the index with that name
	OfPlacement                // where the copies of these shards are: goes into the placement
)

// Resolved is what a look-up found.
type Resolved struct {
	Shards     []ShardName
	Layout     Layout
	Incomplete bool // a shard without an active copy is among them, which is not named
	Unknown    bool // the engine refused the target: not asked again at this version
	Refused    bool // not because there is no such target
	Failed     bool // there was no answer, or none of use: what was known stays. Placements are always so: they are not kept here

	Version int64         // of the cluster state when it was last looked up
	At      time.Time     // when that was
	Took    time.Duration // how long it took
}

// resolves reports whether the look-up found something: what does not may be
// anything that a client made up.
func (r *Resolved) resolves() bool {
	return len(r.Shards) > 0 || r.Incomplete || r.Layout.Index != ""
}

// same reports whether two look-ups found the same.
func (r *Resolved) same(o *Resolved) bool {
	return r.Incomplete == o.Incomplete && r.Unknown == o.Unknown && r.Layout == o.Layout && slices.Equal(r.Shards, o.Shards)
}

// tooDear reports whether its cost forbids to look the target up again yet.
func (r *Resolved) tooDear(now time.Time) bool { return now.Sub(r.At) < lookUpCostFactor*r.Took }

// restsUntil returns when a target whose look-up failed may be looked up again.
func (r *Resolved) restsUntil() time.Time {
	return r.At.Add(r.Took + min(max(lookUpCostFactor*r.Took, leastRest), longestRest))
}

// result says how a look-up ended: nil is one that says nothing of the target.
func (r *Resolved) result(of Subject) string {
	switch {
	case r == nil || r.Failed:
		return lookUpFailed
	case r.Unknown && r.Refused:
		return lookUpRefused
	case r.Unknown:
		return lookUpNotFound
	case len(r.Shards) == 0 && !r.Incomplete && of == OfShards:
		return lookUpEmpty
	}
	return lookUpOK
}

// Indices lists the indices that were found.
func (r *Resolved) Indices() []string {
	var names []string
	for i, shard := range r.Shards {
		if i == 0 || r.Shards[i-1].Index != shard.Index {
			names = append(names, shard.Index)
		}
	}
	if r.Layout.Index != "" {
		names = append(names, r.Layout.Index)
	}
	return names
}

// target is a target as snapshots know it.
type target struct {
	Resolved // Version, At and Took are guarded by the mutex of Targets

	tried  time.Time // when it was last to be looked up again; guarded by the mutex of Targets
	used   atomic.Bool
	usedAt atomic.Int64 // Snapshot.stamp of the last use
	joined atomic.Pointer[joined]
	names  []string // what Indices returns, of one that was looked up
}

// markUsed avoids the write when there is nothing to change: readers share the
// cache line.
func (l *target) markUsed(stamp int64) {
	if !l.used.Load() {
		l.used.Store(true)
	}
	if l.usedAt.Load() != stamp {
		l.usedAt.Store(stamp)
	}
}
