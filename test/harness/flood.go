package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Flood is a client that asks one node for more than it can do.
type Flood struct {
	Index string
	// Shards of the index that the node holds copies of, as a comma list.
	Shards string
	// Waiting is how many searches wait for an answer at the same time.
	Waiting int
	// Pause is between the end of a search of a client and its next.
	Pause time.Duration
	// Body of a search.
	Body string
}

// Flooded tells what came of a [Flood].
type Flooded struct {
	Answered, Rejected atomic.Int64

	failure atomic.Pointer[error] // what a client ended of
}

// Flood sends searches to this node, past its proxy, that no other node can serve,
// until the function returned is called.
func (n *Node) Flood(ctx context.Context, f Flood) (came *Flooded, end func(context.Context) error) {
	came = &Flooded{}
	ctx, cancel := context.WithCancel(ctx)
	transport := &http.Transport{MaxIdleConnsPerHost: f.Waiting}
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	var wg sync.WaitGroup
	for range f.Waiting {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := n.floodOnce(ctx, client, f, came); err != nil && ctx.Err() == nil {
					came.failure.Store(&err)
					return
				}
				_ = Pause(ctx, f.Pause)
			}
		})
	}
	return came, func(context.Context) error {
		cancel()
		wg.Wait()
		transport.CloseIdleConnections()
		if err := came.failure.Load(); err != nil {
			return fmt.Errorf("flood %s: %w", n.Name, *err)
		}
		return nil
	}
}

func (n *Node) floodOnce(ctx context.Context, client *http.Client, f Flood, came *Flooded) error {
	query := url.Values{"preference": {"_shards:" + f.Shards + "|_only_nodes:" + n.ID}, "request_cache": {"false"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		n.DirectURL+"/"+url.PathEscape(f.Index)+"/_search?"+query.Encode(), strings.NewReader(f.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	head, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	err = errors.Join(err, res.Body.Close())
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable || strings.Contains(string(head), "rejected_execution"):
		came.Rejected.Add(1)
		return nil
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %.300s", res.StatusCode, head)
	}
	came.Answered.Add(1)
	return nil
}
