package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// report is what came of the comparison.
func report(o options, version string, t *tally) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The same answers: %s %s\n\n", o.Engine, version)
	fmt.Fprintf(&b, "    %s -count %d -churn 0 -bulks 0\n\n", o.command, o.count)
	fmt.Fprintf(&b, "%d requests were sent to a node and through sidestep, half of them with `routing.when: always`, half with the default. **%d were answered differently.**\n",
		t.requests, t.differences)
	fmt.Fprintf(&b, "\"varies\": the engine's own answers are not the same each time, and sidestep's was one that a node gave, too (%d in all).\n\n", t.varied)
	b.WriteString("| operation | requests | different | varies |\n|---|---:|---:|---:|\n")
	for _, name := range t.names() {
		op := t.operations[name]
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", name, op.requests, op.differences, op.varied)
	}
	b.WriteString("\n## How many are steered\n\n")
	b.WriteString("Of the requests that take a preference and that the engine answers with 200: how many went out with a list of nodes, and why the others did not.\n")
	b.WriteString("By default (`routing.when: outlier`) a search of several shards is left to the engine while no node stands out (`no_outlier`).\n\n")
	b.WriteString("| operation | `when: always` | why not | default | why not |\n|---|---:|---|---:|---|\n")
	for _, name := range t.names() {
		halves := t.operations[name].halves
		if halves[0].steerable+halves[1].steerable == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, halves[0].share(), halves[0].why(), halves[1].share(), halves[1].why())
	}
	return b.String()
}

// share is how many were steered of those that could be.
func (h half) share() string {
	if h.steerable == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %% of %d", 100*float64(h.steered)/float64(h.steerable), h.steerable)
}

// why lists the reasons of the others, the most frequent first.
func (h half) why() string {
	return counts(h.reasons)
}

func counts(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, m[name])
	}
	return strings.Join(names, ", ")
}

// report is what came of the requests while the cluster changed.
func (c churnResult) report(o options, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Answers while the cluster changes: %s %s\n\n", o.Engine, version)
	fmt.Fprintf(&b, "    %s -count 0 -churn %d -bulks 0\n\n", o.command, o.churn)
	fmt.Fprintf(&b, "%d reads, each asked directly, through sidestep, directly, through sidestep. What happened meanwhile: %s.\n", c.requests, counts(c.events))
	b.WriteString("An answer is worse than the ones before and after it if they are better than partial, 4xx, 429, 5xx or none, and it is not; it is another one if they are alike.\n\n")
	b.WriteString("| | worse | another one | undecided | again and again |\n|---|---:|---:|---:|---:|\n")
	fmt.Fprintf(&b, "| through sidestep | %d | %d | %d | **%d** |\n", c.through.worse, c.through.other, c.through.undecided, len(c.repeated))
	fmt.Fprintf(&b, "| directly (chance) | %d | %d | %d | |\n", c.direct.worse, c.direct.other, c.direct.undecided)
	return b.String()
}
