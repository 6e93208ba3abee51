package simcluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func work(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error { return sleep(ctx, d) }
}

func TestPoolServesInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{threads: 2, bound: 10}
		begin := time.Now()
		ends := make(chan time.Duration, 6)
		for range 6 {
			go func() {
				_ = p.run(t.Context(), work(time.Second))
				ends <- time.Since(begin)
			}()
			synctest.Wait()
		}
		require.Equal(t, poolStats{Threads: 2, Active: 2, Queue: 4, Largest: 2}, p.stats())
		var got []time.Duration
		for range 6 {
			got = append(got, <-ends)
		}
		s := time.Second
		require.Equal(t, []time.Duration{s, s, 2 * s, 2 * s, 3 * s, 3 * s}, got)
		synctest.Wait()
		require.Equal(t, poolStats{Threads: 2, Largest: 2, Completed: 6}, p.stats())
	})
}

func TestPoolRejectsBeyondItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{threads: 1, bound: 1}
		for range 2 {
			go func() { _ = p.run(t.Context(), work(time.Second)) }()
			synctest.Wait()
		}
		require.ErrorIs(t, p.run(t.Context(), work(time.Second)), errRejected)
		require.EqualValues(t, 1, p.stats().Rejected)
	})
}

func TestPoolFreesThePlaceOfACancelledQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{threads: 1, bound: 2}
		running, stopRunning := context.WithCancel(t.Context())
		waiting, stopWaiting := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		go func() { errs <- p.run(running, work(time.Hour)) }()
		synctest.Wait()
		go func() { errs <- p.run(waiting, work(time.Hour)) }()
		synctest.Wait()
		stopWaiting()
		require.ErrorIs(t, <-errs, context.Canceled)
		require.Zero(t, p.stats().Queue)
		stopRunning()
		require.ErrorIs(t, <-errs, context.Canceled)
		synctest.Wait()
		require.Zero(t, p.stats().Active)
		require.NoError(t, p.run(t.Context(), work(time.Second)), "the thread is free again")
	})
}
