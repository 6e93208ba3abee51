package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// farFromOracle is how many times the oracle's p99 is too many.
	farFromOracle = 1.5
	// noise is the part by which two measurements of the same differ anyway.
	noise = 0.05
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
			"p50_ms": ms(r.Quantile(0.5)), "p90_ms": ms(r.Quantile(0.9)), "p99_ms": ms(r.Quantile(0.99)), "max_ms": ms(r.Quantile(1)),
			"failed": strconv.FormatInt(r.Failed, 10), "partial": strconv.FormatInt(r.Partial, 10),
			"searches_per_s": fmt.Sprintf("%.1f", r.Throughput()),
			"others_cpu":     t.usage.Others(),
		}
		t.compare(sc, o, row)
		row["bad_share"], row["busiest"] = t.spread(o)
		switch t.load {
		case loadSidestep + ", onset":
			row["avoid_s"] = seconds(o.avoid)
		case loadSidestep + ", return":
			row["return_s"] = seconds(o.back)
		}
		if len(t.turns) > 0 {
			row["p50_turns_ms"] = fromTo(t.turns, func(n turn) string { return ms(n.p50) })
			row["p99_turns_ms"] = fromTo(t.turns, func(n turn) string { return ms(n.p99) })
			row["searches_turns"] = fromTo(t.turns, func(n turn) string { return fmt.Sprintf("%.1f", n.perSecond) })
		}
		if len(r.FirstErrors) > 0 {
			row["first_error"] = strings.Join(strings.Fields(fmt.Sprintf("%.160s", r.FirstErrors[0])), " ")
		}
		out = append(out, row)
	}
	return out
}

// compare fills in what the row of t owes to other loads: how far it is from the
// oracle, whether that and its losses pass, and on a cluster that nothing is done
// to how far it is from the engine.
func (t *tally) compare(sc scenario, o *outcome, row record) {
	var faults []string
	watched := len(t.turns) == 0
	if reference := o.of(loadOracle); reference != nil && reference.result.Quantile(0.99) > 0 {
		ratio := float64(t.result.Quantile(0.99)) / float64(reference.result.Quantile(0.99))
		row["p99_to_oracle"] = fmt.Sprintf("%.2f", ratio)
		if ratio > farFromOracle && !watched {
			faults = append(faults, "p99")
		}
	}
	if t.result.Failed+t.result.Partial > 0 {
		faults = append(faults, "lost")
	}
	switch {
	case t.load == loadOracle:
	case len(faults) > 0:
		row["passes"] = "no: " + strings.Join(faults, ", ")
	case !watched && row["p99_to_oracle"] != "":
		row["passes"] = "yes"
	}
	own := o.of(loadEngine)
	if sc.bad > 0 || sc.whole != nil || own == nil || own == t || t.load == loadOracle {
		return
	}
	row["to_engine"] = t.toEngine(own)
}

// toEngine says how the load compares to the engine's: no worse is what is within
// a twentieth, or within what the engine's own turns differ by.
func (t *tally) toEngine(own *tally) string {
	var parts []string
	worse := false
	latency := func(name string, q float64, of func(turn) time.Duration) {
		mine, theirs := t.result.Quantile(q), own.result.Quantile(q)
		if theirs <= 0 || len(own.turns) == 0 {
			return
		}
		slowest := of(slices.MaxFunc(own.turns, func(x, y turn) int { return int(of(x) - of(y)) }))
		ratio := float64(mine) / float64(theirs)
		worse = worse || ratio > 1+noise && mine > slowest
		parts = append(parts, fmt.Sprintf("%s × %.2f", name, ratio))
	}
	latency("p50", 0.5, func(n turn) time.Duration { return n.p50 })
	latency("p99", 0.99, func(n turn) time.Duration { return n.p99 })
	if theirs := own.result.Throughput(); theirs > 0 && len(own.turns) > 0 {
		mine := t.result.Throughput()
		least := slices.MinFunc(own.turns, func(x, y turn) int { return int(1000 * (x.perSecond - y.perSecond)) }).perSecond
		worse = worse || mine < theirs*(1-noise) && mine < least
		parts = append(parts, fmt.Sprintf("searches/s × %.2f", mine/theirs))
	}
	verdict := "no worse"
	if worse {
		verdict = "worse"
	}
	return strings.Join(parts, ", ") + ": " + verdict
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

// fromTo is the least and the greatest of what turns show.
func fromTo(turns []turn, show func(turn) string) string {
	var texts []string
	for _, n := range turns {
		texts = append(texts, show(n))
	}
	slices.SortFunc(texts, func(x, y string) int { // one precision: the longer number is the greater
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
	return texts[0] + "–" + texts[len(texts)-1]
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
	return bad, fmt.Sprintf("%.2f", float64(most)*nodeCount/float64(total))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }

func seconds(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}
