package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/bootstrap"
	"sidestep/test/harness"
)

const (
	// floodClass is the class of the searches of a flood, and begins their X-Opaque-Id.
	floodClass = "flood"
	// alone ends the name of an arm of turns without a flood.
	alone = " alone"
	// The weights of the classes: the flood has a right to a fifth.
	weight, floodWeight = 4, 1
	// wantFlood is how many times its rate a flood is at least, to be held to that.
	wantFlood = 2
	// What is required: p99 beside the flood to p99 alone, and by how much a rate may be missed.
	wantBeside = 3
	wantRate   = 0.05
)

// classes are the classes that the sidesteps are given, as YAML; rated: that of the flood has a rate.
func (o options) classes(rated bool) string {
	rate := ""
	if rated {
		rate = fmt.Sprintf(", rate: %g", o.floodRate)
	}
	return fmt.Sprintf("[{name: default, weight: %d}, {name: %s, weight: %d, match: {opaque_id_prefix: %s}%s}]", weight, floodClass, floodWeight, floodClass, rate)
}

// withAlone adds to each arm one that takes turns without the flood, if there is one.
func (o options) withAlone(arms []arm) []arm {
	if o.flood == 0 {
		return arms
	}
	for _, a := range slices.Clone(arms) {
		if a.name != armRate {
			a.name += alone
			a.alone = true
			arms = append(arms, a)
		}
	}
	return arms
}

// aggregation returns the searches of the flood.
func aggregation(int) func(int) *http.Request {
	return func(int) *http.Request {
		r := harness.Aggregation(index)
		r.Header.Set("X-Opaque-Id", floodClass)
		return r
	}
}

// flooded is what came of a flood, with that of the lead-in: what is let pass now may have come then.
type flooded struct {
	sent, answered, refused int64
	took                    time.Duration // until its last client had an answer, or had left
}

// of adds up what came of the lead-in, and of the turn.
func (f *flooded) of(lead time.Duration, led, counted *loadgen.Result) {
	f.sent, f.answered, f.refused = led.Sent+counted.Sent, led.OK+counted.OK, led.Refused+counted.Refused
	f.took = lead + counted.Elapsed()
}

// startFlood starts the flood beside a turn of an arm, and returns what waits for its end.
func (s *stage) startFlood(ctx context.Context, targets []string, a arm) func() (flooded, error) {
	var f flooded
	if s.floodSends == 0 || a.alone {
		return func() (flooded, error) { return f, nil }
	}
	done := make(chan error, 1)
	go func() {
		sent, err := s.pair(ctx, targets, stream{s.floodSends, aggregation}, 0)
		if err == nil {
			f.of(s.lead, sent.led, sent.counted)
		}
		done <- err
	}()
	return func() (flooded, error) { err := <-done; return f, err }
}

// aboutFlood says what the flood is.
func (r *report) aboutFlood() string {
	return fmt.Sprintf("Beside the turns comes a flood: aggregations over all documents, of which the nodes answer %.0f a second in a closed loop as above. They come at %g × that, %.0f a second, and have a class of their own\n"+
		"with a weight of %d, the others one of %d. **rate** is auto, and lets %g of them pass a second. Turns named%s have no flood. The columns of the first table are of the other searches, but those of what is counted by search, and the rejections. What is told of the flood is of lead-in and turn, until its last client had left.\n",
		r.floodCapacity, r.flood, r.flood*r.floodCapacity, floodWeight, weight, r.floodRate, alone)
}

// floodRate returns the searches of the flood that were answered, per second.
func floodRate(t turn) float64 {
	if t.flood.sent == 0 {
		return 0
	}
	return float64(t.flood.answered) / t.flood.took.Seconds()
}

func floodRefused(t turn) float64 { return float64(t.flood.refused) / max(1, float64(t.flood.sent)) }

// besideFlood returns the tallies beside the flood, each with that of the same arm alone, nil if there is none.
func (l *level) besideFlood() [][2]*tally {
	var pairs [][2]*tally
	for _, t := range l.arms {
		if !strings.HasSuffix(t.arm, alone) {
			pairs = append(pairs, [2]*tally{t, l.of(t.arm + alone)})
		}
	}
	return pairs
}

// floodTable compares the turns beside the flood with those alone; empty: there is no flood.
func (r *report) floodTable(l *level) string {
	if r.flood == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| arm | p50 alone | p50 beside | to alone | p99 alone | p99 beside | to alone | in time, of alone | flood answered, /s | of its capacity | flood refused |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, pair := range l.besideFlood() {
		beside, single := pair[0], pair[1]
		if single == nil { // that of the arm rate
			single = l.of(armAuto + alone)
		}
		if single == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %s | %.0f | %.0f | %s | %s | %.1f | %.2f | %.3f |\n", beside.arm, single.median(p50), beside.median(p50), beside.to(single, p50),
			single.median(p99), beside.median(p99), beside.to(single, p99), beside.to(single, goodput), beside.median(floodRate), beside.median(floodRate)/r.floodCapacity, beside.median(floodRefused))
	}
	return b.String() + "\n"
}

// judgeFlood says what admission is held to beside a flood.
func (r *report) judgeFlood(l *level) []bootstrap.Verdict {
	if r.flood == 0 {
		return nil
	}
	var verdicts []bootstrap.Verdict
	if auto, single := l.of(armAuto), l.of(armAuto+alone); auto != nil && single != nil {
		tail := auto.to(single, p99)
		verdicts = append(verdicts, bootstrap.Verdict{
			About: fmt.Sprintf("p99 of auto beside the flood to alone %s, at most %d, and as many in time: %s", tail, wantBeside, auto.to(single, goodput)),
			Holds: tail.Value > 0 && tail.Value <= wantBeside && auto.to(single, goodput).Value >= 1/(1+bootstrap.Noise),
			Open:  tail.Low <= wantBeside && tail.High > wantBeside,
		})
	}
	if rated := l.of(armRate); rated != nil {
		answered := rated.median(floodRate)
		off := answered/r.floodRate - 1
		verdicts = append(verdicts, bootstrap.Verdict{
			About: fmt.Sprintf("%.1f searches of the flood answered a second, its rate is %g, within %g of that", answered, r.floodRate, wantRate),
			Holds: off <= wantRate && off >= -wantRate,
		})
	}
	return verdicts
}
