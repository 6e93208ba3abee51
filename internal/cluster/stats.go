package cluster

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

// PollState says how a poll of a node ended. The set is closed: used as a metric
// label.
type PollState string

// Ends of a poll.
const (
	PollOK           PollState = "ok"
	PollUnresponsive PollState = "unresponsive" // the deadline passed
	PollUnreachable  PollState = "unreachable"  // refused, reset, no route, or something that is no engine answered
	PollFailed       PollState = "failed"       // an HTTP error status or an unreadable answer
)

// NodeStats is what one poll of one node told.
type NodeStats struct {
	Node  string        // node id
	At    time.Time     // when the answer (or the failure) was complete
	Took  time.Duration // of the poll
	State PollState
	Err   error // nil if State is [PollOK]; the fields below are zero otherwise

	// Elapsed is the time since the node's last answered poll, 0 on the first and after a
	// restart. It is what the differences below are about, which are 0 then, too.
	Elapsed time.Duration
	// Queue is the length of the search thread pool's queue at the moment of the
	// poll. On Elasticsearch 8.10 to 8.15 it includes the pool search_worker, where
	// these versions do the work.
	Queue int64
	// Active is how many search threads were at work: the mean since the last
	// answered poll (Δquery_time + Δfetch_time, divided by Elapsed; never more than
	// there are threads) where shard queries completed since then, else the count at
	// the moment of the poll. Queries are counted when they end, so that one longer
	// than the interval shows late and whole.
	Active float64
	// ServiceTime is the mean time of a shard query on the node since the last
	// answered poll (Δquery_time_in_millis / Δquery_total); 0 if none completed.
	ServiceTime time.Duration
	// Queries counts the shard queries completed since the last answered poll.
	Queries int64
	// Rejected is the share of the search tasks since the last answered poll that the
	// node rejected, from 0 to 1, as its queue was full.
	Rejected float64
	// Threads is how many threads the pool has, and RejectedTasks how many tasks it
	// rejected since the last answered poll.
	Threads, RejectedTasks int64
	// Quota is how many processors the node's control group lets it use, as a container's
	// CPU limit does; 0 if nothing limits it.
	Quota float64
	// Used is how many processors the node's process kept busy, whatever for, between the last two
	// looks of the engine at that of which polls told; 0 if it is not known. The engines look once
	// a second.
	Used float64
	// Throttled is the period of that quota, 100 ms at most, if the node told since the last
	// answered poll that it ran out: for nearly so long at a time it stood still. Else 0. The
	// engines look at it once a second.
	Throttled time.Duration
	// WriteQueue is the length of the write thread pool's queue at the moment of the
	// poll, WriteQueueBefore that at the last answered poll, 0 on the first.
	WriteQueue, WriteQueueBefore int64
	// WriteThreads is how many threads the write pool has, WriteActive how many were at
	// work at the moment of the poll, and Writes how many tasks it completed since the
	// last answered poll.
	WriteThreads, WriteActive, Writes int64
	// WriteRejected counts the tasks that the write pool rejected since the last answered
	// poll.
	WriteRejected int64
	// Coordinated is the response time of each data node as this node, being their
	// coordinating node, sees it: the engine's own average, by node id. It holds only
	// the entries that changed since it last told: those of nodes without traffic
	// freeze. In large clusters not every poll asks.
	Coordinated map[string]Seen
}

// Seen is an average that a coordinating node keeps of another's response times:
// now, and when it last told, 0 if it had none.
type Seen struct {
	Now, Before time.Duration
}

// WritesQueue reports whether the node's write pool has more to do than it can: tasks
// waited in its queue at this answered poll and at the one before, or it rejected some in
// between. One queue alone says little: a bulk of many documents fills it for a moment.
// It is false if the poll failed.
func (s NodeStats) WritesQueue() bool {
	return s.State == PollOK && (min(s.WriteQueue, s.WriteQueueBefore) > 0 || s.WriteRejected > 0)
}

// OwnLack reports whether a connection was not made as this machine, or this process, has no descriptor or memory
// left for it. That tells nothing of the node.
func OwnLack(err error) bool {
	text := "" // of a look-up, which does not wrap its error
	if lookUp := (*net.DNSError)(nil); errors.As(err, &lookUp) {
		text = lookUp.Err
	}
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}, func(lack error) bool {
		return errors.Is(err, lack) || strings.HasSuffix(text, ": "+lack.Error())
	})
}
