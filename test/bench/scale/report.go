package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	loadgen "sidestep/internal/sim/load"
)

// report gathers what was measured.
type report struct {
	o      options
	micro  micro
	ready  time.Duration // from the start of the process to the first placement and statistics
	idle   health        // after that
	phases []*phase
}

func (r *report) render() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Big clusters\n\nMeasured %s by `make bench-scale`: %d cores, %s.\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version())
	if r.micro != nil {
		if err := r.renderMicro(&b); err != nil {
			return "", err
		}
	}
	if r.phases != nil {
		r.renderProcess(&b)
	}
	return b.String(), nil
}

// renderMicro writes the tables of the microbenchmarks. One that did not run is an error.
func (r *report) renderMicro(b *strings.Builder) error {
	var missing []string
	of := func(name string) string {
		took, ok := r.micro[name]
		if !ok {
			missing = append(missing, name)
		}
		return short(took)
	}
	fmt.Fprintf(b, "\n## Placement and resolution\n\nFive shards an index, two copies each, 50 nodes; Go microbenchmarks of `internal/cluster` and `internal/proxy`, the fastest of %d runs; changes and tables made anew in processor time, without collections of garbage.\n\n"+
		"| | 100 shards | 5,000 | 50,000 | 500,000 |\n|---|---:|---:|---:|---:|\n", r.o.count)
	for _, row := range []struct{ about, bench string }{
		{"resolve an index", "Resolve/shards=%d/target=index"},
		{"resolve a learned wildcard over 20 indices", "Resolve/shards=%d/target=wildcard"},
		{"draw a shard of a node", "AnyServed/shards=%d"},
		{"create an index", "Apply/shards=%d/change=create"},
		{"delete an index", "Apply/shards=%d/change=delete"},
		{"relocate copies of an index", "Apply/shards=%d/change=relocate"},
		{"make the table anew", "Rebuild/shards=%d"},
		{"read the routing table and make the first table", "FirstTable/shards=%d"},
	} {
		fmt.Fprintf(b, "| %s |", row.about)
		for _, shards := range sizes {
			fmt.Fprintf(b, " %s |", of(fmt.Sprintf(row.bench, shards)))
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n![cost of a change over the size of the cluster](scale-changes.svg)\n\nA wildcard over 2,000 indices with 10,000 of 50,000 shards:\n\n| | |\n|---|---:|\n")
	for _, row := range []struct{ about, bench string }{
		{"resolve, after the nodes changed", "ResolveWide/shards=10000/plan=nodes-changed"},
		{"resolve, after the placement changed", "ResolveWide/shards=10000/plan=moved"},
		{"resolve, from its plan", "ResolveWide/shards=10000/plan=known"},
		{"resolve from its plan and choose; no node stands out", "Wide/of=50/target=index-*/nodes=alike"},
		{"the same, a fifth of the nodes is slow", "Wide/of=50/target=index-*/nodes=fifth-slow"},
		{"the same, nothing is known of the nodes", "Wide/of=50/target=index-*/nodes=unknown"},
		{"the same on 1,000 nodes; none stands out", "Wide/of=1000/target=index-*/nodes=alike"},
		{"for comparison: resolve one index and choose", "Wide/of=50/target=index-7/nodes=alike"},
	} {
		fmt.Fprintf(b, "| %s | %s |\n", row.about, of(row.bench))
	}
	if len(missing) > 0 {
		return fmt.Errorf("no benchmarks %s", strings.Join(missing, ", "))
	}
	return nil
}

// short prints a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/float64(time.Microsecond))
	}
	if d < time.Second {
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}

func (r *report) renderProcess(b *strings.Builder) {
	const mib = 1 << 20
	fmt.Fprintf(b, "\n## The binary before %d shards × 2 copies on %d nodes\n\n", 5*r.o.indices, r.o.nodes)
	fmt.Fprintf(b, "simcluster, sidestep and load share the machine; `routing.when: always`. From its start to the first table and statistics sidestep took %.2f s; then it was %.0f MiB resident.\n",
		r.ready.Seconds(), r.idle.resident/mib)
	fmt.Fprintf(b, "\n%.0f searches/s on %d indices for %s each, by turns of %s in an order drawn by lot (seed %d), each after %s that does not count, directly, through the smallest reverse proxy of the standard library (`plain`) and through sidestep; the storm is of relocations, and of 20 indices created and deleted a second. \"Added\" is the difference to the direct way in the same phase, in which all share the processors; \"own time\" what sidestep counts itself (`sidestep_overhead_seconds`), with what does not count.\n\n",
		r.o.rate, searched, r.o.phase, turn, r.o.seed, leadIn)
	fmt.Fprintf(b, "| | changes/s | failed, partial | p50 direct | added by plain | by sidestep | p99 direct | added by plain | by sidestep | own time ≤ %s | refreshes | heap, MiB | resident, MiB | at most | goroutines |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n", ownTime)
	fmt.Fprintf(b, "| idle | | | | | | | | | | | %.1f | %.0f | %.0f | %.0f |\n", r.idle.heap/mib, r.idle.resident/mib, r.idle.most/mib, r.idle.goroutines)
	for _, p := range r.phases {
		fmt.Fprintf(b, "| %s | %.0f | %d, %d | %s | %s | %s | %s | %s | %s | %.2f %% | %.0f | %.1f | %.0f | %.0f | %.0f |\n", p.name, float64(p.changes)/p.elapsed.Seconds(),
			p.sidestep.Failed, p.sidestep.Partial, short(p.direct.Quantile(.5)), added(p, p.plain, .5), added(p, p.sidestep, .5),
			short(p.direct.Quantile(.99)), added(p, p.plain, .99), added(p, p.sidestep, .99), 100*p.quick,
			p.refreshes, p.after.heap/mib, p.after.resident/mib, p.after.most/mib, p.after.goroutines)
	}
	for _, p := range r.phases {
		for _, way := range []loadgen.Result{p.direct, p.plain, p.sidestep} {
			for _, e := range way.FirstErrors {
				fmt.Fprintf(b, "\n%s: %s\n", p.name, e)
			}
		}
	}
}

func added(p *phase, by loadgen.Result, q float64) string {
	d := by.Quantile(q) - p.direct.Quantile(q)
	if d < 0 {
		return "−" + short(-d)
	}
	return short(d)
}
