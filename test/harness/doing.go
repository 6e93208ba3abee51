package harness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Doing is what a sidestep did: kinds of things, and for each how often by label.
type Doing map[string]map[string]float64

// The kinds of things that a sidestep does, and that are counted at others.
const (
	DoesReasons   = "reasons" // of decisions
	DoesHedges    = "hedges"
	DoesFailovers = "failovers"
	DoesProbes    = "probes"
	DoesAsks      = "asks"
	DoesPolls     = "polls" // for statistics
	DoesStates    = "states"
	DoesFailures  = "failures" // by node
)

// told are the kinds that String tells, in its order.
var told = []string{DoesReasons, DoesHedges, DoesFailovers, DoesProbes, DoesAsks, DoesPolls, DoesStates, DoesFailures}

// Doing reads from its metrics what a sidestep did so far. DoesStates are in its log.
func (f *Front) Doing(ctx context.Context) (Doing, error) {
	families, err := f.metrics(ctx)
	if err != nil {
		return nil, err
	}
	d := Doing{}
	for _, of := range []struct{ kind, metric, label string }{
		{DoesReasons, "sidestep_requests_total", "reason"},
		{DoesHedges, "sidestep_hedges_total", "result"},
		{DoesFailovers, "sidestep_failovers_total", "cause"},
		{DoesProbes, "sidestep_probes_total", "result"},
		{DoesAsks, "sidestep_asks_total", "result"},
		{DoesFailures, "sidestep_node_failures_total", "node"},
	} {
		d[of.kind] = sumBy(families[of.metric].GetMetric(), of.label, nil)
	}
	d[DoesPolls] = sumBy(families["sidestep_cluster_polls_total"].GetMetric(), "result", map[string]string{"kind": "stats"})
	return d, nil
}

// Add adds what another did, times a factor: -1 for what was done before.
func (d Doing) Add(other Doing, factor float64) {
	for kind, counts := range other {
		if d[kind] == nil {
			d[kind] = map[string]float64{}
		}
		for label, n := range counts {
			d[kind][label] += factor * n
		}
	}
}

// Extra returns the attempts beyond one for each search.
func (d Doing) Extra() float64 {
	sent := d[DoesHedges]["won"] + d[DoesHedges]["lost"]
	for cause, n := range d[DoesFailovers] {
		if cause != "unreachable" {
			sent += n
		}
	}
	return sent
}

// String tells all kinds in one line.
func (d Doing) String() string {
	var parts []string
	for _, kind := range told {
		if d[kind] != nil {
			parts = append(parts, kind+" "+Counts(d[kind]))
		}
	}
	return strings.Join(parts, "; ")
}

// Counts lists counts, the greatest first, without those of nothing.
func Counts(counts map[string]float64) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, key := range keys {
		if counts[key] > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f", key, counts[key]))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
