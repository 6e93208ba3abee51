package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/test/harness"
)

const (
	// inFlight is how many requests may be under way; a request that finds no room is
	// not sent, and counted.
	inFlight = 512
	// patience is how long a client that does not abort waits.
	patience = 30 * time.Second
	// abortAfter is the longest that a client waits that aborts.
	abortAfter = 30 * time.Millisecond
	// aborting is the share of clients that abort.
	aborting = 0.15
	// mayFail is the share of the requests that may fail. Nodes are killed, or their proxies
	// restart, for 40 % of the time: of a proxy that sends to all in turn and nothing twice,
	// 8 % fail. Through sidestep 5 of 295,000 did in one run: of bodies above heldBody, which it cannot send again.
	mayFail = 0.001
	// heldBody is the default of limits.held_body: larger bodies are streamed.
	heldBody = 1 << 20
	// examples is how many errors of each kind are kept word by word.
	examples = 5
)

// request is what a client sends.
type request struct {
	method, path string
	body         []byte
}

// load sends requests at a fixed rate.
type load struct {
	host      string         // host:port
	sidestep  *harness.Front // nil: failures are told without their records
	options   options
	transport *http.Transport
	client    *http.Client
	aborts    []func(context.Context, *rand.Rand, net.Conn) error

	sent, ok, aborted, busy, unsent, named atomic.Int64

	mu     sync.Mutex
	failed map[string]int64 // by what went wrong
	told   []string
}

func newLoad(url string, sidestep *harness.Front, o options) *load {
	l := &load{host: strings.TrimPrefix(url, "http://"), sidestep: sidestep, options: o, failed: map[string]int64{}}
	l.transport = &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	l.client = &http.Client{Transport: l.transport, Timeout: patience}
	l.aborts = []func(context.Context, *rand.Rand, net.Conn) error{l.abortWaiting, l.abortAnswer, l.abortBody}
	return l
}

// run sends requests for the duration, and returns when none is under way.
func (l *load) run(ctx context.Context) {
	rng := rand.New(rand.NewPCG(l.options.seed, 3))
	slots := make(chan struct{}, inFlight)
	var sending sync.WaitGroup
	defer sending.Wait()
	begin := time.Now()
	for i := 0; ; i++ {
		due := time.Duration(float64(i) * float64(time.Second) / l.options.rate)
		if due >= l.options.duration || harness.Pause(ctx, time.Until(begin.Add(due))) != nil {
			return
		}
		one := rand.New(rand.NewPCG(rng.Uint64(), 4))
		select {
		case slots <- struct{}{}:
			sending.Go(func() {
				l.busy.Add(1)
				l.send(ctx, one)
				l.busy.Add(-1)
				<-slots
			})
		default:
			l.unsent.Add(1)
		}
	}
}

// close closes the connections of the clients.
func (l *load) close() { l.transport.CloseIdleConnections() }

// send is one client: it waits for its answer, or aborts.
func (l *load) send(ctx context.Context, rng *rand.Rand) {
	l.sent.Add(1)
	if rng.Float64() >= aborting {
		switch err := l.complete(ctx, draw(rng)); {
		case err == nil:
			l.ok.Add(1)
		case ctx.Err() == nil:
			l.fail(ctx, err)
		}
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.host)
	if err != nil {
		l.fail(ctx, failure{kind: "no connection", text: err.Error()})
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	l.aborted.Add(1)
	_ = l.aborts[rng.IntN(len(l.aborts))](ctx, rng, conn) // sidestep may have been first
	if tcp, ok := conn.(*net.TCPConn); ok && rng.IntN(2) == 0 {
		_ = tcp.SetLinger(0) // a reset in place of an orderly end
	}
}

// abortWaiting goes away while it waits for the answer, or soon after that came.
func (l *load) abortWaiting(ctx context.Context, rng *rand.Rand, conn net.Conn) error {
	r := draw(rng)
	if _, err := conn.Write(l.wire(r, len(r.body))); err != nil {
		return err
	}
	return harness.Pause(ctx, below(rng, abortAfter))
}

// abortAnswer goes away in the middle of a long answer.
func (l *load) abortAnswer(_ context.Context, rng *rand.Rand, conn net.Conn) error {
	r := longAnswer()
	if _, err := conn.Write(l.wire(r, len(r.body))); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, 1+rng.Int64N(20_000))
	return err
}

// abortBody goes away in the middle of its body.
func (l *load) abortBody(ctx context.Context, rng *rand.Rand, conn net.Conn) error {
	declared := 1000 + rng.IntN(2*heldBody)
	r := search(wide, 10, rng.IntN(declared))
	if _, err := conn.Write(l.wire(r, declared)); err != nil {
		return err
	}
	return harness.Pause(ctx, below(rng, abortAfter))
}

// wire is r as it is sent, with a body of which the length is said to be declared.
func (l *load) wire(r request, declared int) []byte {
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		r.method, r.path, l.host, contentType(r), declared)
	return append([]byte(head), r.body...)
}

func contentType(r request) string {
	if strings.HasSuffix(r.path, "_msearch") {
		return "application/x-ndjson"
	}
	return "application/json"
}

