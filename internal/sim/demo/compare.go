package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	loadgen "sidestep/internal/sim/load"
)

// contender is one of the three cases.
type contender struct {
	name     string
	targets  []string
	adaptive bool // the engine's own selection

	transport *http.Transport
	result    loadgen.Result
	queries   map[string]int64 // shard queries by node id while it ran
}

// comparison runs the contenders in turns.
type comparison struct {
	Options
	cluster    Cluster
	contenders []*contender
	client     *http.Client // for the nodes' counters
	measuring  time.Time    // when the first turn began
}

const (
	roundRobin = iota
	engine
	sidestep
)

func newComparison(c Cluster, front string, o Options) *comparison {
	cmp := &comparison{Options: o, cluster: c, client: &http.Client{
		Transport: &http.Transport{}, Timeout: countersWithin,
	}}
	cmp.contenders = []*contender{
		roundRobin: {name: "round robin", targets: c.URLs()},
		engine:     {name: "engine's own selection", targets: c.URLs(), adaptive: true},
		sidestep:   {name: "sidestep", targets: []string{front}, adaptive: true},
	}
	for _, k := range cmp.contenders {
		k.transport = loadgen.NewTransport(512)
		k.queries = map[string]int64{}
	}
	return cmp
}

func (c *comparison) close() {
	for _, k := range c.contenders {
		k.transport.CloseIdleConnections()
	}
	c.client.CloseIdleConnections()
}

// run warms up and measures. Each round begins with another contender, so that
// none always follows the same one.
func (c *comparison) run(ctx context.Context) error {
	n := len(c.contenders)
	slice := c.Duration / time.Duration(c.Rounds)
	c.say("Warming up: %s.", c.WarmUp)
	for _, k := range c.contenders {
		if _, err := c.load(ctx, k, c.WarmUp/time.Duration(n)); err != nil {
			return err
		}
	}
	c.say("Measuring: %g searches/s, %d rounds of %s each, after %s of the same load unmeasured.",
		c.Rate, c.Rounds, slice, c.LeadIn)
	c.measuring = time.Now()
	for round := range c.Rounds {
		for turn := range n {
			k := c.contenders[(round+turn)%n]
			res, err := c.turn(ctx, k, slice)
			if err != nil {
				return err
			}
			c.progress(round*n+turn, k, res)
		}
	}
	return nil
}

// turn measures one slice of a contender.
func (c *comparison) turn(ctx context.Context, k *contender, slice time.Duration) (*loadgen.Result, error) {
	if _, err := c.load(ctx, k, c.LeadIn); err != nil {
		return nil, err
	}
	before, err := c.counters(ctx)
	if err != nil {
		return nil, err
	}
	res, err := c.load(ctx, k, slice)
	if err != nil {
		return nil, err
	}
	after, err := c.counters(ctx)
	if err != nil {
		return nil, err
	}
	k.take(res, before, after)
	return res, nil
}

// progress reports on a turn, counted from 0; those left will take as long as
// those done.
func (c *comparison) progress(turn int, k *contender, res *loadgen.Result) {
	n := len(c.contenders)
	done, all := turn+1, c.Rounds*n
	left := time.Since(c.measuring) * time.Duration(all-done) / time.Duration(done)
	c.say("  round %d/%d  %-*s  p50 %8s  p99 %8s  %s left", turn/n+1, c.Rounds, nameWidth, k.name,
		milliseconds(res.Quantile(0.5)), milliseconds(res.Quantile(0.99)), left.Round(time.Second))
}

// load puts a contender under load for d.
func (c *comparison) load(ctx context.Context, k *contender, d time.Duration) (*loadgen.Result, error) {
	if err := c.cluster.SetAdaptive(ctx, k.adaptive); err != nil {
		return nil, fmt.Errorf("switch the engine's own selection: %w", err)
	}
	res, err := loadgen.Run(ctx, loadgen.Options{
		Targets: k.targets, Request: c.Request, Rate: c.Rate, Duration: d, Transport: k.transport,
	})
	if err != nil {
		return nil, fmt.Errorf("load for %s: %w", k.name, err)
	}
	if res.OK == 0 && res.Sent > 0 {
		return nil, fmt.Errorf("load for %s: no search succeeded: %s", k.name, res.FirstErrors)
	}
	return res, nil
}

// take adds a slice to a contender.
func (k *contender) take(res *loadgen.Result, before, after map[string]int64) {
	k.result.Merge(res)
	for id, total := range after {
		k.queries[id] += max(total-before[id], 0)
	}
}

// share is the part of the shard queries that a node served, 0 to 1.
func (k *contender) share(node string) float64 {
	var all int64
	for _, n := range k.queries {
		all += n
	}
	if all == 0 {
		return 0
	}
	return float64(k.queries[node]) / float64(all)
}
