package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// shown are the columns of the printed tables.
var shown = map[string]string{
	"scenario": "scenario", "load": "load", "sent": "sent",
	"p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "p99_turns_ms": "p99 of turns", "max_ms": "max",
	"failed": "failed", "partial": "partial", "searches_per_s": "searches/s",
	"p99_to_oracle": "p99 / oracle", "passes": "passes", "bad_share": "bad node's share", "busiest": "busiest",
	"avoid_s": "avoided after, s", "return_s": "back after, s", "others_cpu": "others' CPU",
}

// cells returns the shown cells of a row; the scenario's title stands in its first.
func cells(row record, first bool) []string {
	var out []string
	for _, column := range columns {
		if _, ok := shown[column]; !ok {
			continue
		}
		cell := row[column]
		if column == "scenario" {
			cell = ""
			if first {
				cell = title(row[column])
			}
		}
		out = append(out, cell)
	}
	return out
}

func title(name string) string {
	for _, sc := range scenarios() {
		if sc.name == name {
			return sc.title
		}
	}
	return name
}

func head() []string {
	var out []string
	for _, column := range columns {
		if text, ok := shown[column]; ok {
			out = append(out, text)
		}
	}
	return out
}

// text is the table of this run.
func (b *book) text() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head(), "\t"))
	fresh := slices.DeleteFunc(slices.Clone(b.records), func(r record) bool { return !slices.Contains(b.fresh, r["scenario"]) })
	last := ""
	for _, row := range fresh {
		fmt.Fprintln(w, strings.Join(cells(row, row["scenario"] != last), "\t"))
		last = row["scenario"]
	}
	_ = w.Flush() // to memory
	for _, row := range fresh {
		if row["first_error"] != "" {
			fmt.Fprintf(&out, "first error of %s, %s: %s\n", row["scenario"], row["load"], row["first_error"])
		}
	}
	for _, line := range slices.Concat(healthy(fresh), verdict(fresh)) {
		fmt.Fprintln(&out, line)
	}
	if len(b.fresh) > 0 {
		fmt.Fprintln(&out, "slowest searches:", b.slowestPath())
	}
	return out.String()
}

// verdict says for sidestep and each variant how many scenarios pass, and why the
// others do not.
func verdict(records []record) []string {
	type sum struct {
		all  int
		fail []string
	}
	var order []string
	sums := map[string]*sum{}
	for _, row := range records {
		load, watch, _ := strings.Cut(row["load"], ", ")
		if load == loadEngine || load == loadOracle {
			continue
		}
		if sums[load] == nil {
			sums[load] = &sum{}
			order = append(order, load)
		}
		s := sums[load]
		if watch == "" && row["passes"] != "" {
			s.all++
		}
		why, fails := strings.CutPrefix(row["passes"], "no: ")
		if !fails {
			continue
		}
		if watch != "" {
			why += " at " + watch
		}
		name, same := row["scenario"], len(s.fail)-1
		if same >= 0 && strings.HasPrefix(s.fail[same], name+" (") {
			s.fail[same] = strings.TrimSuffix(s.fail[same], ")") + ", " + why + ")"
			continue
		}
		s.fail = append(s.fail, name+" ("+why+")")
	}
	var lines []string
	for _, load := range order {
		s := sums[load]
		line := fmt.Sprintf("%s passes in %d of %d scenarios", load, s.all-len(s.fail), s.all)
		if len(s.fail) > 0 {
			line += "; not in " + strings.Join(s.fail, ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

// healthy compares with the engine where nothing is done to the cluster.
func healthy(records []record) []string {
	var lines []string
	own := record{}
	for _, row := range records {
		if row["load"] == loadEngine {
			own = row
		}
		if row["to_engine"] == "" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s, %s to the engine: %s (turns: p50 %s to %s, p99 %s to %s, searches/s %s to %s)",
			row["scenario"], row["load"], row["to_engine"], row["p50_turns_ms"], own["p50_turns_ms"],
			row["p99_turns_ms"], own["p99_turns_ms"], row["searches_turns"], own["searches_turns"]))
	}
	return lines
}

const explanation = `A row is one scenario and one way to send the searches: **engine** goes round robin over all nodes and leaves the choice
of copies to the engine, **sidestep** is the same client before sidestep, **oracle** is told which nodes are bad and touches
them neither as coordinating nor as data nodes; other names are sidesteps with those settings of routing. The ways take turns
in rounds of one run, another one first in each round; each turn has a lead-in that is not counted. In the rolling restart all
are sent at once, each at its part of the rate, as every node stops once. Five nodes, 5 shards × 2 copies; open loop unless
a row says otherwise, latency in ms from the scheduled start. "p99 of turns" is the least and the
greatest p99 of the load's turns. "onset" is sidestep from 2 s before the fault until the first turn, "return" from 1 s before
its end on. A row passes when its p99 is at most 1.5 times the oracle's and nothing failed or was partial; at onset and return
only a loss counts. The bad node's share is that of the shard queries; "busiest" is the busiest node's relative to an equal
share. A node is avoided when at most a tenth of the searches use it, and back when it has half of its former share, for a
second and from its first fifth on; for faults of HTTP that is about coordinating nodes. "Others' CPU" is the share of the
machine that programs outside the measurement used meanwhile: where it is not near 0, the times are theirs too.
`

// markdown is the table of all results.
func (b *book) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Degraded nodes: %s\n\nBy `make chaos`. %s\n", b.Engine, explanation)
	line := func(cells []string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	line(head())
	line(strings.Split("---|---"+strings.Repeat("|---:", len(head())-2), "|"))
	last := ""
	for _, row := range b.records {
		shown := cells(row, row["scenario"] != last)
		if row["load"] == loadSidestep {
			shown[1] = "**" + shown[1] + "**"
		}
		line(shown)
		last = row["scenario"]
	}
	out.WriteString("\n")
	for _, text := range slices.Concat(verdict(b.records), healthy(b.records)) {
		fmt.Fprintf(&out, "- %s\n", text)
	}
	b.errors(&out)
	b.plots(&out)
	b.runs(&out)
	return out.String()
}

func (b *book) errors(out *strings.Builder) {
	titled := false
	for _, row := range b.records {
		if row["first_error"] == "" {
			continue
		}
		if !titled {
			out.WriteString("\n## First errors\n\n")
			titled = true
		}
		fmt.Fprintf(out, "- %s, %s: `%s`\n", title(row["scenario"]), row["load"], strings.ReplaceAll(row["first_error"], "`", "'"))
	}
}

func (b *book) plots(out *strings.Builder) {
	titled := false
	for _, sc := range scenarios() {
		path := b.plotPath(sc.name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if !titled {
			out.WriteString("\n## Whom sidestep uses\n\n")
			titled = true
		}
		fmt.Fprintf(out, "![%s](%s)\n", sc.title, path[strings.LastIndexByte(path, '/')+1:])
	}
}

// runs says what was measured when, with what.
func (b *book) runs(out *strings.Builder) {
	out.WriteString("\n## Runs\n\n")
	var order []string
	of := map[string][]string{}
	for _, row := range b.records {
		key := fmt.Sprintf("%s: %s, sidestep %s, %s, %#q", row["date"], row["engine"], row["sidestep"], row["machine"], row["command"])
		if name := row["scenario"]; !slices.Contains(of[key], name) {
			of[key] = append(of[key], name)
		}
		if !slices.Contains(order, key) {
			order = append(order, key)
		}
	}
	for _, key := range order {
		fmt.Fprintf(out, "- %s: %s\n", key, strings.Join(of[key], ", "))
	}
}