// below draws a time.
func below(rng *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(limit)))
}

// draw returns one of the requests that there are.
func draw(rng *rand.Rand) request {
	switch n := rng.IntN(100); {
	case n < 50:
		return search(wide, 10, 0)
	case n < 70:
		return search(narrow, 10, 0)
	case n < 80:
		return request{http.MethodGet, "/" + narrow + "/_doc/1", nil}
	case n < 88:
		items := strings.Repeat(fmt.Sprintf("{\"index\":%q}\n{\"size\":5}\n", wide), 3)
		return request{http.MethodPost, "/_msearch", []byte(items)}
	case n < 93:
		return request{http.MethodGet, "/" + wide + "/_count", nil}
	case n < 96:
		return longAnswer()
	case n < 99:
		return search(wide, 10, heldBody/4)
	default:
		return search(wide, 10, heldBody+heldBody/2)
	}
}

// search is a search whose body has at least so many bytes.
func search(index string, size, atLeast int) request {
	body := fmt.Appendf(nil, "{\"size\":%d,\"query\":{\"match_all\":{}}}", size)
	if missing := atLeast - len(body); missing > 0 {
		body = append(body, bytes.Repeat([]byte{' '}, missing)...)
	}
	return request{http.MethodPost, "/" + index + "/_search", body}
}

func longAnswer() request { return search(wide, 400, 0) }

// failure is what a client that did not abort got in place of its answer.
type failure struct{ kind, text, name string }

// Error implements error.
func (f failure) Error() string { return f.kind + ": " + f.text }

// complete sends r and waits for its answer.
func (l *load) complete(ctx context.Context, r request) error {
	name := fmt.Sprintf("soak-%d", l.named.Add(1))
	if kind, text := l.exchange(ctx, r, name); kind != "" {
		return failure{kind, text, name}
	}
	return nil
}

// exchange sends r under a name, and returns what is wrong with its answer; nothing if that is good.
func (l *load) exchange(ctx context.Context, r request, name string) (kind, text string) {
	req, err := http.NewRequestWithContext(ctx, r.method, "http://"+l.host+r.path, bytes.NewReader(r.body))
	if err != nil {
		return "no request", err.Error()
	}
	req.Header.Set("Content-Type", contentType(r))
	req.Header.Set("X-Opaque-Id", name)
	resp, err := l.client.Do(req)
	if err != nil {
		return "no answer", err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	head := string(body[:min(len(body), 300)])
	switch {
	case err != nil:
		return "broken answer", err.Error()
	case resp.StatusCode != http.StatusOK:
		return fmt.Sprintf("status %d", resp.StatusCode), fmt.Sprintf("%s with a body of %d bytes: %s", r.path, len(r.body), head)
	case harness.Partial(body):
		return "partial", r.path + ": " + head
	}
	return "", ""
}

func (l *load) fail(ctx context.Context, err error) {
	f := failure{kind: "other", text: err.Error()}
	errors.As(err, &f)
	l.mu.Lock()
	l.failed[f.kind]++
	told := l.failed[f.kind] <= examples
	l.mu.Unlock()
	if !told {
		return
	}
	text := f.Error() + l.recordOf(ctx, f.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, text)
}

// recordOf returns what sidestep tells of the request with this X-Opaque-Id: its attempts.
func (l *load) recordOf(ctx context.Context, name string) string {
	if l.sidestep == nil || name == "" {
		return ""
	}
	// The record is kept a moment after the answer.
	if err := harness.Pause(ctx, 100*time.Millisecond); err != nil {
		return ""
	}
	var slow struct {
		Slow []json.RawMessage `json:"slow"`
	}
	if err := l.sidestep.AdminJSON(ctx, "/slow?limit=1000", &slow); err != nil {
		return "\n    no records: " + err.Error()
	}
	for _, r := range slow.Slow {
		if bytes.Contains(r, []byte(`"`+name+`"`)) {
			return "\n    " + string(r)
		}
	}
	return "\n    sidestep keeps no record of it"
}

// failures says how many requests failed, and how.
func (l *load) failures() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) == 0 {
		return "none"
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(l.failed)) {
		parts = append(parts, fmt.Sprintf("%s × %d", kind, l.failed[kind]))
	}
	return strings.Join(parts, ", ")
}

// check returns an error if too many requests failed.
func (l *load) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed int64
	for _, n := range l.failed {
		failed += n
	}
	ok := l.ok.Load()
	switch {
	case ok == 0:
		return errors.New("no request succeeded")
	case float64(failed) > mayFail*float64(ok+failed):
		return fmt.Errorf("%d of %d requests failed, allowed are %g %%", failed, ok+failed, 100*mayFail)
	}
	return nil
}

// progress says how far the load is.
func (l *load) progress() string {
	return fmt.Sprintf("sent %d, ok %d, aborted %d, under way %d, not sent %d, failed: %s",
		l.sent.Load(), l.ok.Load(), l.aborted.Load(), l.busy.Load(), l.unsent.Load(), l.failures())
}
