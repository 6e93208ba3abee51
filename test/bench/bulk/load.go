package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

const (
	distinct = 64 // bodies that the clients take in turn
	// fillBulk is how many of them make one bulk while an index is filled, fillClients
	// how many clients do that.
	fillBulk    = 5
	fillClients = 6
	// patience is longer than any bulk takes.
	patience = time.Minute
)

// newBodies makes bulks of so many log lines without ids, of about 300 bytes each.
func newBodies(documents int) [][]byte {
	random := rand.New(rand.NewPCG(1, 7))
	words := harness.Words()
	bodies := make([][]byte, distinct)
	for i := range bodies {
		var b bytes.Buffer
		for range documents {
			message := ""
			for len(message) < 170 {
				message += words[random.IntN(len(words))] + " "
			}
			fmt.Fprintf(&b, "{\"index\":{}}\n{\"@timestamp\":%d,\"level\":%q,\"host\":\"host-%02d.example.org\",\"status\":%d,\"message\":%q}\n",
				1_790_000_000_000+random.Int64N(86_400_000), []string{"debug", "info", "warn", "error"}[random.IntN(4)],
				random.IntN(40), 200+random.IntN(300), message)
		}
		bodies[i] = b.Bytes()
	}
	return bodies
}

// bulkOf returns the bulk of an index with that body.
func bulkOf(index string, body []byte) *http.Request {
	return harness.Post("/"+index+"/_bulk", "application/x-ndjson", body)
}

// items counts what came of operations.
type items struct{ stored, rejected, failed atomic.Int64 }

// clerk is a transport that reads what the answers say of the operations.
type clerk struct {
	items
	base      http.RoundTripper
	documents int64 // of each bulk
}

func (c *clerk) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if res.StatusCode < http.StatusBadRequest {
		c.count(body)
		res.Body = http.NoBody // nothing in it is for the load generator
	}
	return res, nil
}

// headLength is more than what stands before the items of an answer.
const headLength = 100

// count reads an answer.
func (c *clerk) count(body []byte) {
	if bytes.Contains(body[:min(len(body), headLength)], []byte(`"errors":false`)) {
		c.stored.Add(c.documents)
		return
	}
	var answer struct {
		Items []map[string]struct{ Status int }
	}
	if json.Unmarshal(body, &answer) != nil {
		c.failed.Add(c.documents)
		return
	}
	for _, item := range answer.Items {
		for _, of := range item {
			switch {
			case of.Status < http.StatusMultipleChoices:
				c.stored.Add(1)
			case of.Status == http.StatusTooManyRequests:
				c.rejected.Add(1)
			default:
				c.failed.Add(1)
			}
		}
	}
}

// turn is what came of one turn of an arm.
type turn struct {
	perSecond        float64 // documents that were acknowledged
	p50, p99         time.Duration
	result           *loadgen.Result
	stored           int64 // documents
	rejected, failed int64 // items
	requests         float64
	counted          bool // requests are known
}

// send has an arm write for a while.
func (s *stage) send(ctx context.Context, a arm, d time.Duration) (turn, error) {
	base := loadgen.NewTransport(s.connections)
	defer base.CloseIdleConnections()
	c := &clerk{base: base, documents: int64(s.documents)}
	from := s.random.IntN(distinct)
	before, known := s.shardRequests(ctx, a.index)
	result, err := loadgen.Run(ctx, loadgen.Options{
		Targets: a.targets, Connections: s.connections, Duration: d, Timeout: patience, Transport: c,
		Request: func(i int) *http.Request { return bulkOf(a.index, s.bodies[(from+i)%distinct]) },
	})
	if err != nil {
		return turn{}, fmt.Errorf("%s: %w", a.name, err)
	}
	after, still := s.shardRequests(ctx, a.index)
	t := turn{
		result: result, stored: c.stored.Load(), rejected: c.rejected.Load(), failed: c.failed.Load(), counted: known && still,
		p50: result.Quantile(0.5), p99: result.Quantile(0.99),
	}
	t.perSecond = float64(t.stored) / result.Elapsed().Seconds()
	t.requests = perBulk(after-before, result.OK)
	return t, nil
}

// filler returns the sidestep that the index of an arm is filled through: its own, or the
// one that writes evenly.
func (s *stage) filler(a arm) *harness.Front {
	if f := s.Front(a.name); f != nil {
		return f
	}
	return s.Front(armEven)
}

// fillIndex writes so many documents, in large bulks. The first bulk through a sidestep
// only tells it of the index: the others wait until it knows.
func (s *stage) fillIndex(ctx context.Context, a arm, documents int) error {
	a.targets = []string{s.filler(a).URL}
	base := loadgen.NewTransport(fillClients)
	defer base.CloseIdleConnections()
	per := s.documents * fillBulk
	todo := atomic.Int64{}
	todo.Store(int64((documents + per - 1) / per))
	failures := make([]error, fillClients)
	var all sync.WaitGroup
	if err := s.learn(ctx, a, base); err != nil {
		return err
	}
	for i := range fillClients {
		all.Go(func() {
			for n := todo.Add(-1); n >= 0 && failures[i] == nil; n = todo.Add(-1) {
				var body []byte
				for k := range fillBulk {
					body = append(body, s.bodies[(int(n)*fillBulk+k)%distinct]...)
				}
				failures[i] = s.store(ctx, base, a, body)
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// learn sends bulks through a sidestep until one is kept on one shard.
func (s *stage) learn(ctx context.Context, a arm, base http.RoundTripper) error {
	f := s.filler(a)
	const metric = "sidestep_bulk_choices_total"
	was, err := f.Sum(ctx, metric, nil)
	if err != nil {
		return err
	}
	for range 100 {
		if err := s.store(ctx, base, a, s.bodies[0]); err != nil {
			return err
		}
		now, err := f.Sum(ctx, metric, nil)
		if err != nil || now > was {
			return err
		}
		if err := harness.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: no bulk on %s goes to one shard", a.name, a.index)
}

// store sends one bulk, all of which must be stored.
func (s *stage) store(ctx context.Context, base http.RoundTripper, a arm, body []byte) error {
	c := &clerk{base: base, documents: 1}
	r := bulkOf(a.index, body).WithContext(ctx)
	target, err := url.Parse(a.targets[rand.IntN(len(a.targets))])
	if err != nil {
		return err
	}
	r.URL.Scheme, r.URL.Host = target.Scheme, target.Host
	res, err := c.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("fill %s: %w", a.index, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 300))
	if err != nil {
		return fmt.Errorf("fill %s: %w", a.index, err)
	}
	if res.StatusCode != http.StatusOK || c.rejected.Load()+c.failed.Load() > 0 {
		return fmt.Errorf("fill %s: status %d, %d items rejected, %d failed: %s", a.index, res.StatusCode, c.rejected.Load(), c.failed.Load(), text)
	}
	return nil
}
