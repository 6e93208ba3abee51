package demo

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// nameWidth is that of the longest name of a case. The names are padded because
// tabwriter aligns all columns alike, and numbers belong on the right.
const nameWidth = len("engine's own selection")

// report prints the table and what it comes to.
func (c *comparison) report() error {
	id, name := c.cluster.SlowNode()
	c.say("")
	t := tabwriter.NewWriter(c.Out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%-*s\tsearches/s\tp50\tp90\tp99\tfailures\tshare of %s\t\n", nameWidth, "case", name)
	for _, k := range c.contenders {
		r := &k.result
		fmt.Fprintf(t, "%-*s\t%.1f\t%s\t%s\t%s\t%d\t%.1f %%\t\n", nameWidth, k.name, r.Throughput(),
			milliseconds(r.Quantile(0.5)), milliseconds(r.Quantile(0.9)), milliseconds(r.Quantile(0.99)),
			r.Failed+r.Partial, 100*k.share(id))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	c.say("")
	c.say("%s", c.conclusion())
	for _, k := range c.contenders {
		if len(k.result.FirstErrors) > 0 {
			c.say("Failures of %s, the first: %s", k.name, strings.Join(k.result.FirstErrors, "; "))
		}
	}
	r := &c.contenders[sidestep].result
	if lost := r.Failed + r.Partial; lost > 0 {
		return fmt.Errorf("%w: %d of %d", ErrFailures, lost, r.Sent)
	}
	return nil
}

// conclusion states the measured ratio, whichever way it went.
func (c *comparison) conclusion() string {
	mine := c.contenders[sidestep].result.Quantile(0.99)
	ratio := func(of int) float64 {
		other := c.contenders[of].result.Quantile(0.99)
		return float64(mine) / float64(max(other, time.Microsecond))
	}
	return fmt.Sprintf("p99 through sidestep is %s: %.2f × the engine's own selection, %.2f × round robin.",
		milliseconds(mine), ratio(engine), ratio(roundRobin))
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
