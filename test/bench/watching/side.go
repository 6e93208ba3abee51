package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// side is one of the two sidesteps.
type side struct {
	name      string
	front     *harness.Front
	transport *http.Transport
	watched   bool // in its turns
}

// watch has a page and a Prometheus look at the side that watches, until the function
// returned is called.
func (s *side) watch(ctx context.Context) (stop func()) {
	if !s.watched {
		return func() {}
	}
	looking, look := context.WithCancel(ctx)
	var lookers sync.WaitGroup
	lookers.Go(func() { follow(looking, s.front.AdminURL+"/events") })
	lookers.Go(func() { scrape(looking, s.front.AdminURL+"/metrics") })
	return func() {
		look()
		lookers.Wait()
	}
}

const off = `
diagnosis: {enabled: false}
logs: {slow: {threshold: 0s}}
`

// on is formatted with a folder and the address of the receiver of traces.
const on = `
diagnosis: {dir: %[1]s/records}
tracing: {endpoint: %[2]q, sample_ratio: 0.01}
logs:
  slow: {threshold: 100ms, output: %[1]s/slow.log}
  access: {output: %[1]s/access.log}
`

const body = `{"size":10,"query":{"match_all":{}}}`

func search(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/"+index+"/_search", strings.NewReader(body))
	if err != nil {
		panic(err) // of constants
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// startSides starts both.
func startSides(ctx context.Context, binary string, nodes []string) (sides []*side, stop func(), err error) {
	dir, err := os.MkdirTemp("", "sidestep-watching-")
	if err != nil {
		return nil, nil, err
	}
	var traces atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		traces.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	stage := harness.Stage{Binary: binary}
	stop = func() {
		for _, s := range sides {
			s.transport.CloseIdleConnections()
		}
		if failure := stage.Close(err != nil); failure != nil {
			fmt.Fprintln(os.Stderr, failure)
		}
		receiver.Close()
		_ = os.RemoveAll(dir)
		fmt.Fprintf(os.Stderr, "batches of traces received: %d\n", traces.Load())
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	for _, one := range []struct {
		name, text string
		watched    bool
	}{{"off", off, false}, {"everything on", fmt.Sprintf(on, dir, receiver.URL), true}} {
		f, err := stage.StartSidestep(ctx, harness.Sidestep{Name: one.name, Config: one.text, Upstreams: nodes})
		if err != nil {
			return sides, stop, err
		}
		sides = append(sides, &side{name: one.name, front: f, transport: loadgen.NewTransport(512), watched: one.watched})
	}
	return sides, stop, stage.AwaitReady(ctx)
}

// follow reads the events of the page until ctx ends, as an open page does.
func follow(ctx context.Context, url string) {
	for ctx.Err() == nil {
		_ = read(ctx, url)
	}
}

// scrape reads the metrics each second until ctx ends.
func scrape(ctx context.Context, url string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := read(ctx, url); err != nil && !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, "scrape:", err)
			}
		}
	}
}

func read(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}
