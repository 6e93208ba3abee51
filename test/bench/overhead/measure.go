package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"sidestep/test/harness"
)

// result gathers one peer's rounds.
type result struct {
	name   string
	idle   int64 // resident bytes before any load
	loaded int64 // the most resident bytes seen under load
	sizes  map[int]*samples
}

// samples are one value a round, for one size of answer.
type samples struct {
	p50      []float64 // ns, over one connection
	cpu      []float64 // ns per search, over many connections
	rate     []float64 // searches/s, over many connections
	switches []float64 // context switches per search, likewise
	objects  []float64 // allocated per search, likewise; of Go programs
	calls    []float64 // system calls per search, likewise; counted once, after the rounds
}

// comparison is what is needed to measure.
type comparison struct {
	options
	stage   *stage
	tracer  tracer
	peers   []peer
	results []*result // parallel to peers
}

// measure runs the rounds, all peers in each, in an order drawn by lot, after one round
// that only warms up.
func (c *comparison) measure(ctx context.Context) error {
	for _, p := range c.peers {
		r := &result{name: p.name, sizes: map[int]*samples{}}
		for _, size := range answerSizes() {
			r.sizes[size] = &samples{}
		}
		c.results = append(c.results, r)
	}
	if err := c.measureIdle(ctx); err != nil {
		return err
	}
	for round := range c.rounds + 1 {
		fmt.Fprintf(os.Stderr, "round %d of %d%s\n", round, c.rounds, map[bool]string{true: " (warm-up)"}[round == 0])
		for _, size := range answerSizes() {
			if err := c.each(ctx, size, c.round); err != nil {
				return err
			}
			if round > 0 {
				continue
			}
			for _, r := range c.results {
				*r.sizes[size] = samples{}
			}
		}
	}
	fmt.Fprintln(os.Stderr, "system calls")
	for _, size := range answerSizes() {
		if err := c.each(ctx, size, c.countCalls); err != nil {
			return err
		}
	}
	return nil
}

// each runs f for each peer, in an order drawn by lot.
func (c *comparison) each(ctx context.Context, size int, f func(context.Context, peer, *result, int) error) error {
	for _, i := range rand.Perm(len(c.peers)) {
		p := c.peers[i]
		err := c.stage.whileSteering(ctx, p, func() error { return f(ctx, p, c.results[i], size) })
		if err != nil {
			return fmt.Errorf("%s, %d bytes: %w", p.name, size, err)
		}
	}
	return nil
}

// rest is how long programs do nothing before their memory is looked at.
const rest = 5 * time.Second

// measureIdle lets every program rest before it looks at its memory.
func (c *comparison) measureIdle(ctx context.Context) error {
	if err := harness.Pause(ctx, rest); err != nil {
		return err
	}
	for i, p := range c.peers {
		if p.pid == 0 {
			continue
		}
		u, err := usageOf(p.pid)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		c.results[i].idle = u.resident
	}
	return nil
}

// round measures one peer with one size of answer.
func (c *comparison) round(ctx context.Context, p peer, r *result, size int) error {
	s := r.sizes[size]
	p50, err := latency(ctx, p, size, c.window)
	if err != nil {
		return err
	}
	s.p50 = append(s.p50, float64(p50))

	before, err := count(ctx, p)
	if err != nil {
		return err
	}
	start := time.Now()
	done, err := saturate(ctx, p, size, c.clients, c.window)
	if err != nil {
		return err
	}
	s.rate = append(s.rate, float64(done)/time.Since(start).Seconds())
	if p.pid == 0 {
		return nil
	}
	after, err := countAgain(ctx, p)
	if err != nil {
		return err
	}
	searches := float64(max(done, 1))
	s.cpu = append(s.cpu, float64(after.usage.cpu-before.usage.cpu)/searches)
	s.switches = append(s.switches, float64(switched(before.switches, after.switches))/searches)
	if p.metrics != "" {
		s.objects = append(s.objects, (after.objects-before.objects)/searches)
	}
	r.loaded = max(r.loaded, after.usage.resident)
	return nil
}

// countCalls counts system calls per search, in a run of its own as it costs time.
func (c *comparison) countCalls(ctx context.Context, p peer, r *result, size int) error {
	if p.pid == 0 {
		return nil
	}
	var done int64
	n, err := c.tracer.count(ctx, c.stage.dir, p, func() (err error) {
		done, err = saturate(ctx, p, size, c.clients, c.window)
		return err
	})
	if err != nil {
		return err
	}
	r.sizes[size].calls = []float64{float64(n) / float64(max(done, 1))}
	return nil
}

// counters are what a peer has used since it began.
type counters struct {
	usage    usage
	switches map[int]int64
	objects  float64 // allocated, what counting them takes left out
}

// count reads the counters of p before a load.
func count(ctx context.Context, p peer) (c counters, err error) {
	if p.pid == 0 {
		return c, nil
	}
	if p.metrics != "" {
		first, err := allocated(ctx, p.metrics)
		if err != nil {
			return c, err
		}
		second, err := allocated(ctx, p.metrics)
		if err != nil {
			return c, err
		}
		c.objects = second + (second - first) // the reading that ends the load costs as much
	}
	if c.switches, err = switchesOf(p.pid); err != nil {
		return c, err
	}
	c.usage, err = usageOf(p.pid)
	return c, err
}

// countAgain reads the counters of p after a load.
func countAgain(ctx context.Context, p peer) (c counters, err error) {
	if c.usage, err = usageOf(p.pid); err != nil {
		return c, err
	}
	if c.switches, err = switchesOf(p.pid); err != nil {
		return c, err
	}
	if p.metrics != "" {
		c.objects, err = allocated(ctx, p.metrics)
	}
	return c, err
}

// allocated returns how many objects a Go program has allocated, as its metrics tell.
func allocated(ctx context.Context, url string) (float64, error) {
	text, err := read(ctx, url)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "go_memstats_mallocs_total "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New(url + " does not tell allocations")
}
