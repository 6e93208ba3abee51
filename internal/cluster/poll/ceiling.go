package poll

import "time"

const (
	// pollCeiling is how many tasks a second the management pool of a node may
	// complete, for all who ask it anything, before sidestep asks it more rarely. A
	// poll of statistics is one such task on OpenSearch, three on Elasticsearch (seen), and takes
	// a node a millisecond of CPU or two. A node with fewer processors than manyProcessors may
	// complete that part of them, down to leastShare, so that polls take some 2 % of its CPU at most: with more a
	// full node rejects more searches than it would without polls. With less, two or three
	// sidesteps beside some other monitoring would poll rarely.
	pollCeiling    = 100
	manyProcessors = 8
	leastShare     = 0.25
	// ceilingWindow is the least time over which tasks are counted.
	ceilingWindow = 2 * time.Second
	// ceilingInterval bounds how rarely a node in use is polled: with more than
	// pollCeiling × ceilingInterval = 1,000 sidesteps (330 before Elasticsearch), or a quarter as
	// many where nodes have two processors, a relay is needed.
	ceilingInterval = 10 * time.Second
	// While the node completes fewer tasks, the rate of polls grows by this share of
	// itself and by this share of the usual rate: the second part makes the rates of
	// all sidesteps alike in the end, as in the congestion control of TCP.
	ceilingGrowth, ceilingRise = 0.1, 0.002
)

// ceiling keeps the polls that a node gets from all sidesteps together near
// [pollCeiling], although they do not know each other: each sees in the node's own
// statistics how many tasks it completes, and if these are too many lengthens its
// interval by that factor.
type ceiling struct {
	rate      float64 // of polls, 1 is the usual one
	completed int64   // at the beginning of the window
	since     time.Time
	// spared is how many times as far apart as rate leaves them all polls of the window were at least, as nothing goes by them;
	// less than 1: some were not. All that poll may end that at once, so that what they spare counts.
	spared float64
	opened bool // the window has begun, and no poll in it was planned yet
}

func newCeiling() *ceiling { return &ceiling{rate: 1} }

// expect has the polls begin as rarely as so many sidesteps may poll a node with so many processors, 0 if that is not
// known, where the usual interval is this one.
func (c *ceiling) expect(sidesteps int, processors float64, usual time.Duration) {
	if all := float64(sidesteps) / usual.Seconds(); all > 0 {
		c.rate = min(1, mayComplete(processors)/all)
	}
}

// spare says how many times as far apart as rate leaves them the next poll is.
func (c *ceiling) spare(times float64) {
	if !c.opened {
		times = min(c.spared, times)
	}
	c.spared, c.opened = times, false
}

// observe takes in how many tasks a node has completed since it started, 0 if it
// does not tell, and how many processors it may use, 0 if that is not known.
func (c *ceiling) observe(completed int64, processors float64, at time.Time) {
	if completed == 0 {
		return
	}
	window := at.Sub(c.since)
	if c.since.IsZero() || completed < c.completed {
		c.since, c.completed, c.opened = at, completed, true
		return
	}
	if window < ceilingWindow {
		return
	}
	load := max(1, c.spared) * float64(completed-c.completed) / window.Seconds() / mayComplete(processors)
	c.since, c.completed, c.opened = at, completed, true
	if load > 1 {
		c.rate /= min(load, 2) // others lower theirs, too: not all at once
		return
	}
	c.rate = min(1, c.rate*(1+ceilingGrowth)+ceilingRise)
}

// mayComplete returns how many tasks a second a node with so many processors may complete.
func mayComplete(processors float64) float64 {
	if processors <= 0 {
		return pollCeiling
	}
	return pollCeiling * min(max(processors/manyProcessors, leastShare), 1)
}

// stretch returns the interval for polls that are usually made at this one.
func (c *ceiling) stretch(usual time.Duration) time.Duration {
	longest := max(ceilingInterval, usual)
	c.rate = max(c.rate, float64(usual)/float64(longest))
	return min(longest, time.Duration(float64(usual)/c.rate))
}
