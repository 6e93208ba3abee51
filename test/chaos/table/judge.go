package main

import (
	"fmt"
	"slices"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/bootstrap"
	"sidestep/test/harness"
)

const (
	// farFromOracle is how many times the oracle's p99 is too many.
	farFromOracle = 1.5
	// nearlyOracle is asked where sidestep is told what the oracle knows.
	nearlyOracle = 1.15
)

// asks is what a row asks of sidestep, beside that nothing is lost; zero is not asked.
type asks struct {
	oracle     float64       // p99 at most so many times the oracle's
	gain       float64       // p99 at most so many times the engine's
	attempts   float64       // at most, of a search in the mean
	avoid      time.Duration // at most, from the fault until the bad nodes are avoided
	noWorse    bool          // p50, p99 and, in a closed loop, searches/s no worse than the engine's
	noEjection bool          // of any node
	noManager  bool          // no search is coordinated by a dedicated manager
}

// nearOracle is asked where nodes are degraded, nothingWrong where none is.
func nearOracle() asks   { return asks{oracle: farFromOracle} }
func nothingWrong() asks { return asks{noWorse: true, noEjection: true} }

// answer is whether one thing that a row asks holds.
type answer struct {
	name string // in a word
	bootstrap.Verdict
}

// atMost holds if the whole interval is within the limit.
func atMost(about string, e bootstrap.Estimate, limit float64) bootstrap.Verdict {
	return bootstrap.Verdict{
		About: fmt.Sprintf("%s %s, at most %g", about, e, limit),
		Holds: e.Value > 0 && e.High <= limit, Open: e.Low <= limit && e.High > limit,
	}
}

// none holds if there were none.
func none(about string, count int) bootstrap.Verdict {
	return bootstrap.Verdict{About: fmt.Sprintf("%d %s, none asked", count, about), Holds: count == 0}
}

func p50(t turn) float64       { return harness.Milliseconds(t.p50) }
func p90(t turn) float64       { return harness.Milliseconds(t.p90) }
func p99(t turn) float64       { return harness.Milliseconds(t.p99) }
func perSecond(t turn) float64 { return t.perSecond }

// p99 is the load's, in ms.
func (t *tally) p99() float64 { return t.value(0.99, p99) }

// value is a percentile of the load in ms: the median of its turns, or over all searches
// if there are none.
func (t *tally) value(q float64, of func(turn) float64) float64 {
	if t.pooled || len(t.turns) == 0 {
		return harness.Milliseconds(t.result.Quantile(q))
	}
	return bootstrap.Median(bootstrap.Values(t.turns, of))
}

// to compares a percentile with that of another load; nothing if either was not sent.
func (t *tally) to(base *tally, q float64, of func(turn) float64) bootstrap.Estimate {
	switch {
	case t == nil || base == nil || len(t.turns) == 0 || len(base.turns) == 0:
		return bootstrap.Estimate{}
	case t.pooled:
		return bootstrap.QuantileRatio(allLatencies(t.beside(base)), allLatencies(base.beside(t)), q)
	default:
		return t.ratio(base, of)
	}
}

// ratio compares the medians of the rounds that both loads have.
func (t *tally) ratio(base *tally, of func(turn) float64) bootstrap.Estimate {
	return bootstrap.Ratio(bootstrap.Values(t.beside(base), of), bootstrap.Values(base.beside(t), of))
}

// beside returns the turns in the rounds in which another load has one, too.
func (t *tally) beside(other *tally) []turn {
	var turns []turn
	for _, one := range t.turns {
		if slices.ContainsFunc(other.turns, func(o turn) bool { return o.round == one.round }) {
			turns = append(turns, one)
		}
	}
	return turns
}

// allLatencies are those of each turn.
func allLatencies(turns []turn) [][]float64 {
	var all [][]float64
	for _, one := range turns {
		all = append(all, one.latencies)
	}
	return all
}

// latencies returns those of all searches, rising, in ms, with the three digits that a
// result has.
func latencies(r *loadgen.Result) []float64 {
	all := make([]float64, r.Sent)
	for i := range all {
		all[i] = harness.Milliseconds(r.Quantile(float64(i+1) / float64(len(all))))
	}
	return all
}

// judge answers what a scenario asks of a sidestep's load.
func judge(sc scenario, o *outcome, t *tally) []answer {
	engine, oracle, control := o.of(t.base(loadEngine)), o.of(t.base(loadOracle)), o.of(t.base(loadControl))
	lost := int(t.result.Failed + t.result.Partial)
	answers := []answer{{"lost", none("searches failed or partial", lost)}}
	add := func(name string, v bootstrap.Verdict) { answers = append(answers, answer{name, v}) }
	if sc.asks.oracle > 0 {
		add("p99", atMost("p99 to the oracle's", t.to(oracle, 0.99, p99), sc.asks.oracle))
	}
	if sc.asks.gain > 0 {
		add("p99", atMost("p99 to the engine's", t.to(engine, 0.99, p99), sc.asks.gain))
	}
	if sc.asks.noWorse {
		add("p50", bootstrap.NoHigher("p50 to the engine's", t.to(engine, 0.5, p50), control.to(engine, 0.5, p50)))
		add("p99", bootstrap.NoHigher("p99 to the engine's", t.to(engine, 0.99, p99), control.to(engine, 0.99, p99)))
		if sc.connections > 0 {
			add("searches/s", bootstrap.NoLower("searches/s to the engine's", t.rate(engine), control.rate(engine)))
		}
	}
	if t.second() {
		return answers
	}
	if sc.asks.avoid > 0 {
		add("avoided", bootstrap.Verdict{
			About: fmt.Sprintf("avoided after %s s, at most %g", seconds(o.avoid), sc.asks.avoid.Seconds()),
			Holds: o.avoid >= 0 && o.avoid <= sc.asks.avoid,
		})
	}
	counted, known := o.counted[t.load]
	if !known {
		return answers
	}
	if sc.asks.attempts > 0 {
		add("attempts", bootstrap.Verdict{
			About: fmt.Sprintf("%.3f attempts a search, at most %g", counted.attempts, sc.asks.attempts),
			Holds: counted.attempts > 0 && counted.attempts <= sc.asks.attempts,
		})
	}
	if sc.asks.noEjection {
		add("ejected", none(fmt.Sprintf("ejections (%d changes of state, %d records)", counted.changes, counted.records), counted.ejected))
	}
	if sc.asks.noManager {
		v := none(fmt.Sprintf("searches through managers (%d untold)", counted.untold), counted.through)
		v.Holds = v.Holds && counted.untold == 0 && len(t.seen) > 0
		add("managers", v)
	}
	return answers
}

// rate compares searches/s.
func (t *tally) rate(base *tally) bootstrap.Estimate {
	if t == nil || base == nil {
		return bootstrap.Estimate{}
	}
	return t.ratio(base, perSecond)
}

// misses returns what does not hold, in a word each.
func misses(answers []answer) []string {
	var names []string
	for _, a := range answers {
		if !a.Holds && !slices.Contains(names, a.name) {
			names = append(names, a.name)
		}
	}
	return names
}
