package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sidestep/test/bootstrap"
	"sidestep/test/harness"
)

// record is a row of the results by column.
type record map[string]string

// rows returns the rows of a scenario without the columns of the run.
func rows(sc scenario, o *outcome) []record {
	var out []record
	for _, t := range o.tallies {
		r := &t.result
		row := record{
			"scenario": sc.name, "load": t.load, "sent": strconv.FormatInt(r.Sent, 10),
			"p50_ms": tenths(t.value(0.5, p50)), "p90_ms": tenths(t.value(0.9, p90)), "p99_ms": tenths(t.p99()),
			"p99_all_ms": ms(r.Quantile(0.99)), "max_ms": ms(r.Quantile(1)),
			"failed": strconv.FormatInt(r.Failed, 10), "partial": strconv.FormatInt(r.Partial, 10),
			"searches_per_s": fmt.Sprintf("%.1f", r.Throughput()),
			"others_cpu":     t.usage.Others(),
		}
		row["bad_share"], row["busiest"] = t.spread(o)
		switch t.load {
		case loadSidestep + ", " + watchOnset:
			row["avoid_s"] = seconds(o.avoid)
		case loadSidestep + ", " + watchReturn:
			row["return_s"] = seconds(o.back)
		}
		t.compare(sc, o, row)
		if c, ok := o.counted[t.load]; ok && c.attempts > 0 {
			row["attempts"] = fmt.Sprintf("%.3f", c.attempts)
			row["ejected"] = strconv.Itoa(c.ejected)
		}
		if len(r.FirstErrors) > 0 {
			row["first_error"] = strings.Join(strings.Fields(fmt.Sprintf("%.160s", r.FirstErrors[0])), " ")
		}
		out = append(out, row)
	}
	return out
}

// What a load is of, after its way: a watch, or a second tenant.
const (
	watchOnset  = "onset"
	watchReturn = "return"
)

// base returns the load of the same tenant in another way.
func (t *tally) base(way string) string {
	if _, of, found := strings.Cut(t.load, ", "); found {
		return way + ", " + of
	}
	return way
}

// watched reports whether this is sidestep around a fault's begin or end, not its turns.
func (t *tally) watched() bool {
	return strings.HasSuffix(t.load, ", "+watchOnset) || strings.HasSuffix(t.load, ", "+watchReturn)
}

// second reports whether this is the load of a tenant of its own.
func (t *tally) second() bool { return strings.Contains(t.load, ", ") && !t.watched() }

// sidestep reports whether the load goes through sidestep.
func (t *tally) sidestep() bool {
	way, _, _ := strings.Cut(t.load, ", ")
	return way != loadEngine && way != loadOracle && way != loadControl
}

// compare fills in what the row of t owes to other loads, and whether it holds what the
// scenario asks.
func (t *tally) compare(sc scenario, o *outcome, row record) {
	if t.watched() {
		if t.result.Failed+t.result.Partial > 0 {
			row["passes"] = "no: lost"
		}
		return
	}
	against := func(column, way string, of func(base *tally) bootstrap.Estimate) {
		if base := o.of(t.base(way)); base != nil && base != t && len(t.turns) > 0 {
			row[column] = of(base).String()
		}
	}
	against("p99_to_oracle", loadOracle, func(b *tally) bootstrap.Estimate { return t.to(b, 0.99, p99) })
	against("p50_to_engine", loadEngine, func(b *tally) bootstrap.Estimate { return t.to(b, 0.5, p50) })
	against("p99_to_engine", loadEngine, func(b *tally) bootstrap.Estimate { return t.to(b, 0.99, p99) })
	against("searches_to_engine", loadEngine, t.rate)
	if !t.sidestep() {
		return
	}
	answers := judge(sc, o, t)
	row["passes"] = "yes"
	if missed := misses(answers); len(missed) > 0 {
		row["passes"] = "no: " + strings.Join(missed, ", ")
	}
	var lines []string
	for _, a := range answers {
		lines = append(lines, a.String())
	}
	row["asked"] = strings.Join(lines, "; ")
}

// of returns the tally of a load, nil if there is none.
func (o *outcome) of(load string) *tally {
	for _, t := range o.tallies {
		if t.load == load {
			return t
		}
	}
	return nil
}

// spread returns the share of the shard queries that the bad nodes ran, and those
// of the busiest node relative to an equal share.
func (t *tally) spread(o *outcome) (bad, busiest string) {
	var total, most, theirs int64
	for _, n := range t.queries {
		total += n
		most = max(most, n)
	}
	if total == 0 || t.blind {
		return "", ""
	}
	for _, id := range o.badIDs {
		theirs += t.queries[id]
	}
	if len(o.badIDs) > 0 {
		bad = fmt.Sprintf("%.3f", float64(theirs)/float64(total))
	}
	return bad, fmt.Sprintf("%.2f", float64(most)*float64(o.nodes)/float64(total))
}

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }

func ms(d time.Duration) string { return tenths(harness.Milliseconds(d)) }

func seconds(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}
