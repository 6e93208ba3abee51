package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"sidestep/test/bootstrap"
	"sidestep/test/machine"
)

// header writes how and on what was measured.
func header(b *strings.Builder, title, target string, versions []string) {
	fmt.Fprintf(b, "# %s\n\n", title)
	fmt.Fprintf(b, "Measured %s by `make %s`: %s, %s; %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), target, machine.Name(), runtime.Version(), strings.Join(versions, ", "))
}

// render writes the table. The direct connection is the first of the results.
func (c *comparison) render(versions []string) string {
	var b strings.Builder
	header(&b, "What a proxy costs", "bench-overhead", versions)
	fmt.Fprintf(&b, "The simulated cluster has three nodes that answer at once and a fourth that holds copies of the same index and answers other\n"+
		"nodes %v late. sidestep, with the defaults of its configuration, keeps it out: each search is sent with the list of the others\n"+
		"(`preference=_only_nodes:…`), which is checked. The other proxies know the three alone, and are sent searches that have that list.\n\n", degradedBy)
	fmt.Fprintf(&b, "Medians of %d interleaved rounds of %v, in each of which lots decide who comes first. \"Added p50\" is over a direct connection,\n"+
		"one search at a time; all that is per search, and searches/s, are with %d connections, load, proxy and simulated cluster sharing\n"+
		"the machine. \"× haproxy\" compares the column before with haproxy's of the same round (median). System calls are counted once, in a\n"+
		"run of its own, with %s; context switches are those of all threads; allocations are objects, in programs written in Go.\n",
		c.rounds, c.window, c.clients, c.tracer.name)
	for _, size := range answerSizes() {
		fmt.Fprintf(&b, "\n## Answers of %d KB\n\n", size>>10)
		fmt.Fprintf(&b, "| | p50, µs | added p50, µs | × haproxy | CPU per search, µs | × haproxy | system calls per search | context switches per search | allocations per search | searches/s |\n"+
			"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
		direct := c.results[0].sizes[size]
		base := c.of(haproxy).sizes[size]
		for _, r := range c.results {
			s := r.sizes[size]
			fmt.Fprintf(&b, "| %s | %s |", r.name, micros(s.p50))
			if s == direct {
				b.WriteString(strings.Repeat("  |", 7))
			} else {
				added, least := differences(s.p50, direct.p50), differences(base.p50, direct.p50)
				fmt.Fprintf(&b, " %s | %s | %s | %s | %s | %s | %s |", micros(added), number(ratios(added, least), 2),
					micros(s.cpu), number(ratios(s.cpu, base.cpu), 2), number(s.calls, 1), number(s.switches, 2), number(s.objects, 0))
			}
			fmt.Fprintf(&b, " %s |\n", number(s.rate, 0))
		}
	}
	fmt.Fprintf(&b, "\n## Resident memory\n\nMore connections: [memory.md](memory.md).\n\n| | idle, MiB | under this load, MiB |\n|---|---:|---:|\n")
	for _, r := range c.results[1:] {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f |\n", r.name, mebibytes(r.idle), mebibytes(r.loaded))
	}
	return b.String()
}

// of returns the result of the peer of that name, which there is.
func (c *comparison) of(name string) *result {
	return c.results[slices.IndexFunc(c.results, func(r *result) bool { return r.name == name })]
}

// differences pairs the rounds, so that a slow moment of the machine is in both.
func differences(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

// ratios pairs the rounds, too. Those whose base is not positive say nothing.
func ratios(values, base []float64) []float64 {
	var out []float64
	for i, v := range values {
		if base[i] > 0 {
			out = append(out, v/base[i])
		}
	}
	return out
}

// number writes the median of values, or nothing if there are none.
func number(values []float64, digits int) string {
	if len(values) == 0 {
		return ""
	}
	return fmt.Sprintf("%.*f", digits, bootstrap.Median(values))
}

// micros writes the median of values in ns.
func micros(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", bootstrap.Median(values)/float64(time.Microsecond))
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
