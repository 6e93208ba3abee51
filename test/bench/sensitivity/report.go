package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidestep/internal/stats"
	"sidestep/test/bench/sensitivity/outcome"
	"sidestep/test/machine"
)

const (
	// moved is by what factor a row must differ to be named.
	moved = 1.25
	// noWorse is up to which ratio to the engine's p99 a random scenario counts as no worse.
	noWorse = 1.10
)

// report compares what changes brought with what the tree brings.
type report struct {
	options         options
	before, control outcome.Outcome
	lines           []measured
}

// shift is how far a row of the catalogue moved.
type shift struct {
	row           string
	before, after float64 // ms: median p99 of the seeds
}

func (s shift) ratio() float64 { return s.after / s.before }

func (s shift) String() string {
	return fmt.Sprintf("%#q %s → %s", s.row, milliseconds(s.before), milliseconds(s.after))
}

func milliseconds(ms float64) string {
	if ms >= outcome.Never {
		return "∞"
	}
	return fmt.Sprintf("%.3g", ms)
}

// shifts returns how far each row moved, the largest rise first.
func (r *report) shifts(after outcome.Outcome) []shift {
	var out []shift
	for name, row := range r.before.Rows {
		if other := after.Rows[name]; other != nil {
			out = append(out, shift{name, stats.Median(slices.Clone(row.P99)), stats.Median(slices.Clone(other.P99))})
		}
	}
	slices.SortFunc(out, func(a, b shift) int {
		return cmp.Or(cmp.Compare(b.ratio(), a.ratio()), cmp.Compare(a.row, b.row))
	})
	return out
}

// columns returns the cells of a line of the table after its name.
func (r *report) columns(after outcome.Outcome) []string {
	shifts := r.shifts(after)
	var named []string
	ratios := make([]float64, 0, len(shifts))
	for _, s := range shifts {
		ratios = append(ratios, s.ratio())
		if s.ratio() > moved || s.ratio() < 1/moved {
			named = append(named, s.String())
		}
	}
	failed := 0.0
	for _, row := range after.Rows {
		for _, share := range row.Failed {
			failed += 100 * share / float64(len(row.Failed)*len(after.Rows))
		}
	}
	cells := []string{strings.Join(named, ", "), "–", fmt.Sprintf("%.3f", failed)}
	if len(ratios) > 0 {
		cells[1] = fmt.Sprintf("%.2f", stats.Median(ratios))
	}
	return append(cells, r.random(after)...)
}

// random returns the cells of the random scenarios.
func (r *report) random(after outcome.Outcome) []string {
	good, failed, attempts, ejected := 0, 0.0, 0.0, 0
	engine := after.Random // which played beside sidestep, or else before
	for i, s := range after.Random {
		if s.EngineP99 == 0 && i < len(r.before.Random) {
			engine = r.before.Random
		}
		if s.P99 <= noWorse*engine[i].EngineP99 {
			good++
		}
		failed += s.Failed
		attempts += s.Attempts
		ejected += s.Ejected
	}
	return []string{fmt.Sprintf("%d of %d", good, len(after.Random)), fmt.Sprintf("%.0f", failed), fmt.Sprintf("%.0f", attempts), fmt.Sprint(ejected)}
}

// summary is a line of progress.
func (r *report) summary(m measured) string {
	if m.Refused != "" {
		return "does not build: " + m.Refused
	}
	return strings.Join(r.columns(m.Outcome), "; ")
}

// render writes the document.
func (r *report) render() string {
	var b strings.Builder
	o := &r.options
	fmt.Fprintf(&b, "# What each constant and each rule of the selection is good for\n\nMeasured %s at %s by `%s` (`make bench-sensitivity`): %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), o.commit, o.command, machine.Name())
	fmt.Fprintf(&b, "Each line is a build in which one constant is halved or doubled (whole numbers are rounded), or one rule is switched off. "+
		"It plays the catalogue of the lab with %d seeds, and %d random scenarios of seed %d. "+
		"Rows are named if their median p99 (ms) moved by more than %.0f %%, with p99 before and after. ", o.seeds, o.random, o.seed, 100*(moved-1))
	b.WriteString("The median is that of all rows, after by before. \"Failed\" is the mean share of searches of the catalogue, and the number of those of the random scenarios. " +
		"\"No worse\" counts random scenarios with a p99 of at most 1.10 × the engine's. \"Ejected\" are ejections of nodes without a fault. " +
		"The second line is the same build with other seeds of the catalogue: it tells what is chance.\n")
	header := "| changed | rows that moved | median | failed, % | no worse | failed | attempts | ejected |\n|---|---|---:|---:|---:|---:|---:|---:|\n"
	for _, part := range []struct{ title, kind string }{{"Constants", "constants"}, {"Rules switched off", "rules"}} {
		of := slices.DeleteFunc(slices.Clone(r.lines), func(m measured) bool { return !m.Change.named(part.kind) })
		if len(of) == 0 {
			continue
		}
		b.WriteString("\n## " + part.title + "\n\n" + header)
		r.line(&b, unchanged, r.before)
		r.line(&b, otherSeeds, r.control)
		r.part(&b, of)
	}
	return b.String()
}

// part writes the lines of constants, or of rules.
func (r *report) part(b *strings.Builder, lines []measured) {
	for i := range lines {
		if lines[i].Refused != "" {
			fmt.Fprintf(b, "| %s | does not build | | | | | | |\n", lines[i].Change)
			continue
		}
		r.line(b, lines[i].Change.String(), lines[i].Outcome)
	}
}

func (r *report) line(b *strings.Builder, name string, of outcome.Outcome) {
	fmt.Fprintf(b, "| %s | %s |\n", name, strings.Join(r.columns(of), " | "))
}
