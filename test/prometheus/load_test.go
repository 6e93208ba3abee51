package prometheus

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"sidestep/internal/app"
)

// client sends requests without pause until it is stopped.
type client struct {
	http   *http.Client
	url    string
	lines  []string // methods and paths
	every  time.Duration
	quit   context.CancelFunc
	active sync.WaitGroup
}

// maxWaiting bounds the requests of a client that wait at the same time.
const maxWaiting = 16

// load sends the requests given, one after the other, to a until the test ends.
func (f *fleet) load(a *app.App, every time.Duration, lines ...string) {
	f.loadFor(20*time.Second, a, every, lines...)
}

// loadFor is load by a client that leaves after patience.
func (f *fleet) loadFor(patience time.Duration, a *app.App, every time.Duration, lines ...string) {
	f.loadAt("http://"+a.DataAddr().String(), patience, every, lines...)
}

// loadAt is load of any server.
func (f *fleet) loadAt(url string, patience, every time.Duration, lines ...string) {
	ctx, quit := context.WithCancel(f.t.Context())
	c := &client{
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxWaiting}, Timeout: patience},
		url:  url, lines: lines, every: every, quit: quit,
	}
	f.clients = append(f.clients, c)
	c.active.Go(func() { c.run(ctx) })
	f.t.Cleanup(c.stop)
}

func (c *client) run(ctx context.Context) {
	waiting := make(chan struct{}, maxWaiting)
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case waiting <- struct{}{}:
			c.active.Go(func() {
				c.send(ctx, c.lines[i%len(c.lines)])
				<-waiting
			})
		default: // what cannot be sent now is not
		}
	}
}

// send makes one request. How it ends is what the metrics tell.
func (c *client) send(ctx context.Context, line string) {
	method, path, _ := strings.Cut(line, " ")
	body := ""
	switch {
	case strings.HasSuffix(path, "_msearch"):
		body = "{\"index\":\"logs\"}\n{\"query\":{\"match_all\":{}}}\n{\"index\":\"one\"}\n{}\n"
	case strings.HasSuffix(path, "_bulk"):
		body = strings.Repeat("{\"index\":{}}\n{}\n", 10)
	case method == http.MethodPut:
		body = "{}"
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	response, err := c.http.Do(r)
	if err != nil {
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
}

// stop ends the requests.
func (c *client) stop() {
	c.quit()
	c.active.Wait()
	c.http.CloseIdleConnections()
}
