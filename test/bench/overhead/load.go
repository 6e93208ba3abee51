package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const searchBody = `{"query":{"match":{"title":"sidestep"}}}`

// client is one connection that sends the same search again and again. It is
// deliberately thin: its own cost is in every figure.
type client struct {
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
}

func dial(ctx context.Context, p peer, size int) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	request := strings.Join([]string{
		"POST " + searchPath(size, p.preference) + " HTTP/1.1", "Host: " + p.addr, "Content-Type: application/json",
		fmt.Sprintf("Content-Length: %d", len(searchBody)), "", searchBody,
	}, "\r\n")
	return &client{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), request: []byte(request)}, nil
}

func (c *client) search() error {
	if err := c.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	if resp.Close {
		return errors.New("the connection is not kept")
	}
	return nil
}

// latency returns the p50 of searches one after the other over one connection.
func latency(ctx context.Context, p peer, size int, window time.Duration) (time.Duration, error) {
	c, err := dial(ctx, p, size)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	var took []time.Duration
	for end := time.Now().Add(window); time.Now().Before(end) && ctx.Err() == nil; {
		start := time.Now()
		if err := c.search(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	if len(took) == 0 {
		return 0, context.Cause(ctx)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// saturate sends searches over n connections as fast as they are answered and
// returns how many were.
func saturate(ctx context.Context, p peer, size, n int, window time.Duration) (int64, error) {
	var done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	end := time.Now().Add(window)
	for i := range n {
		wg.Go(func() {
			c, err := dial(ctx, p, size)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.conn.Close()
			for time.Now().Before(end) && ctx.Err() == nil {
				if errs[i] = c.search(); errs[i] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return done.Load(), errors.Join(errs...)
}
