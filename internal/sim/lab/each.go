package lab

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// each calls f for each number below count, so many at a time as there are workers (0: CPUs), and take with what it returned,
// in order. It ends early when ctx ends, or with the error of take.
func each[T any](ctx context.Context, count, workers int, f func(i int) T, take func(i int, r T) error) error {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	results := make([]chan T, count)
	for i := range results {
		results[i] = make(chan T, 1)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range min(workers, count) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < count && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				results[i] <- f(i)
			}
		})
	}
	for i, result := range results {
		select {
		case r := <-result:
			if err := take(i, r); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
