package poll

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"sidestep/internal/cluster"
)

const (
	// planSlots is how many plans are remembered between two looks. Of more plans
	// in use a changing part is seen, whose nodes are soon all of them.
	planSlots = 256
	// Budget bounds the polls of statistics that one sidestep makes in a second:
	// with more nodes in use each is asked more rarely.
	Budget = 1000
)

// usedNodes knows which nodes serve what is searched: only their statistics matter.
type usedNodes struct {
	seed  maphash.Seed
	plans [planSlots]atomic.Pointer[cluster.Plan]
	// all says that others search through this sidestep's eyes: any node may matter.
	all atomic.Bool

	// The rest belongs to the goroutine that looks.
	usedAt map[string]time.Time // by node id, for idleAfter
	anyAt  time.Time
	allAt  time.Time
}

func newUsedNodes() *usedNodes {
	return &usedNodes{seed: maphash.MakeSeed(), usedAt: map[string]time.Time{}}
}

// use notes that a plan is searched. All but the first time after a look it costs
// a hash of a name and an atomic load: plans made anew for each request are taken for
// one if they begin alike.
func (d *usedNodes) use(plan *cluster.Plan) {
	if len(plan.Names) == 0 {
		return
	}
	first := plan.Names[0]
	at := maphash.String(d.seed, first.Index) + 31*uint64(first.Number) + uint64(len(plan.Names)) //nolint:gosec // shard numbers are not negative
	slot := &d.plans[at%planSlots]
	if before := slot.Load(); before == nil || len(before.Names) != len(plan.Names) || before.Names[0] != first {
		slot.Store(plan)
	}
}

// update takes in the plans that were used since the last look, all of which are
// taken for plans of s: one of an older snapshot makes a node or two wanted that
// are not.
func (d *usedNodes) update(s *cluster.Snapshot, now time.Time) {
	if d.all.Swap(false) {
		d.allAt = now
	}
	for i := range d.plans {
		plan := d.plans[i].Swap(nil)
		if plan == nil {
			continue
		}
		d.anyAt = now
		sets, _ := plan.CopySets()
		for _, copies := range sets {
			for _, at := range copies {
				if at < len(s.Nodes) {
					d.usedAt[s.Nodes[at].ID] = now
				}
			}
		}
	}
	for id, at := range d.usedAt {
		if now.Sub(at) >= idleAfter {
			delete(d.usedAt, id)
		}
	}
}

// inUse reports whether the node serves what is searched. While nothing is known
// to be, all nodes do.
func (d *usedNodes) inUse(id string, now time.Time) bool {
	if now.Sub(d.anyAt) >= idleAfter || now.Sub(d.allAt) < idleAfter {
		return true
	}
	_, used := d.usedAt[id]
	return used
}

// schedule is how much the statistics of a node matter: what the poller of it goes by.
type schedule struct {
	rare     atomic.Bool  // the node serves nothing that is searched
	usual    atomic.Int64 // ns: the interval while it does
	interval atomic.Int64 // ns: at which it is polled now
	// rate is what its ceiling leaves of the usual rate, as bits of a float64.
	rate atomic.Uint64
	wake chan struct{}
}

func newSchedule(usual time.Duration) *schedule {
	n := &schedule{wake: make(chan struct{}, 1)}
	n.usual.Store(int64(usual))
	n.rate.Store(math.Float64bits(1))
	return n
}

// assess tells the pollers which nodes are in use, and returns the longest interval
// at which one of these is polled.
func (d *usedNodes) assess(pollers map[string]*nodePoller, shortest time.Duration, now time.Time) time.Duration {
	wanted := 0
	for id := range pollers {
		if d.inUse(id, now) {
			wanted++
		}
	}
	usual := max(shortest, time.Duration(wanted)*time.Second/Budget)
	var longest time.Duration
	for id, p := range pollers {
		p.schedule.usual.Store(int64(usual))
		used := d.inUse(id, now)
		if p.schedule.rare.Swap(!used) && used {
			hint(p.schedule.wake)
		}
		if used {
			longest = max(longest, time.Duration(p.schedule.interval.Load()))
		}
	}
	return longest
}
