package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// tellEvery is how often a sweep tells how far it is.
const tellEvery = 10 * time.Second

// SweepOptions says what to play of random scenarios.
type SweepOptions struct {
	N    int    // scenarios
	Seed uint64 // of the sweep; the seed of each scenario follows from it
	Skip int    // of the N scenarios so many first ones are left out
	Only uint64 // play the scenario of this seed alone; 0: N scenarios
	// Control plays the engine against itself with other choices of its own, in the place
	// of sidestep; there is no oracle.
	Control bool
	// Alone plays sidestep alone: the figures of the engine and the oracle are 0.
	Alone   bool
	Workers int // scenarios at a time; 0: as many as there are CPUs
	// Lines takes one JSON object a line, in order.
	Lines    io.Writer
	Out      io.Writer // takes the summary
	Progress io.Writer
	Plot     string // SVG with the ratios; empty: none
}

// Figures of the three ways in.
type Figures struct {
	Engine   float64 `json:"engine"`
	Sidestep float64 `json:"sidestep"`
	Oracle   float64 `json:"oracle"`
}

// Played is one line of a sweep. Times are in ms; a search that failed counts with the
// time after which clients give up.
type Played struct {
	Seed     uint64  `json:"seed"`
	Scenario *Draw   `json:"scenario"`
	Fault    string  `json:"fault"`
	P50      Figures `json:"p50"`
	P99      Figures `json:"p99"`
	Failed   Figures `json:"failed"`   // searches that had no complete answer
	Attempts Figures `json:"attempts"` // with those of clients that send again what no server could answer
	Ejected  int     `json:"ejected"`  // ejections of nodes that had no fault, by all sidecars
}

// seeds returns the seeds of the scenarios, small enough to be exact in JSON anywhere.
func (o *SweepOptions) seeds() []uint64 {
	if o.Only > 0 {
		return []uint64{o.Only}
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x5eed))
	out := make([]uint64, o.N)
	for i := range out {
		out[i] = 1 + rng.Uint64N(1<<40)
	}
	return out[o.Skip:]
}

// Validate tells what is wrong with the options.
func (o *SweepOptions) Validate() error {
	if o.N < 1 && o.Only == 0 {
		return fmt.Errorf("the number of scenarios must be at least 1, got %d", o.N)
	}
	if o.Skip < 0 || o.Only == 0 && o.Skip >= o.N {
		return fmt.Errorf("of %d scenarios %d cannot be left out", o.N, o.Skip)
	}
	if o.Workers < 0 {
		return fmt.Errorf("workers must be at least 1, got %d", o.Workers)
	}
	return nil
}

// Sweep plays random scenarios, writes a line for each and a summary, and returns what
// was played. It ends early, with the context's error, when ctx ends.
func Sweep(ctx context.Context, o SweepOptions) ([]Played, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	seeds, lines := o.seeds(), json.NewEncoder(o.Lines)
	var played []Played
	began := time.Now()
	told := began
	err := each(ctx, len(seeds), o.Workers, func(i int) Played { return playDrawn(seeds[i], o.Control, o.Alone) }, func(i int, p Played) error {
		if err := lines.Encode(p); err != nil {
			return fmt.Errorf("write a line: %w", err)
		}
		played = append(played, p)
		if now := time.Now(); now.Sub(told) >= tellEvery || i == len(seeds)-1 {
			told = now
			fmt.Fprintf(o.Progress, "%d of %d scenarios in %s\n", i+1, len(seeds), now.Sub(began).Round(time.Second))
		}
		return nil
	})
	if err != nil {
		return played, err
	}
	return played, o.conclude(played)
}

// Summarize prints the summary of lines that were written before, and draws the plot.
func Summarize(lines io.Reader, o SweepOptions) error {
	var played []Played
	for d := json.NewDecoder(lines); ; {
		var p Played
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read line %d: %w", len(played)+1, err)
		}
		played = append(played, p)
	}
	if len(played) == 0 {
		return errors.New("there are no lines")
	}
	for _, p := range played {
		switch {
		case p.P99.Engine == 0:
			return fmt.Errorf("seed %d: there is no figure of the engine to compare with", p.Seed)
		case p.P99.Oracle == 0 && !o.Control:
			return fmt.Errorf("seed %d: there is no figure of the oracle; lines of a control are read with --control", p.Seed)
		}
	}
	return o.conclude(played)
}

// conclude prints the summary and draws the plot.
func (o *SweepOptions) conclude(played []Played) error {
	if o.Alone { // there is nothing to compare with
		return nil
	}
	if err := printSweep(o.Out, played, o.Control); err != nil {
		return err
	}
	if o.Plot == "" {
		return nil
	}
	return plotSweep(o.Plot, played, o.Control)
}

// arm is one way in, with the seed of its own choices.
type arm struct {
	policy  policy
	choices uint64
}

// arms are the engine, what stands for sidestep, and the oracle.
func arms(d *Draw, control bool) []arm {
	rank := adaptive(arsPublished, false)
	if d.Engine == openSearch {
		rank = adaptive(arsInverted, true)
	}
	engine := policy{name: "engine", rank: rank, router: newClients}
	if control {
		return []arm{{engine, 1}, {engine, 2}}
	}
	return []arm{
		{engine, 1},
		{policy{name: "sidestep", rank: rank, router: newSidestep(variants()[0])}, 1},
		{policy{name: oracleName, rank: rank, knows: true, router: newKnowing}, 1},
	}
}

// playDrawn plays the scenario of a seed with each way in, or with the one beside the engine alone.
func playDrawn(seed uint64, control, alone bool) Played {
	d := drawScenario(seed)
	sc := d.scenario(seed)
	out := Played{Seed: seed, Scenario: d, Fault: d.fault()}
	faulty := d.faulty()
	for i, a := range arms(d, control) {
		if alone && i != 1 {
			continue
		}
		w := newWorldOf(sc, a.policy, seed, a.choices)
		m := w.run()
		*out.P50.of(i), *out.P99.of(i) = m.percentile(50), m.percentile(99)
		*out.Failed.of(i), *out.Attempts.of(i) = float64(m.failed), float64(m.attempts)
		for n, name := range w.ids {
			if !faulty[n] {
				out.Ejected += m.ejected[name]
			}
		}
	}
	return out
}

// of returns the figure of an arm by its position.
func (f *Figures) of(arm int) *float64 { return []*float64{&f.Engine, &f.Sidestep, &f.Oracle}[arm] }
