package poll

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"sidestep/internal/cluster"
)

const (
	// maxIndices bounds the names that are known, and as many that the engine does not
	// know: clients choose them.
	maxIndices = 2000
	// maxIndexName is the longest name of an index, in bytes, as in the engines.
	maxIndexName = 255
	// factsRenewal is after which time a name in use is read again although the cluster
	// state did not move, and factsPause the least time between two reads of it.
	factsRenewal = time.Minute
	factsPause   = 500 * time.Millisecond
	// factsMaxAge is how long what was read of a name is told, while it cannot be read
	// again. It is renewed after factsRenewal at the latest.
	factsMaxAge = 2 * factsRenewal
	// factsRate is how many names are asked about in a second, factsBurst how many of
	// those that came in at once.
	factsRate  = 20
	factsBurst = 200
)

// IndicesOptions configures [Indices].
type IndicesOptions[T any] struct {
	// Parse reads what the engine answered about a name: the metadata of a cluster state,
	//
	//	{"metadata":{"indices":{NAME:{"state","settings","mappings","aliases","routing_num_shards"}}}}
	//
	// An index is there whole under its own name. Of any other name (an alias, a data
	// stream) the indices behind it are there with their state, aliases and routing shards
	// alone. The body is the parser's to keep. aliases is the answer to GET /INDEX/_alias,
	// nil if there is none or it was not asked for.
	Parse func(name string, body, aliases []byte) (T, error)
	// Aliases has the aliases of an index read, too, if it has some.
	Aliases bool
}

