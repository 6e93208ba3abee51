package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// Calm sends a load to a cluster that nothing is done to, and returns the records that
// sidestep makes of it meanwhile: there are to be none.
func (s *Stage) Calm(ctx context.Context, rate float64, lasts time.Duration) ([]Claim, *loadgen.Result, error) {
	if err := s.settle(ctx); err != nil {
		return nil, nil, err
	}
	spikes := s.Spikes()
	before, err := spikes.Look(ctx, time.Now())
	if err != nil {
		return nil, nil, err
	}
	load := StartLoad(ctx, rate, s.Sidestep.URL)
	_ = harness.Pause(ctx, lasts)
	result, err := load.End()
	if err != nil {
		return nil, result, err
	}
	now, err := spikes.Look(ctx, time.Now())
	if err != nil {
		return nil, result, err
	}
	var made []Claim
	for _, c := range now {
		if !slices.ContainsFunc(before, func(b Claim) bool { return b.Record == c.Record }) {
			made = append(made, c)
		}
	}
	return made, result, ctx.Err()
}

// String is a record in a line.
func (c Claim) String() string { return fmt.Sprintf("%s %s: %s", c.Node, c.Cause, c.Text) }
