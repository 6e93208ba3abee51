package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
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
	p50  []time.Duration // over one connection
	cpu  []time.Duration // per search, over many connections
	rate []float64       // searches/s, over many connections
}

// measure runs the rounds, all peers in each, after one that only warms up.
func measure(ctx context.Context, o options, peers []peer) ([]*result, error) {
	var results []*result
	for _, p := range peers {
		r := &result{name: p.name, sizes: map[int]*samples{}}
		for _, size := range answerSizes() {
			r.sizes[size] = &samples{}
		}
		results = append(results, r)
	}
	if err := measureIdle(ctx, peers, results); err != nil {
		return nil, err
	}
	for round := range o.rounds + 1 {
		fmt.Fprintf(os.Stderr, "round %d of %d%s\n", round, o.rounds, map[bool]string{true: " (warm-up)"}[round == 0])
		for _, size := range answerSizes() {
			for i, p := range peers {
				if err := results[i].round(ctx, o, p, size); err != nil {
					return nil, fmt.Errorf("%s, %d bytes: %w", p.name, size, err)
				}
				if round == 0 {
					*results[i].sizes[size] = samples{}
				}
			}
		}
	}
	return results, nil
}

// measureIdle lets every program rest before it looks at its memory.
func measureIdle(ctx context.Context, peers []peer, results []*result) error {
	select {
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i, p := range peers {
		if p.pid == 0 {
			continue
		}
		u, err := usageOf(p.pid)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		results[i].idle = u.resident
	}
	return nil
}

// round measures one peer with one size of answer.
func (r *result) round(ctx context.Context, o options, p peer, size int) error {
	s := r.sizes[size]
	p50, err := latency(ctx, p.addr, size, o.window)
	if err != nil {
		return err
	}
	s.p50 = append(s.p50, p50)

	var before, after usage
	if p.pid != 0 {
		if before, err = usageOf(p.pid); err != nil {
			return err
		}
	}
	start := time.Now()
	done, err := saturate(ctx, p.addr, size, o.clients, o.window)
	if err != nil {
		return err
	}
	s.rate = append(s.rate, float64(done)/time.Since(start).Seconds())
	if p.pid == 0 {
		return nil
	}
	if after, err = usageOf(p.pid); err != nil {
		return err
	}
	s.cpu = append(s.cpu, (after.cpu-before.cpu)/time.Duration(max(done, 1)))
	r.loaded = max(r.loaded, after.resident)
	return nil
}

// render writes the table. The direct connection is the first of results.
func render(o options, results []*result, versions []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a proxy costs\n\n")
	fmt.Fprintf(&b, "Measured %s by `make bench-overhead`: %s, %d cores, %s; %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), cpuModel(), runtime.NumCPU(), runtime.Version(), strings.Join(versions, ", "))
	fmt.Fprintf(&b, "Medians of %d interleaved rounds of %v. \"Added p50\" is over a direct connection, one search at a time; CPU and\n"+
		"searches/s are with %d connections, load, proxy and simulated cluster (three nodes that answer at once) sharing the machine.\n",
		o.rounds, o.window, o.clients)
	direct := results[0]
	for _, size := range answerSizes() {
		fmt.Fprintf(&b, "\n## Answers of %d KB\n\n", size>>10)
		fmt.Fprintf(&b, "| | p50, µs | added p50, µs | CPU per search, µs | searches/s |\n|---|---:|---:|---:|---:|\n")
		for _, r := range results {
			s := r.sizes[size]
			added, cpu := "", ""
			if r != direct {
				added = micros(median(differences(s.p50, direct.sizes[size].p50)))
				cpu = micros(median(s.cpu))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %.0f |\n", r.name, micros(median(s.p50)), added, cpu, median(s.rate))
		}
	}
	fmt.Fprintf(&b, "\n## Resident memory\n\n| | idle, MiB | under load, MiB |\n|---|---:|---:|\n")
	for _, r := range results[1:] {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f |\n", r.name, mebibytes(r.idle), mebibytes(r.loaded))
	}
	return b.String()
}

// differences pairs the rounds, so that a slow moment of the machine is in both.
func differences(a, b []time.Duration) []time.Duration {
	out := make([]time.Duration, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

func median[T time.Duration | float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Microsecond)) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// cpuModel is the processor's name, or its architecture where Linux tells none.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
