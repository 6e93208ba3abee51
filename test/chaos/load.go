package chaos

import (
	"context"
	"errors"
	"net/http"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// endless is longer than any load here lasts: its end is that of its context.
const endless = time.Hour

// Load is searches on Index at a fixed rate until End.
type Load struct {
	cancel context.CancelFunc
	done   chan *loadgen.Result
	failed chan error
}

// StartLoad sends searches to targets in turn.
func StartLoad(ctx context.Context, rate float64, targets ...string) *Load {
	ctx, cancel := context.WithCancel(ctx)
	l := &Load{cancel: cancel, done: make(chan *loadgen.Result, 1), failed: make(chan error, 1)}
	go func() {
		result, err := loadgen.Run(ctx, loadgen.Options{
			Targets: targets, Rate: rate, Duration: endless,
			Request: func(i int) *http.Request { return harness.Search(Index, i) },
		})
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		l.done <- result
		l.failed <- err
	}()
	return l
}

// End ends the load and returns what came of it.
func (l *Load) End() (*loadgen.Result, error) {
	l.cancel()
	return <-l.done, <-l.failed
}
