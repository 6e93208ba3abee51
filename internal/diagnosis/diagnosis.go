// Package diagnosis keeps a history of the nodes' measurements. When a node gets into
// trouble it records a spike: it reads the node's statistics, hot threads and tasks at
// that moment, puts them on one time axis and names the likely cause with its evidence.
// It works in the background only and is never on the path of a request.
package diagnosis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/cluster"
)

// Options configures [New].
type Options struct {
	// Enabled says whether spikes are recorded. Without it there is the history alone,
	// and the nodes are not asked for anything.
	Enabled bool
	// Dir is where records are kept; empty: in memory.
	Dir string
	// MaxSize bounds the records, in bytes.
	MaxSize    int64
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Source is what a [Recorder] learns the state of the nodes from. A reload replaces it.
type Source struct {
	// Read returns what is known of each node now.
	Read func() []Reading
	// Snapshot returns what is known of the cluster, nil if nothing is.
	Snapshot func() *cluster.Snapshot
	// Interval is how often each node is polled now.
	Interval func() time.Duration
	// Follows reports whether statistics come from a relay in place of the nodes.
	Follows func() bool
	// Seeds are asked about nodes whose own address is unknown.
	Seeds []*url.URL
	// Client asks the nodes, with sidestep's own account.
	Client *http.Client
}

// Recorder keeps the history and the records of spikes. Make it with [New].
type Recorder struct {
	o        Options
	history  *History
	baseline *baseline
	store    *store
	metrics  *metrics
	source   atomic.Pointer[Source]
	wake     chan struct{}
	slots    chan struct{} // one for each node that is being asked
	refused  sync.Once     // is logged

	mu    sync.Mutex
	open  map[string]*recording // by node id
	nodes []Reading             // as read last

	cancel context.CancelFunc
	done   sync.WaitGroup
	saving sync.WaitGroup
	finish context.CancelFunc
}

// complainEvery is the least time between two log lines that say the same.
const complainEvery = 10 * time.Minute

// New returns a recorder that is not started yet.
func New(o Options) *Recorder {
	m := newMetrics(o.Registerer)
	r := &Recorder{
		o: o, history: NewHistory(), baseline: newBaseline(), store: newStore(o, m), metrics: m,
		wake: make(chan struct{}, 1), slots: make(chan struct{}, maxAtOnce),
		open: map[string]*recording{}, cancel: func() {}, finish: func() {},
	}
	o.Registerer.MustRegister(newTrouble(r))
	return r
}

// Use makes s the source from now on.
func (r *Recorder) Use(s Source) { r.source.Store(&s) }

// Start begins to work in the background, until ctx ends or [Recorder.Stop]. It is
// called once, after the first Use.
func (r *Recorder) Start(ctx context.Context) {
	var working, saving context.Context
	working, r.cancel = context.WithCancel(ctx)
	saving, r.finish = context.WithCancel(context.WithoutCancel(ctx))
	r.done.Go(func() { r.watch(working) })
	if r.o.Enabled {
		r.done.Go(func() { r.readBaselines(working) })
		r.saving.Go(func() { r.store.run(saving) })
	}
}

// Stop ends the background work, closes the open records, of which it sees no other end, and
// waits until they are saved. It returns an error if ctx ends first.
func (r *Recorder) Stop(ctx context.Context) error {
	r.cancel()
	r.done.Wait()
	r.mu.Lock()
	for id, open := range r.open {
		if open.lasts() {
			open.record.ends(time.Now())
		}
		r.close(id, open)
	}
	r.mu.Unlock()
	r.finish()
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		r.saving.Wait()
	}()
	select {
	case <-saved:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("diagnosis.dir does not take them: %w", ctx.Err())
	}
}

// Look has the recorder read the nodes' states at once, as one has changed. It never
// blocks.
func (r *Recorder) Look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// History returns the history, which polls and probes are added to.
func (r *Recorder) History() *History { return r.history }

// Spikes lists the records, the newest first.
func (r *Recorder) Spikes() Spikes {
	r.mu.Lock()
	all := slices.DeleteFunc(r.store.spikes(), func(s Spike) bool { // what is kept of one that lasts
		open := r.open[s.NodeID]
		return open != nil && open.record.ID == s.ID
	})
	for _, open := range r.open {
		all = append(all, open.record.Spike)
	}
	r.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Spike) int {
		return cmp.Or(b.Began.Compare(a.Began.Time), strings.Compare(a.ID, b.ID))
	})
	return Spikes{Spikes: all, Off: !r.o.Enabled}
}

// Spike returns a whole record; false if there is none of this id.
func (r *Recorder) Spike(id string) (*Record, bool) {
	r.mu.Lock()
	if open := r.opened(id); open != nil {
		record, sampled := open.record, open.sampled // a shallow copy: slices are only appended to, or replaced
		r.mu.Unlock()
		if !sampled {
			record.Samples = r.samples(&record)
		}
		return &record, true
	}
	r.mu.Unlock()
	c, ok := r.store.get(id)
	return c.Record, ok
}

// opened returns the open record of this id, nil if there is none. r.mu is held.
func (r *Recorder) opened(id string) *recording {
	for _, open := range r.open {
		if open.record.ID == id {
			return open
		}
	}
	return nil
}

// Folded returns the stacks of a record's hot threads, folded; false if there is no
// record of this id.
func (r *Recorder) Folded(id string) (string, bool) {
	r.mu.Lock()
	if open := r.opened(id); open != nil {
		defer r.mu.Unlock()
		return foldedText(open.folded), true
	}
	r.mu.Unlock()
	c, ok := r.store.get(id)
	return c.Folded, ok
}
