package admission

import (
	"math"
	"time"
)

const (
	// staleAfter is for how long the statistics of a node are believed: longer than the
	// longest pause between two polls of a node that answers.
	staleAfter = 15 * time.Second
	// othersTime is for how long other clients' load is remembered: after that time e⁻¹ is left of it in the mean.
	othersTime = 900 * time.Millisecond
	// basePart is what one poll counts in the service time without a queue, which has to
	// be seen in at least baseQueries shard queries.
	basePart    = 0.05
	baseQueries = 5
	// usualQueue is how many shard queries a node holds in its own queue, if it does not
	// tell: the default of both engines up to Elasticsearch 8.
	usualQueue = 1000
)

// Node is one node of the cluster as far as its load is concerned.
type Node struct {
	ID string

	limit     float64 // shard queries that all clients together may have in flight; infinite until its queue was too long
	threads   float64 // of its search pool; 0: not known
	capacity  float64 // of the queue of that pool
	polledAt  time.Time
	ours      float64 // in flight, sent from here
	ahead     float64 // of these, what only mode observe has let go by now
	searches  float64 // of the others, what had to wait for room
	waiting   float64 // shard queries that wait here for this node, by their expected share
	seekers   int     // how many tickets that is of
	others    float64 // mean of what was in the pool beyond ours; negative if less
	busy      float64 // threads at work at the last poll
	idle      bool    // nothing waited in its queue at the last poll
	serves    bool    // it has completed a shard query
	base      float64 // seconds; see frame.base
	gathers   float64 // shard queries that come in a period of its CPU quota; 0: that does not run out
	inPool    float64 // part of what was in flight that waited or ran in the node's pool; 0: not known
	flown     float64 // mean of what was in flight
	elsewhere float64 // part of what is in flight that is in no pool; 0: not known
	claimed   uint64  // the pump in which something that waits laid claim to room of it
	reserved  float64 // shard queries, of that pump: how much
	exhausted uint64  // the pump in which nothing was left beside
	moves     uint64  // costSample.moves at the last poll
	told      float64 // costSample.ended, likewise
	from      float64 // that when the sample of this node began
	made      float64 // tasks that it has completed since, while tickets were in flight

	// of the frame
	since     time.Time
	polls     int
	queues    float64 // sum over polls
	pooled    float64 // of what waited and ran in the pool, likewise
	flights   float64 // of what was in flight, from all clients
	completed int64
	stalled   time.Duration // the longest that a poll told
	peak      float64
	rejected  bool
}

// Poll is what one answered poll told of a node.
type Poll struct {
	Threads int64
	// Queue and Active are of the search pool; QueueSize is how much Queue can be, 0 if
	// that is not known.
	Queue, Active float64
	QueueSize     int64
	// Completed counts the shard queries since the last answered poll, which took
	// ServiceTime in the mean, Rejected the tasks that the pool rejected.
	Completed   int64
	ServiceTime time.Duration
	Rejected    int64
	// Stalled is the period of the node's CPU quota if that ran out since the last answered poll;
	// 0: it did not, or there is none.
	Stalled time.Duration
}

// observe takes in a poll of the node. It returns why the limit moved.
func (n *Node) observe(p Poll, o *Options, now time.Time) Change {
	fresh, passed := n.stale(now), max(0, now.Sub(n.polledAt))
	n.polledAt, n.threads = now, max(1, float64(p.Threads))
	if n.capacity = float64(p.QueueSize); n.capacity == 0 {
		n.capacity = usualQueue
	}
	load := p.Queue + p.Active
	if fresh {
		n.gathers, n.inPool, n.flown, n.elsewhere = 0, 0, 0, 0
		n.limit = n.frame(o).bounded(math.Inf(1))
		n.others = min(0, load-n.ours)
		n.beginFrame(now)
		return Kept
	}
	n.others += (1 - math.Exp(-passed.Seconds()/othersTime.Seconds())) * (load - n.ours - n.others)
	n.busy = p.Active
	n.serves = n.serves || p.Completed > 0
	if n.idle && p.Queue == 0 && p.Completed >= baseQueries && p.ServiceTime > 0 {
		s := p.ServiceTime.Seconds()
		if n.base == 0 {
			n.base = s
		}
		n.base += basePart * (s - n.base)
	}
	n.idle = p.Queue == 0
	n.polls++
	n.queues += p.Queue
	n.pooled += load
	n.flights += n.flight(o.share())
	n.completed += p.Completed
	n.stalled = max(n.stalled, p.Stalled)
	n.raisePeak(o.share())
	if p.Rejected > 0 && !n.rejected {
		return n.reject(o)
	}
	return n.endFrame(o, now)
}

