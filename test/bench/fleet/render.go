package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// render writes the table.
func render(o options, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a fleet asks a cluster\n\nMeasured %s by `make bench-fleet`: %d cores, %s; everything in one process, without a network.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(&b, "%d simulated nodes, %d indices of 5 shards × 2 copies, of which one is created and one deleted each second. Each sidecar is searched on %d indices and an alias, and polls as configured by default. "+
		"Requests a second that the cluster sees, in the %s that begin %s after all were ready to steer. The silence after which sidecars poll for themselves is %s here, as the machine is too small for all of them.\n\n",
		o.nodes, o.indices, targetsEach, o.window, o.warmup, silence)
	b.WriteString("| | sidecars | statistics | placement | targets | discovery | **all** | statistics, busiest node | age of statistics | statistics of a node a second | from the relay, KB/s a sidecar | ready to steer | cores in use |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range results {
		name, sum := "each for itself", 0.0
		if r.relayed {
			name = "with a relay"
		}
		for _, n := range r.perSecond {
			sum += n
		}
		sent := "–"
		if r.relayed {
			sent = fmt.Sprintf("%.0f", r.bytes/1000)
		}
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.1f | %.1f | %.1f | **%.0f** | %.1f | %d ms | %.1f | %s | %d of %d | %.2f |\n", name, r.sidecars,
			r.perSecond[forStatistics], r.perSecond[forPlacement], r.perSecond[forTargets], r.perSecond[forDiscovery], sum,
			r.busiest, r.age.Milliseconds(), r.arrivals, sent, r.steered, r.sidecars, r.cpu)
	}
	fmt.Fprintf(&b, "\nWhere statistics of a node a second fall below those of one sidecar, %d cores do not carry the fleet: sidecars for themselves would ask more than is shown, "+
		"and those with a relay read its reports more rarely than on machines of their own. "+
		"Targets are looked up again when the cluster has changed, once for all: there are %d aliases.\n", runtime.NumCPU(), aliases)
	return b.String()
}
