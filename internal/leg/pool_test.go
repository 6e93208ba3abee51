package leg

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// piped is a pool of connections within the program, on virtual time. Each is served
// by serve.
func piped(o Options, serve func(p *peer)) *Pool {
	n := &node{}
	o.Dial = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		number := int(n.accepted.Add(1))
		n.open.Add(1)
		go func() {
			defer server.Close()
			serve(newPeer(n, server, number))
		}()
		return client, nil
	}
	return New(o)
}

// hold sends n messages at the same time, so that n connections are in use, and
// returns their answers.
func hold(t *testing.T, p *Pool, n int) []*http.Response {
	t.Helper()
	var held []*http.Response
	for range n {
		resp, err := p.Do(get())
		require.NoError(t, err)
		held = append(held, resp)
	}
	return held
}

// kept returns the number of idle connections.
func (p *Pool) kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

func finish(t *testing.T, resp *http.Response) {
	t.Helper()
	_, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

func TestIdleConnectionsHaveALimit(t *testing.T) {
	n := start(t, nil, answering(hello))
	p := n.pool(func(o *Options) { o.MaxIdle = 2 })
	for _, resp := range hold(t, p, 4) {
		finish(t, resp)
	}
	require.Equal(t, 2, p.kept())
	require.Eventually(t, func() bool { return n.open.Load() == 2 }, patience, time.Millisecond)
}

func TestLastInFirstOut(t *testing.T) {
	n := start(t, nil, func(p *peer) {
		for {
			if _, ok := p.request(); !ok {
				return
			}
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + string(rune('0'+p.number)))
		}
	})
	p := n.pool(nil)
	held := hold(t, p, 3)
	for _, i := range []int{1, 2, 0} {
		finish(t, held[i])
	}
	for range 3 {
		_, body := ask(t, p, get())
		require.Equal(t, "1", body)
	}
	require.Equal(t, 3, p.kept())
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := piped(Options{MaxIdle: 10, IdleTimeout: 10 * time.Second}, answering(hello))
		held := hold(t, p, 3)
		time.Sleep(time.Minute)
		require.Equal(t, 0, p.kept())
		for _, resp := range held {
			finish(t, resp)
			time.Sleep(4 * time.Second)
		}
		synctest.Wait()
		require.Equal(t, 2, p.kept(), "the first was idle for 12 s")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, p.kept(), "the second for 10 s")
		ask(t, p, get())
		time.Sleep(9 * time.Second)
		require.Equal(t, 1, p.kept(), "the third was used")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 0, p.kept())
		time.Sleep(time.Hour)
		ask(t, p, get())
		require.Equal(t, 1, p.kept())
		p.Close()
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := piped(Options{MaxIdle: 10, IdleTimeout: time.Minute}, answering(hello))
		held := hold(t, p, 2)
		finish(t, held[0])
		p.Close()
		require.Equal(t, 0, p.kept())
		finish(t, held[1])
		require.Equal(t, 0, p.kept(), "a connection in use is closed when its answer was read")
		ask(t, p, get())
		require.Equal(t, 0, p.kept(), "messages are still sent")
		p.Close()
	}) // which fails if a goroutine is left
}

// An answer that was read to its end has nothing to do with the next one on the same
// connection.
func TestAnEndedBodyLeavesTheNextAlone(t *testing.T) {
	n := start(t, nil, answering(hello))
	p := n.pool(nil)
	first := hold(t, p, 1)[0]
	_, err := io.ReadAll(first.Body)
	require.NoError(t, err)
	second := hold(t, p, 1)[0]
	read, err := first.Body.Read(make([]byte, 10))
	require.Equal(t, 0, read)
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, first.Body.Close())
	require.NoError(t, first.Body.Close())
	_, err = first.Body.Read(make([]byte, 10))
	require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
	b, err := io.ReadAll(second.Body)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	require.EqualValues(t, 1, n.accepted.Load())
	require.Equal(t, 1, p.kept())
}

func TestCloseBeforeTheEnd(t *testing.T) {
	n := start(t, nil, answerHalf)
	p := n.pool(nil)
	resp, err := p.Do(get())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 0, p.kept())
	n.closed()
}