// reject lowers the limit of a node that rejected something, once in a frame.
func (n *Node) reject(o *Options) Change {
	n.rejected = true
	n.limit = n.frame(o).afterRejection()
	return Rejected
}

// endFrame moves the limit if the frame is over.
func (n *Node) endFrame(o *Options, now time.Time) Change {
	took := now.Sub(n.since)
	published := o.Mode == Target
	switch {
	case n.polls == 0:
		return Kept
	case published && n.completed < targetTasks && took < targetFrame:
		return Kept
	case !published && (took < shortestFrame || float64(n.completed) < min(n.most(), n.peak) && took < longestFrame):
		return Kept
	}
	rate := float64(n.completed) / took.Seconds()
	n.gathers = min(rate*n.stalled.Seconds(), max(0, filled*n.capacity-waiting*n.threads))
	if !o.Learns { // what is in flight of writes is a guess, on which no more is sent than a pool takes
		n.flown = n.flights / float64(n.polls)
	}
	if n.inPool = 0; n.flights > 0 {
		n.inPool = min(1, n.pooled/n.flights)
	}
	f := n.frame(o)
	f.queue, f.rate = n.queues/float64(n.polls), rate
	var change Change
	before := n.limit
	if published {
		n.limit, change = f.target(o.TargetResponseTime)
	} else {
		n.limit, change = f.auto()
	}
	if n.limit == before { // at its bounds
		change = Kept
	}
	n.beginFrame(now)
	return change
}

func (n *Node) beginFrame(now time.Time) {
	n.since, n.polls, n.queues, n.pooled, n.flights = now, 0, 0, 0, 0
	n.completed, n.stalled, n.peak, n.rejected = 0, 0, 0, false
}

// frame returns what is known of the frame that goes on.
func (n *Node) frame(o *Options) frame {
	f := frame{limit: n.limit, min: o.Min, max: o.Max, takes: n.takes(), wanted: n.wanted(), part: 1 - n.elsewhere, peak: n.peak, rejected: n.rejected, base: n.base}
	if f.min == 0 {
		f.min = n.threads
	}
	f.min = max(1, f.min)
	return f
}

// flight returns how much is in flight, from all clients.
func (n *Node) flight(share float64) float64 { return n.ours/share + n.foreign(share) }

// raisePeak notes the most that is in flight, from all clients.
func (n *Node) raisePeak(share float64) { n.peak = max(n.peak, n.flight(share)) }

// foreign returns the load of other clients, in shard queries: what the node has beyond
// ours and beyond what the other sidesteps have, which carry as much as this one.
func (n *Node) foreign(share float64) float64 {
	return max(0, n.others-n.ours*(1/share-1))
}

// most returns how many shard queries may be in flight on the node: its limit, but not more than it takes.
func (n *Node) most() float64 { return min(n.limit, n.takes()) }

// takes returns how many shard queries may be in flight whatever the limit: what its threads and half of its queue
// take, and what was in flight in the last frame and in no pool. Such searches are on their way, or are
// coordinated; what waits for a busier node does not count. Threads are started as they are needed, so that grows with them.
func (n *Node) takes() float64 { return n.threads + filled*n.capacity + n.flown*n.elsewhere }

// room returns how many more shard queries may be sent to the node from here.
func (n *Node) room(share float64) float64 {
	return (n.most()-n.foreign(share))*share - (n.ours - n.ahead)
}

// ample returns how many shard queries keep the node busy: of more, as the limit is while
// it has not been needed, no class has a share, nor of what is in flight and in no pool.
func (n *Node) ample(o *Options) float64 {
	if o.Mode == Target {
		return n.most()
	}
	return min(n.most(), max(o.Min, n.settled()))
}

// wanted returns how many shard queries are to wait in the node, 2·threads + λ·P. P is the period
// of a CPU quota that runs out: the node stands still for the rest of each period, and is busy for
// its share of the next one only if enough has gathered meanwhile. With that no more than half of its queue is wanted.
func (n *Node) wanted() float64 { return waiting*n.threads + n.gathers }

// settled returns the limit that a node without other load settles at.
func (n *Node) settled() float64 { return n.threads + n.wanted() }

// stale reports whether nothing is known of the node's load.
func (n *Node) stale(now time.Time) bool {
	return n.polledAt.IsZero() || now.Sub(n.polledAt) > staleAfter
}
