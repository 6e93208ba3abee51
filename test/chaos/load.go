package chaos

import (
	"context"
	"errors"
	"net/http"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// endless is longer than any load here lasts.
const endless = time.Hour

// Load is searches on Index at a fixed rate until End.
type Load struct {
	stop   chan struct{}
	done   chan *loadgen.Result
	failed chan error
}

// StartLoad sends searches to targets in turn.
func StartLoad(ctx context.Context, rate float64, targets ...string) *Load {
	l := &Load{stop: make(chan struct{}), done: make(chan *loadgen.Result, 1), failed: make(chan error, 1)}
	go func() {
		result, err := loadgen.Run(ctx, loadgen.Options{
			Targets: targets, Rate: rate, Duration: endless, Stop: l.stop,
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

// End ends the load, waits for the searches under way, of which one that hangs is a failed
// one, and returns what came of all.
func (l *Load) End() (*loadgen.Result, error) {
	close(l.stop)
	return <-l.done, <-l.failed
}
