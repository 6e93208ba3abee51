package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sidestep/internal/bulk"
	"sidestep/test/harness"
	"sidestep/test/machine"
)

// repairLimit bounds the end of a fault.
const repairLimit = 2 * time.Minute

// outcome is what came of one case.
type outcome struct {
	scenario scenario
	layout   layout
	slow     string // the node that was degraded
	arms     []*tally
	usage    machine.Usage
	// notes are what was unexpected.
	notes []string
}

// tally is what came of one arm.
type tally struct {
	arm     string
	turns   []turn
	added   int64     // documents, with those of the turn that does not count
	began   []float64 // documents of each shard at the beginning
	ended   []float64
	choices map[bulk.Choice]float64 // of aware, from the fault on
}

// measure runs a case. The node is repaired when it returns.
func (s *stage) measure(ctx context.Context, sc scenario) (*outcome, error) {
	o := &outcome{scenario: sc, slow: s.nodes[0].Name, layout: newLayout(sc.role, harness.NodeNames(s.nodes))}
	if err := s.prepare(ctx, o.layout, int(s.fill*s.perCase)); err != nil {
		return nil, err
	}
	for _, a := range s.arms {
		documents, err := s.documentsOf(ctx, a.index)
		if err != nil {
			return nil, err
		}
		o.arms = append(o.arms, &tally{arm: a.name, began: documents})
	}
	if err := s.degraded(ctx, o, s.nodes[0]); err != nil {
		return nil, err
	}
	if err := s.verify(ctx, o.layout); errors.Is(err, errMoved) {
		o.notes = append(o.notes, err.Error())
		s.laidOut = layout{} // the next case needs it as it was
	} else if err != nil {
		return nil, err
	}
	for i, a := range s.arms {
		t := o.arms[i]
		documents, err := s.documentsOf(ctx, a.index)
		if err != nil {
			return nil, err
		}
		t.ended = documents
		if began := sum(t.began); sc.begin != nil && began < s.fill*float64(t.added) {
			o.notes = append(o.notes, fmt.Sprintf("%s added %d documents to %.0f: less than %g times as many", t.arm, t.added, began, s.fill))
		}
	}
	return o, nil
}

// degraded runs the rounds while a node is degraded.
func (s *stage) degraded(ctx context.Context, o *outcome, slow *harness.Node) (err error) {
	if o.scenario.begin != nil {
		if err := o.scenario.begin(slow); err != nil {
			return err
		}
		defer func() {
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairLimit)
			defer cancel()
			err = errors.Join(err, o.scenario.repair(limited, slow))
		}()
	}
	before, err := s.choices(ctx)
	if err != nil {
		return err
	}
	began := machine.ReadUsage()
	for round := range s.rounds + 1 { // the first does not count
		for _, i := range s.random.Perm(len(s.arms)) {
			length := s.turn
			if round == 0 {
				length = s.settle
			}
			if length <= 0 {
				continue
			}
			t, err := s.send(ctx, s.arms[i], length)
			if err != nil {
				return err
			}
			o.arms[i].added += t.stored
			if round > 0 {
				o.arms[i].turns = append(o.arms[i].turns, t)
			}
		}
		s.progress(round, o)
	}
	o.usage.Add(began, machine.ReadUsage())
	after, err := s.choices(ctx)
	if err != nil {
		return err
	}
	for _, t := range o.arms {
		if t.arm == armAware {
			t.choices = map[bulk.Choice]float64{}
			for _, c := range bulk.Choices() {
				t.choices[c] = after[c] - before[c]
			}
		}
	}
	return nil
}

// choices counts how the aware sidestep chose shards.
func (s *stage) choices(ctx context.Context) (map[bulk.Choice]float64, error) {
	counts := map[bulk.Choice]float64{}
	for _, c := range bulk.Choices() {
		n, err := s.Front(armAware).Sum(ctx, "sidestep_bulk_choices_total", map[string]string{"choice": string(c)})
		if err != nil {
			return nil, err
		}
		counts[c] = n
	}
	return counts, nil
}

// progress tells what the round gave.
func (s *stage) progress(round int, o *outcome) {
	if round == 0 {
		return
	}
	var text strings.Builder
	for _, t := range o.arms {
		last := t.turns[len(t.turns)-1]
		fmt.Fprintf(&text, "  %s %.0f/s %.0f ms", t.arm, last.perSecond, harness.Milliseconds(last.p99))
		if lost := last.result.Failed + last.rejected + last.failed; lost > 0 {
			fmt.Fprintf(&text, " (%d lost)", lost)
		}
	}
	s.logf("  round %d, documents/s and p99:%s", round, text.String())
}
