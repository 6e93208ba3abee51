package leg

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What is made for a message that was given up is for the next one.
func TestNoHandshakeIsInVain(t *testing.T) {
	shake, goOn := context.WithCancel(t.Context())
	defer goOn()
	n := start(t, serving(), func(p *peer) {
		<-shake.Done()
		answering(hello)(p)
	})
	p := n.pool(nil)
	for range 2 {
		ctx, cancel := canceled(t)
		time.AfterFunc(5*time.Millisecond, cancel)
		_, err := p.Do(ctx, get())
		requireCanceled(t, err)
		require.True(t, NotSent(err))
	}
	m := get()
	m.Abort = &Abort{}
	time.AfterFunc(5*time.Millisecond, m.Abort.Now)
	_, err := p.Do(t.Context(), m)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, NotSent(err))
	goOn()
	require.Eventually(t, func() bool { return p.Idle() == 3 }, patience, time.Millisecond)
	ask(t, p, get())
	require.EqualValues(t, 3, n.accepted.Load())
}

// A message gets the first connection that is there, not the one that was begun for it.
func TestAMessageGetsTheFirstConnection(t *testing.T) {
	shake, goOn := context.WithCancel(t.Context())
	defer goOn()
	n := start(t, serving(), func(p *peer) {
		if p.number > 1 {
			<-shake.Done()
		}
		answering(hello)(p)
	})
	p := n.pool(nil)
	held := hold(t, p, 1)
	waits := make(chan error)
	go func() {
		resp, err := p.Do(t.Context(), get())
		if err == nil {
			err = resp.Body.Close()
		}
		waits <- err
	}()
	require.Eventually(t, func() bool { return n.accepted.Load() == 2 }, patience, time.Millisecond)
	finish(t, held[0])
	require.NoError(t, <-waits)
	goOn()
	require.Eventually(t, func() bool { return p.Idle() > 0 }, patience, time.Millisecond, "the other one is kept")
}

// dialed is a pool whose connections are made, or fail, after the given times; and how many were begun.
func dialed(dial func(number int32) (time.Duration, error)) (*Pool, *atomic.Int32) {
	dials := new(atomic.Int32)
	return New(Options{MaxIdle: 10, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		number := dials.Add(1)
		takes, err := dial(number)
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			answering(hello)(newPeer(&node{}, server, int(number)))
		}()
		return client, nil
	}}), dials
}

var errDial = errors.New("no connection")

// A message fails by a connection that was begun when it waited already; one begun for another is
// no reason.
func TestEachWaitsAsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dials := dialed(func(number int32) (time.Duration, error) {
			if number == 1 {
				return 2 * time.Second, errDial
			}
			return 500 * time.Millisecond, nil
		})
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- read(t, p) }()
		time.Sleep(100 * time.Millisecond)
		go func() { second <- read(t, p) }()
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, <-first, "by the connection of the second")
		require.NoError(t, <-second, "by that which the first gave back")
		require.EqualValues(t, 2, dials.Load())
		p.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		p, dials := dialed(func(int32) (time.Duration, error) { return time.Second, errDial })
		began := time.Now()
		failed := make(chan error)
		for range 3 {
			go func() { failed <- read(t, p) }()
		}
		for range 3 {
			err := <-failed
			require.ErrorIs(t, err, errDial)
			require.True(t, NotSent(err))
		}
		require.Equal(t, time.Second, time.Since(began))
		require.EqualValues(t, 3, dials.Load())
		p.Close()
	})
}

// Where the connection of a message went to another one, whose own fails, one more is made.
func TestNoMessageWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dials := dialed(func(number int32) (time.Duration, error) {
			if number == 1 {
				return 2 * time.Second, errDial
			}
			return 500 * time.Millisecond, nil
		})
		held := make(chan *http.Response, 1)
		go func() {
			resp, err := p.Do(t.Context(), get())
			if err != nil {
				t.Error(err)
			}
			held <- resp
		}()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		require.NoError(t, read(t, p))
		require.Equal(t, 2400*time.Millisecond, time.Since(began), "from 2 s on a third one is made")
		require.EqualValues(t, 3, dials.Load())
		finish(t, <-held)
		p.Close()
	})
}

// However many messages are given up, no more connections are made than can be kept.
func TestNotMoreConnectionsAreMadeThanAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dials := dialed(func(int32) (time.Duration, error) { return time.Second, nil })
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := p.Do(ctx, get())
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.EqualValues(t, 11, dials.Load(), "the last one waited, beside ten for nobody")
		answers := make(chan error)
		for range 3 {
			go func() { answers <- read(t, p) }()
		}
		for range 3 {
			require.NoError(t, <-answers)
		}
		p.Close()
		synctest.Wait()
		made := dials.Load()
		require.NoError(t, read(t, p))
		require.Equal(t, made+1, dials.Load(), "a closed pool makes one for each")
	})
}

// read sends a message and reads its answer.
func read(t *testing.T, p *Pool) error {
	resp, err := p.Do(t.Context(), get())
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// A message that waits while the pool is closed is sent.
func TestCloseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := dialed(func(int32) (time.Duration, error) { return time.Second, nil })
		time.AfterFunc(time.Millisecond, p.Close)
		resp, err := p.Do(t.Context(), get())
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	})
}
