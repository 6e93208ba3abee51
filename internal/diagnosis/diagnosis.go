// Package diagnosis keeps how the nodes did lately, and records what happens on a
// node at the moment it gets into trouble: sidestep sees that first. What is
// recorded is lined up on a time axis, and a cause is named with the evidence for
// it. It works in the background only: nothing here is on the way of a request.
package diagnosis

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/cluster"
)

// Options configures [New].
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Source is where a [Recorder] learns of the nodes. A reload replaces it.
type Source struct {
	// Read returns what is known of each node now.
	Read func() []Reading
	// Snapshot returns what is known of the cluster, nil if nothing is.
	Snapshot func() *cluster.Snapshot
	// Seeds are asked where nodes have no address of their own.
	Seeds []*url.URL
	// Client asks the nodes, with sidestep's own account.
	Client *http.Client
}

// Recorder keeps the history and the records of spikes. Make it with [New].
type Recorder struct {
	o       Options
	history *History
	source  atomic.Pointer[Source]
	wake    chan struct{}

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New returns a recorder that is not started yet.
func New(o Options) *Recorder {
	return &Recorder{o: o, history: NewHistory(), wake: make(chan struct{}, 1), cancel: func() {}}
}

// Use makes s the source from now on.
func (r *Recorder) Use(s Source) { r.source.Store(&s) }

// Start begins to work in the background, until ctx ends or [Recorder.Stop]. It is
// called once, after the first Use.
func (r *Recorder) Start(ctx context.Context) {
	ctx, r.cancel = context.WithCancel(ctx)
	r.done.Go(func() { r.watch(ctx) })
}

// Stop ends the background work and waits for it.
func (r *Recorder) Stop() {
	r.cancel()
	r.done.Wait()
}

// Look says that the state of a node changed. It never blocks.
func (r *Recorder) Look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// History returns the history, to be fed with polls and probes and to be read.
func (r *Recorder) History() *History { return r.history }

// watch looks at the nodes every second, and whenever one changes its state.
func (r *Recorder) watch(ctx context.Context) {
	tick := time.NewTicker(grain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.history.add(r.source.Load().Read(), time.Now())
		case <-r.wake:
		}
	}
}
