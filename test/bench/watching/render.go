package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"sidestep/test/bootstrap"
	"sidestep/test/harness"
)

func (o options) header(b *strings.Builder) {
	fmt.Fprintf(b, "# What it costs that sidestep watches\n\n")
	fmt.Fprintf(b, "Measured %s by `make bench-watching`: %d cores, %s; load, both sidesteps and a simulated cluster of five nodes (shard queries\n"+
		"of about 4 ms) share the machine. %d turns of %s for each side, %g searches/s, in an open loop. Everything on: the recorder of spikes\n"+
		"with a folder, 1 %% of the requests traced, each in the access log, slow ones in the slow log, and in its turns a page open and /metrics read each second.\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), o.rounds, o.slice, o.rate)
}

// render writes the table of one situation. The first row is what the others are
// compared with.
func render(b *strings.Builder, situation string, rows []*measured) {
	fmt.Fprintf(b, "\n## %s\n\n| | searches | p50, ms | p90, ms | p99, ms | of turns: median | CPU per search, µs |\n|---|---:|---:|---:|---:|---:|---:|\n", situation)
	for _, m := range rows {
		r := &m.result
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %.0f |\n", m.name, r.Sent, ms(r.Quantile(0.5)), ms(r.Quantile(0.9)), ms(r.Quantile(0.99)),
			fmt.Sprintf("%.1f", bootstrap.Median(m.p99)), m.perSearch())
	}
	base := rows[0]
	for _, m := range rows[1:] {
		ratio := func(q float64) float64 {
			return float64(m.result.Quantile(q)) / float64(max(1, base.result.Quantile(q)))
		}
		fmt.Fprintf(b, "| **%s / %s** | | %.2f | %.2f | %.2f | %.2f | %.2f |\n", m.name, base.name,
			ratio(0.5), ratio(0.9), ratio(0.99), bootstrap.Median(m.p99)/bootstrap.Median(base.p99), m.perSearch()/base.perSearch())
	}
}

// perSearch is the CPU time of a search, in µs.
func (m *measured) perSearch() float64 {
	return float64(m.cpu) / float64(time.Microsecond) / float64(max(1, m.result.Sent))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", harness.Milliseconds(d)) }
