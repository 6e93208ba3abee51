package relay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sidestep/internal/cluster"
)

// Bounds of what a relay tells. What is beyond them is not what a sidestep says.
const (
	maxReportedIDs = 1 << 18
	// maxClock is how long a relay may have been running, in ms: a hundred years.
	maxClock = 100 * 365 * 24 * int64(time.Hour/time.Millisecond)
	// maxCounter is the most that a counter may be: of milliseconds and microseconds
	// as many as a time.Duration holds.
	maxCounter = int64(1<<63-1) / int64(time.Millisecond)
	// maxReportedText bounds the text of an error, in bytes.
	maxReportedText = 1000
	maxProcessors   = 1 << 16
	// maxWord bounds a word of a set that a later version may know more of, in bytes.
	maxWord = 50
)

// valid returns why a report cannot be taken in: nil if it says what a relay may say.
// known is how many node ids the reports before it told. What was measured of a node is
// judged where it is taken in, as a mistake in it is about that node alone.
func (r *report) valid(known int) error {
	if r.Full {
		known = 0
	}
	switch {
	case r.Version != relayVersion || r.Relay == "" || r.Seq < 1:
		return errors.New("the answer is no report")
	case r.IDsFrom < 0 || r.IDsFrom > known:
		return fmt.Errorf("the report continues the ids of nodes at %d of %d", r.IDsFrom, known)
	case r.IDsFrom+len(r.IDs) > maxReportedIDs:
		return fmt.Errorf("the report has more than %d ids of nodes", maxReportedIDs)
	case slices.Contains(r.IDs, ""):
		return errors.New("an id of a node is empty")
	case r.Full && r.Cluster == nil:
		return errors.New("the report lacks the nodes")
	case r.Now < 0 || r.Now > maxClock:
		return fmt.Errorf("the report is of the time %d", r.Now)
	}
	if err := r.Placement.valid(); err != nil {
		return err
	}
	if r.Cluster != nil {
		if err := r.Cluster.valid(); err != nil {
			return err
		}
	}
	names := make(map[string]bool, len(r.Indices))
	for i := range r.Indices {
		index := &r.Indices[i]
		if err := index.valid(r.IDsFrom + len(r.IDs)); err != nil {
			return fmt.Errorf("index %.300q: %w", index.Name, err)
		}
		if names[index.Name] {
			return fmt.Errorf("index %.300q is there twice", index.Name)
		}
		names[index.Name] = true
	}
	return nil
}

func (p reportedPlacement) valid() error {
	if p.Version < 1 {
		return fmt.Errorf("the placement is of the version %d", p.Version)
	}
	if p.At < -maxClock || p.At > maxClock {
		return fmt.Errorf("the placement is of the time %d", p.At)
	}
	return nil
}

func (c *reportedCluster) valid() error {
	if e := c.Engine; e.Distribution != cluster.Elasticsearch && e.Distribution != cluster.OpenSearch || e.Major < 0 || e.Minor < 0 {
		return fmt.Errorf("the engine is %.50q %d.%d", e.Distribution, e.Major, e.Minor)
	}
	ids := make(map[string]bool, len(c.Nodes))
	for _, n := range c.Nodes {
		switch {
		case n.ID == "" || ids[n.ID]:
			return fmt.Errorf("the id %.100q of a node is empty or there twice", n.ID)
		case n.Processors < 0 || n.Processors > maxProcessors:
			return fmt.Errorf("node %.100q has %d processors", n.ID, n.Processors)
		case n.SearchQueue < 0 || n.SearchQueue > cluster.MaxSearchQueue:
			return fmt.Errorf("node %.100q queues %d searches", n.ID, n.SearchQueue)
		case n.MaxBody < 0:
			return fmt.Errorf("node %.100q takes bodies of %d bytes", n.ID, n.MaxBody)
		case len(n.Leaving) > maxWord: // a later version may know more of them
			return fmt.Errorf("node %.100q leaves as %.50q", n.ID, n.Leaving)
		}
		ids[n.ID] = true
	}
	return nil
}

// valid returns why an index cannot be taken in, where there are so many ids of nodes.
func (r *reportedIndex) valid(ids int) error {
	if r.Name == "" {
		return errors.New("it has no name")
	}
	last := -1
	for _, shard := range r.Shards {
		if shard.Number <= last || shard.Number > cluster.MaxShardNumber {
			return fmt.Errorf("shard %d follows shard %d", shard.Number, last)
		}
		last = shard.Number
		for _, c := range shard.Copies {
			if c.Node < -1 || c.Node >= ids {
				return fmt.Errorf("a copy of shard %d is on node %d of %d", shard.Number, c.Node, ids)
			}
			if len(c.Kind) != 1 {
				return fmt.Errorf("a copy of shard %d is of the kind %.10q", shard.Number, c.Kind)
			}
		}
	}
	return nil
}

// valid reports whether statistics are such as a poll tells.
func (s reportedStats) valid() bool {
	return s[1] <= maxClock && !slices.ContainsFunc(s[:], func(n int64) bool { return n < 0 || n > maxCounter })
}

// valid reports whether a failure is one.
func (f reportedFailure) valid() bool {
	switch f.State {
	case cluster.PollUnresponsive, cluster.PollUnreachable, cluster.PollFailed:
		return f.At >= 0 && f.At <= maxClock && f.Took >= 0 && f.Took <= maxCounter
	}
	return false
}

// valid returns why an answer about a target cannot be taken in.
func (l *resolvedTarget) valid(of cluster.Subject) error {
	if l.StateVersion < 1 || l.Age < 0 || l.Age > maxClock {
		return fmt.Errorf("the target is of the version %d, %d ms ago", l.StateVersion, l.Age)
	}
	for _, packed := range l.Shards {
		if packed.Index == "" {
			return errors.New("the target has an index without a name")
		}
		for _, number := range packed.Numbers {
			if number < 0 || number > cluster.MaxShardNumber {
				return fmt.Errorf("[%.300s][%d] is not a shard", packed.Index, number)
			}
		}
	}
	if l.Unknown || of != cluster.OfLayout {
		return nil
	}
	if l.Layout == nil {
		return errors.New("the answer has no layout")
	}
	return validLayout(l.Layout)
}

func validLayout(l *cluster.Layout) error {
	switch l.Miss {
	case cluster.MissNotOneIndex, cluster.MissRoutedByFields, cluster.MissSegmentReplication:
		return nil
	case cluster.MissNone:
		if r := l.Routing; l.Index != "" && r.Valid() && r.Shards <= cluster.MaxShardNumber {
			return nil
		}
		return fmt.Errorf("the layout of %.300q is %+v", l.Index, l.Routing)
	}
	return fmt.Errorf("the layout misses for %.50q", l.Miss)
}
