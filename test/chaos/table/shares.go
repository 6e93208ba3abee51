package main

import (
	"slices"
	"time"
)

const (
	// bucketLength is the resolution of shares over time.
	bucketLength = 100 * time.Millisecond
	// steady is how long a state has to hold to count as reached.
	steady = time.Second
	// begun is the part at its begin in which the state has to be there: without it
	// the mean of a second would be reached before the state is.
	begun = 200 * time.Millisecond
	// avoided is the share of searches that may still use a node that is avoided:
	// it is tried now and then.
	avoided = 0.1
	// returned is the part of its former share with which a node counts as back.
	returned = 0.5
)

// span is a stretch of time around an event.
type span struct {
	zero     time.Time
	from, to time.Duration // relative to zero
}

// shares is who was used over time, in buckets.
type shares struct {
	from  time.Duration // of the first bucket, relative to the event
	names []string
	total []int            // searches that tell
	by    map[string][]int // those that used the node
	// untold counts searches without an answer. They count as using every bad node.
	untold []int
	blind  bool // the coordinating nodes would have to be known and are not
}

// newShares counts samples. With coordinators, the coordinating nodes are what
// counts, else the lists.
func newShares(samples []sample, over span, nodes []string, coordinators bool) *shares {
	n := int((over.to - over.from) / bucketLength)
	s := &shares{from: over.from, names: nodes, total: make([]int, n), untold: make([]int, n), by: map[string][]int{}}
	for _, name := range nodes {
		s.by[name] = make([]int, n)
	}
	told := false
	for _, one := range samples {
		at := one.at.Sub(over.zero) - over.from
		bucket := int(at / bucketLength)
		if at < 0 || bucket >= n {
			continue
		}
		s.total[bucket]++
		used := one.nodes
		if coordinators {
			used = []string{one.coordinator}
			told = told || one.coordinator != ""
		}
		if !one.answered {
			s.untold[bucket]++
			continue
		}
		if len(used) == 0 {
			used = nodes // it passed: the engine may use them all
		}
		for _, name := range used {
			if by, ok := s.by[name]; ok {
				by[bucket]++
			}
		}
	}
	s.blind = coordinators && !told
	return s
}

// share returns the share of searches that used a node in the n buckets from first
// on; not ok if there were none.
func (s *shares) share(name string, first, n int) (share float64, ok bool) {
	var used, total int
	for b := max(first, 0); b < min(first+n, len(s.total)); b++ {
		used += s.by[name][b] + s.untold[b]
		total += s.total[b]
	}
	if total == 0 {
		return 0, false
	}
	return float64(used) / float64(total), true
}

// zero is the bucket of the event.
func (s *shares) zero() int { return int(-s.from / bucketLength) }

// first returns the time from the event to the first stretch, steady long, in which
// each of the nodes has a share that will do; negative if there is none.
func (s *shares) first(nodes []string, will func(name string, share float64) bool) time.Duration {
	if s.blind {
		return -1
	}
	for b := s.zero(); b+int(steady/bucketLength) <= len(s.total); b++ {
		if !slices.ContainsFunc(nodes, func(name string) bool {
			early, ok := s.share(name, b, int(begun/bucketLength))
			all, _ := s.share(name, b, int(steady/bucketLength))
			return !ok || !will(name, early) || !will(name, all)
		}) {
			return time.Duration(b-s.zero()) * bucketLength
		}
	}
	return -1
}

// timeToAvoid is how long after the fault the bad nodes were no longer used, but
// for a trial now and then; negative if they always were.
func (s *shares) timeToAvoid(bad []string) time.Duration {
	return s.first(bad, func(_ string, share float64) bool { return share <= avoided })
}

// timeToReturn is how long after its end the nodes had half the share again that
// they had before the fault; negative if they did not get it.
func (s *shares) timeToReturn(bad []string, onset *shares) time.Duration {
	return s.first(bad, func(name string, share float64) bool {
		before, ok := onset.share(name, 0, onset.zero())
		return ok && share >= returned*before
	})
}
