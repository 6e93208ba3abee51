package admission

import "time"

const (
	// waiting is how many shard queries may wait in a node for each of its search threads:
	// enough that no thread is idle before the next one comes, and no more.
	waiting = 2.0
	// band is the part of that by which a queue may differ from it before the limit moves.
	band = 0.25
	// gain is the part of the difference by which the limit moves in a frame.
	gain = 0.5
	// growth is the part of itself by which a limit grows in a frame at most.
	growth = 0.5
	// filled is the part of a node's queue that is filled at most: the rest is for bursts, and for other clients.
	filled = 0.5
	// afterRejection is what a node's own rejections leave of its limit.
	afterRejection = 0.75

	// shortestFrame and longestFrame bound how long a limit stays as it is. Between them a
	// frame ends when as many shard queries were completed as were in flight: then the
	// queue shows what the last change did.
	shortestFrame = time.Second
	longestFrame  = 10 * time.Second

	// Frame and step of the published algorithm (Elasticsearch 6.0). Its limits are queues
	// of 1,000; a step is at most a fifth of a smaller one.
	targetTasks = 2000
	targetFrame = 5 * time.Second
	targetStep  = 50.0
	targetPart  = 0.2
)

// Change says why a limit moved. The set is closed: it is a metric label.
type Change string

// Changes of a limit.
const (
	Kept     Change = ""
	Grew     Change = "grew"     // the node's queue is short
	Shrank   Change = "shrank"   // the node's queue is long
	Rejected Change = "rejected" // the node rejected searches
	Followed Change = "followed" // toward the completion rate times the target response time
)

// Changes returns the closed set but for [Kept].
func Changes() []Change { return []Change{Grew, Shrank, Rejected, Followed} }

// frame is what was seen of a node since its limit was last looked at.
type frame struct {
	limit, min, max float64
	takes           float64 // see Node.takes
	wanted          float64 // see Node.wanted
	queue           float64 // mean of the polls
	part            float64 // 1 - Node.elsewhere
	peak            float64 // most shard queries in flight
	rejected        bool    // the limit was lowered for it
	rate            float64 // λ: shard queries completed in a second
	base            float64 // seconds that a shard query takes while none waits; 0: not known
}

// auto returns the limit for the next frame where no response time is given. The queue of
// the node is the signal, because it says the same of a fast node and of one that has
// slowed down: a limit made of response times grows with these for as long as a slowdown
// lasts.
//
//	limit ← limit − gain·(q̄ − wanted),  not below λ·W,  W = S·(1 + 2)
//	limit ← limit + gain·(wanted − q̄)/f,  by growth·limit at most, and by that if less than half of it is in use
//
// S is the service time while nothing waited, so λ·W is what the node certainly carries. f is the largest
// part of what is in flight that is in the pool of any node. While no pool is full, that part of what is
// sent in addition will be there, too; of what is too much in a full one all waits there.
func (f frame) auto() (float64, Change) {
	excess := f.queue - f.wanted
	switch {
	case excess > band*f.wanted:
		from := min(f.limit, max(f.peak, f.min))
		carried := min(from, f.rate*f.base*(1+waiting))
		return f.bounded(max(carried, from-gain*excess)), Shrank
	case excess < -band*f.wanted && !f.rejected && f.limit < f.takes:
		step := growth * f.limit
		if f.peak >= f.limit/2 { // it is in use: what a change does shows
			step = min(step, -gain*excess/f.part)
		}
		return f.bounded(f.limit + step), Grew
	}
	return f.limit, Kept
}

// target returns the limit for the next frame by the published algorithm: λ·W for the
// target response time W, approached by steps.
func (f frame) target(w time.Duration) (float64, Change) {
	if f.rate == 0 {
		return f.limit, Kept
	}
	wanted := f.rate * w.Seconds()
	from := min(f.limit, max(f.peak, wanted)) // beyond that nothing shows what the limit does
	step := min(targetStep, max(1, targetPart*from))
	return f.bounded(from + max(-step, min(step, wanted-from))), Followed
}

// afterRejection returns the limit once the node has rejected something.
func (f frame) afterRejection() float64 {
	return f.bounded(afterRejection * min(f.limit, max(f.peak, f.min)))
}

func (f frame) bounded(limit float64) float64 {
	limit = max(limit, f.min)
	if f.max > 0 {
		limit = min(limit, max(f.max, 1))
	}
	return limit
}