// Indices knows what the metadata of indices says, by the names under which documents are
// written to them. It reads them in the background, with sidestep's own account and one at
// a time, whatever tells the rest of the cluster. Make it with [NewIndices].
type Indices[T any] struct {
	poller *Poller
	o      IndicesOptions[T]
	// known is replaced when a name comes or goes, so that it is read without a lock.
	known  atomic.Pointer[map[string]*indexEntry[T]]
	asking *rate.Limiter
	fresh  chan string // names that are not known
	again  chan string // names that are

	mu      sync.Mutex
	queued  map[string]bool                         // of fresh
	missing *simplelru.LRU[string, cluster.Absence] // names that are not known to the engine
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// indexEntry is a name that is known.
type indexEntry[T any] struct {
	name      string
	facts     atomic.Pointer[indexFacts[T]]
	counts    atomic.Pointer[Counts]
	wantedAt  atomic.Int64 // when the counts were last asked for; Unix seconds
	usedAt    atomic.Int64 // Unix seconds
	queued    atomic.Bool  // in again
	countedAt time.Time    // belongs to the goroutine that counts
}

// indexFacts is what was read of a name. Immutable.
type indexFacts[T any] struct {
	value   T
	uuid    string        // of the cluster
	version int64         // of the cluster state, at least
	at      time.Time     // when it was asked
	took    time.Duration // until it was answered
	tried   time.Time     // when it could not be read again
}

// outdated reports whether a name in use is to be asked about again.
func (f *indexFacts[T]) outdated(version int64, now time.Time) bool {
	age := now.Sub(f.at)
	if age < max(factsPause, costFactor*f.took) || now.Sub(f.tried) < factsPause {
		return false
	}
	return version > f.version || age >= factsRenewal
}

// NewIndices returns what is to be known of the indices of a cluster. It is not started
// yet.
func NewIndices[T any](p *Poller, o IndicesOptions[T]) *Indices[T] {
	missing, err := simplelru.NewLRU[string, cluster.Absence](maxIndices, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	x := &Indices[T]{
		poller: p, o: o, asking: rate.NewLimiter(factsRate, factsBurst),
		fresh: make(chan string, factsBurst), again: make(chan string, maxIndices),
		queued: map[string]bool{}, missing: missing, cancel: func() {},
	}
	x.known.Store(&map[string]*indexEntry[T]{})
	return x
}

// Start begins to work in the background, until ctx ends or [Indices.Stop]. It is called
// once.
func (x *Indices[T]) Start(ctx context.Context) {
	ctx, x.cancel = context.WithCancel(ctx)
	x.done.Go(func() { x.learnLoop(ctx) })
	x.done.Go(func() { x.countLoop(ctx) })
}

// Stop ends the background work and waits for it. What is known stays for two minutes.
func (x *Indices[T]) Stop() {
	x.cancel()
	x.done.Wait()
}

// Lookup returns what is known of a name. It never blocks on I/O. A name that is not
// known, or not known any more, is asked about in the background; so is, while it is used,
// one that is known, after the cluster state moved and once a minute.
func (x *Indices[T]) Lookup(name string) (value T, known bool) {
	s := x.poller.Snapshot()
	if s == nil || len(name) > maxIndexName || !cluster.IsOneName(name) {
		return value, false
	}
	now := time.Now()
	e, f := x.entry(name, s, now)
	if f == nil {
		x.enqueue(name, s, now)
		return value, false
	}
	if stamp := now.Unix(); e.usedAt.Load() != stamp {
		e.usedAt.Store(stamp)
	}
	if f.outdated(s.Version, now) {
		x.renew(name, e, s.Version, now)
	}
	return f.value, true
}

// Counts returns the engine's own counts of the documents of an index; false while there are
// none. They are read every 30 s while they are asked for.
func (x *Indices[T]) Counts(index string) (Counts, bool) {
	if s := x.poller.Snapshot(); s != nil {
		now := time.Now()
		if e, f := x.entry(index, s, now); f != nil {
			e.wantedAt.Store(now.Unix())
			if counts := e.counts.Load(); counts != nil {
				return *counts, true
			}
		}
	}
	return Counts{}, false
}

// entry returns the entry of a name and what it tells; nil if that is too old or about
// another cluster.
func (x *Indices[T]) entry(name string, s *cluster.Snapshot, now time.Time) (*indexEntry[T], *indexFacts[T]) {
	e := (*x.known.Load())[name]
	if e == nil {
		return nil, nil
	}
	f := e.facts.Load()
	if f.uuid != s.ClusterUUID || now.Sub(f.at) >= factsMaxAge {
		return e, nil
	}
	return e, f
}

// enqueue has a name asked about that is not known, unless it was lately.
func (x *Indices[T]) enqueue(name string, s *cluster.Snapshot, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if a, ok := x.missing.Get(name); x.queued[name] || ok && a.Holds(s.Version, now) {
		return
	}
	if _, f := x.entry(name, s, now); f != nil {
		return // learned since it was looked up
	}
	select {
	case x.fresh <- name:
		x.queued[name] = true
	default: // asked again on demand
	}
}

// renew has a name asked about again, unless it is queued, or was read since it was looked up.
func (x *Indices[T]) renew(name string, e *indexEntry[T], version int64, now time.Time) {
	if !e.queued.CompareAndSwap(false, true) {
		return
	}
	if e.facts.Load().outdated(version, now) {
		select {
		case x.again <- name:
			return
		default:
		}
	}
	e.queued.Store(false)
}

// learnLoop asks about one name at a time: about one that is known or one that is not, by
// chance, if there are both.
func (x *Indices[T]) learnLoop(ctx context.Context) {
	for x.asking.Wait(ctx) == nil {
		select {
		case <-ctx.Done():
			return
		case name := <-x.again:
			x.learn(ctx, name)
		case name := <-x.fresh:
			x.learn(ctx, name)
		}
	}
}

// learn asks about a name, and keeps what was found.
func (x *Indices[T]) learn(ctx context.Context, name string) {
	s := x.poller.Snapshot()
	f := &indexFacts[T]{uuid: s.ClusterUUID, version: s.Version, at: time.Now()}
	body, aliases, err := x.poller.readIndex(ctx, s, name, x.o.Aliases)
	f.took = time.Since(f.at)
	if err == nil {
		if f.value, err = x.o.Parse(name, body, aliases); err != nil {
			err = unreadableError{err}
		}
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil && !errors.Is(err, errNoIndex) {
		x.poller.o.Logger.Debug("index not learned", "index", name, "err", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.queued, name)
	if e := (*x.known.Load())[name]; e != nil {
		defer e.queued.Store(false)
	}
	switch _, unreadable := errors.AsType[unreadableError](err); {
	case err == nil:
		x.keep(name, f)
	case unreadable: // nor will it be read any better when the cluster state moved
		x.forget(name, cluster.Absence{Version: math.MaxInt64, At: f.at})
	case errors.Is(err, errNoIndex), missing(err):
		x.forget(name, cluster.Absence{Version: f.version, At: f.at})
	case unauthorized(err):
		x.notAnswered(name, f.at.Add(costFactor*unauthorizedRest))
	default:
		x.notAnswered(name, f.at)
	}
}

// keep takes in what was found about a name.
func (x *Indices[T]) keep(name string, f *indexFacts[T]) {
	x.missing.Remove(name)
	known := *x.known.Load()
	if e := known[name]; e != nil {
		if e.facts.Load().uuid != f.uuid {
			e.counts.Store(nil)
		}
		e.facts.Store(f)
		return
	}
	known = maps.Clone(known)
	for len(known) >= maxIndices {
		delete(known, leastUsed(known))
	}
	e := &indexEntry[T]{name: name}
	e.facts.Store(f)
	e.usedAt.Store(time.Now().Unix())
	known[name] = e
	x.known.Store(&known)
}

// leastUsed returns the name that was last used the longest ago.
func leastUsed[T any](known map[string]*indexEntry[T]) (name string) {
	oldest := int64(math.MaxInt64)
	for n, e := range known {
		if at := e.usedAt.Load(); at < oldest {
			name, oldest = n, at
		}
	}
	return name
}

// forget takes in that a name is not one to be known.
func (x *Indices[T]) forget(name string, a cluster.Absence) {
	x.missing.Add(name, a)
	known := *x.known.Load()
	if known[name] == nil {
		return
	}
	known = maps.Clone(known)
	delete(known, name)
	x.known.Store(&known)
}

// notAnswered takes in that a name could not be asked about: what was known of it stays, and it is asked about again on
// demand, a pause after this time.
func (x *Indices[T]) notAnswered(name string, at time.Time) {
	x.missing.Add(name, cluster.Absence{At: at}) // for a pause
	if e := (*x.known.Load())[name]; e != nil {
		f := *e.facts.Load()
		f.tried = at
		e.facts.Store(&f)
	}
}
