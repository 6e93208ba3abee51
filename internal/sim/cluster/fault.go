package simcluster

import (
	"context"
	"time"
)

// Fault is what is wrong with a node. The zero value is a healthy node. Faults
// combine; setting one replaces the one before.
type Fault struct {
	// Factor multiplies the service time of the node's shard queries: it holds
	// its search threads longer. 0 means 1.
	Factor float64
	// Extra delays everything that other nodes ask of this one (latency of its
	// transport connections), by Extra ± Jitter. No search thread is held.
	Extra, Jitter time.Duration
	// CoordinatorDelay delays every HTTP answer of the node.
	CoordinatorDelay time.Duration
	// Pause stops everything, as SIGSTOP or a long garbage collection does:
	// connections are accepted, nothing is answered, shard queries do not end.
	Pause bool
	// Hang lets HTTP accept requests and answer none; the node still serves other
	// coordinating nodes.
	Hang bool
	// Refuse closes the HTTP listener and its connections; the node still serves
	// other coordinating nodes.
	Refuse bool
	// FailFast, 429 or 503, answers searches and shard queries with that status
	// at once. Statistics are still served.
	FailFast int
	// Throttled, Merging and Refreshing have the node's own statistics say that what
	// makes it slow is a CPU quota, a merge or refreshes; Collecting, that a Pause is a
	// garbage collection. They make nothing slow themselves.
	Throttled, Merging, Refreshing, Collecting bool
	// Fetching is the part of a shard query's time that goes into its fetch phase; 0
	// means 0.1.
	Fetching float64
	// Partial makes every shard query on the node fail.
	Partial bool
}

// condition is the fault in force; changed is closed when another replaces it.
type condition struct {
	Fault
	changed chan struct{}
}

// awaitNot blocks while blocked holds for the node's fault.
func (n *Node) awaitNot(ctx context.Context, blocked func(Fault) bool) error {
	for {
		c := n.condition.Load()
		if !blocked(c.Fault) {
			return ctx.Err()
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f Fault) fetching() float64 {
	if f.Fetching <= 0 {
		return 0.1
	}
	return min(f.Fetching, 1)
}

func paused(f Fault) bool     { return f.Pause }
func httpSilent(f Fault) bool { return f.Pause || f.Hang }
func (n *Node) fault() Fault  { return n.condition.Load().Fault }
func (f Fault) factor() float64 {
	if f.Factor <= 0 {
		return 1
	}
	return f.Factor
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
