package poll

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// discoveryLongest bounds how rarely the nodes are listed.
const discoveryLongest = time.Minute

// meanRate is the share of the usual rate of statistics that the ceilings of the nodes
// leave, in the mean. It is low if many sidesteps poll the cluster. Polls of the placement
// and of the list of nodes go to any node in turn and have no ceiling of their own. They
// are made less frequent by the same factor, so that they stay a small part of all polls.
type meanRate struct{ rate atomic.Uint64 } // bits of a float64; 0: not known yet

func (c *meanRate) update(pollers map[string]*nodePoller) {
	if len(pollers) == 0 {
		return
	}
	sum := 0.0
	for _, p := range pollers {
		sum += math.Float64frombits(p.schedule.rate.Load())
	}
	c.rate.Store(math.Float64bits(sum / float64(len(pollers))))
}

// stretch returns the interval for polls that are usually made at this one, up to a
// longest, but for the usual one.
func (c *meanRate) stretch(usual, longest time.Duration) time.Duration {
	rate := math.Float64frombits(c.rate.Load())
	if rate <= 0 || rate >= 1 {
		return usual
	}
	return max(usual, time.Duration(min(float64(usual)/rate, float64(longest))))
}

// spread returns a pause before what all do at the same moment, such as looking at a
// node that joined: none while nobody else seems to be there.
func (c *meanRate) spread(usual, longest time.Duration) time.Duration {
	if more := c.stretch(usual, longest) - usual; more > 0 {
		return rand.N(more)
	}
	return 0
}

// PlacementInterval is how often the version of the cluster state is read now.
func (p *Poller) PlacementInterval() time.Duration {
	return p.meanRate.stretch(p.o.PlacementInterval, min(ceilingInterval, p.o.PlacementMaxAge/4))
}
