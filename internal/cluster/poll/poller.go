// Package poll asks a cluster, in the background, for all that is to be known of it:
// discovery of nodes, placement of shard copies, statistics of nodes, targets and
// metadata of indices. What it finds out is kept in a cluster.Store. It paces its polls
// by how busy the nodes are with all who ask them.
package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/cluster"
)

// Options configures a [Poller].
type Options struct {
	// Seeds are addresses of the cluster; one that answers is enough.
	Seeds []*url.URL
	// Static says that only the seeds may be talked to: nodes are known by id
	// and name, without an address.
	Static bool
	// Client makes the polls. TLS and sidestep's own credentials are in its
	// RoundTripper.
	Client *http.Client

	DiscoveryInterval time.Duration // how often the nodes are listed; default 10 s
	PlacementInterval time.Duration // how often the cluster state version is read; default 1 s
	PlacementMaxAge   time.Duration // how old a placement may be to be used; default 1 min
	StatsInterval     time.Duration // how often each node is measured while something goes by that, ±20 %; default 200 ms
	StatsIdleInterval time.Duration // how rarely at most while nothing does, or no search is decided, ±20 %; default 2 s
	StatsTimeout      time.Duration // a node silent for longer is unresponsive; default 1 s
	PollTimeout       time.Duration // deadline of every other poll; default 5 s

	// Source, if it is not nil, is asked in place of the cluster.
	Source Source

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Needed reports whether anything that is decided goes by what polls of the node of this id tell; nil: always.
	Needed func(node string) bool
	// OnStats is called for each poll of a node, failed ones too; it may be
	// called concurrently for different nodes.
	OnStats func(cluster.NodeStats)
}

// Sources of what is known. The set is closed: used as a metric label.
const (
	FromRelay = "relay"
	FromPolls = "polls"
)

func (o Options) withDefaults() Options {
	o.DiscoveryInterval = cmp.Or(o.DiscoveryInterval, 10*time.Second)
	o.PlacementInterval = cmp.Or(o.PlacementInterval, time.Second)
	o.PlacementMaxAge = cmp.Or(o.PlacementMaxAge, time.Minute)
	o.StatsInterval = cmp.Or(o.StatsInterval, 200*time.Millisecond)
	o.StatsIdleInterval = cmp.Or(o.StatsIdleInterval, 2*time.Second)
	o.StatsTimeout = cmp.Or(o.StatsTimeout, time.Second)
	o.PollTimeout = cmp.Or(o.PollTimeout, 5*time.Second)
	o.Client = cmp.Or(o.Client, http.DefaultClient)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.OnStats == nil {
		o.OnStats = func(cluster.NodeStats) {}
	}
	return o
}

// Source tells what is known in place of polls while it answers: a relay.
type Source interface {
	// Follow keeps the store of p up to date until ctx ends, and has p poll while it
	// cannot. It says by [Poller.SetSource] which of both is so.
	Follow(ctx context.Context, p *Poller)
	// LookUp asks what a target stands for, into what is known of the look-up so far.
	LookUp(ctx context.Context, t cluster.LookUp, into *cluster.Resolved) error
	// Use says that these indices are searched: where they are is told soon.
	Use(ctx context.Context, names []string)
}

// Poller asks one cluster for all that is to be known of it, and has it kept in a
// [cluster.Store]. It works in the background only. Make it with [New].
type Poller struct {
	o         Options
	store     *cluster.Store
	metrics   *metrics
	status    *statusBoard
	endpoints *endpoints
	addresses *addresses
	activity  *activity
	used      *usedNodes
	meanRate  meanRate
	readers   atomic.Int64 // of the relay that is followed
	othersAt  atomic.Int64 // ns since the Unix epoch: the last [Poller.TouchAll]
	writes    writes
	listeners []func(cluster.NodeStats, *RawStats)

	measured atomic.Bool // a poll of a node's statistics was answered
	source   atomic.Pointer[string]
	interval atomic.Int64               // ns: at which nodes in use are polled, 0 while unknown
	members  atomic.Pointer[membership] // that the node list was made from; nil: a relay told it, or nothing is known
	// newest is which address told the latest version of the cluster state: nodes apply a new one after each other, a
	// manager up to 30 s later than the others. What is asked of that version is asked there; nil: of any.
	newest atomic.Pointer[url.URL]
	// when another cluster was found behind the addresses, and the known one was not; nil: it is there
	strangerSince atomic.Pointer[time.Time]

	leftAlone  leftAlone
	departures departures

	// Hints that wake the background loops; one that is pending is enough.
	rediscover, replace, remeasure, retarget chan struct{}

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New returns a poller that is not started yet. It fills the store alone.
func New(store *cluster.Store, o Options) *Poller {
	o = o.withDefaults()
	p := &Poller{
		o:          o,
		store:      store,
		rediscover: make(chan struct{}, 1),
		replace:    make(chan struct{}, 1),
		remeasure:  make(chan struct{}, 1),
		retarget:   make(chan struct{}, 1),
		cancel:     func() {},
	}
	p.metrics = newMetrics(o.Registerer)
	p.status = newStatusBoard(o.Logger, p.metrics)
	p.endpoints = newEndpoints(&client{http: o.Client, metrics: p.metrics}, o.Seeds)
	p.addresses = newAddresses(o.Seeds, o.Logger)
	p.activity = newActivity(time.Now())
	p.used = newUsedNodes()
	return p
}

// Start begins to work in the background, until ctx ends or [Poller.Stop]. It
// is called once.
func (p *Poller) Start(ctx context.Context) {
	ctx, p.cancel = context.WithCancel(ctx)
	if p.o.Source != nil {
		p.done.Go(func() { p.o.Source.Follow(ctx, p) })
	} else {
		p.SetSource(FromPolls)
		stop := p.Poll(ctx)
		p.done.Go(func() {
			<-ctx.Done()
			stop()
		})
	}
	p.done.Go(func() { p.retargetLoop(ctx) })
	p.done.Go(func() { p.lookUpLoop(ctx, false) })
	for range lookUpWorkers - 1 {
		p.done.Go(func() { p.lookUpLoop(ctx, true) })
	}
}

// Poll polls the cluster until the function returned is called.
func (p *Poller) Poll(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	select {
	case <-p.replace: // of when a relay told: it has told since
	default:
	}
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){p.discoverLoop, p.placeLoop, p.measureLoop} {
		loops.Go(func() { loop(ctx) })
	}
	if p.Snapshot() != nil {
		hint(p.remeasure)
	}
	return func() {
		cancel()
		loops.Wait()
	}
}

// Stop ends the background work and waits for it.
func (p *Poller) Stop() {
	p.cancel()
	p.done.Wait()
}

// Store returns what is filled.
func (p *Poller) Store() *cluster.Store { return p.store }

// Options returns the options, with their defaults.
func (p *Poller) Options() Options { return p.o }

// Snapshot returns what is known now; nil until an engine has been recognised.
func (p *Poller) Snapshot() *cluster.Snapshot { return p.store.Snapshot() }

// engine returns what the cluster is, as far as that is known.
func (p *Poller) engine() cluster.Engine {
	if s := p.Snapshot(); s != nil {
		return s.Engine
	}
	return cluster.Engine{}
}

// Listen has polls of nodes told to another, with the counters that the node told: nil
// if the poll failed. It is called before [Poller.Start].
func (p *Poller) Listen(told func(cluster.NodeStats, *RawStats)) {
	p.listeners = append(p.listeners, told)
}

// RefreshPlacement hints that the placement proved wrong: it is fetched soon.
// It never blocks and is rate limited.
func (p *Poller) RefreshPlacement() { hint(p.replace) }

// Touch says that a search is being decided, so that fresh statistics matter. While
// none is, nodes are measured more and more rarely, down to StatsIdleInterval; the
// first one after that has them measured at once. It is cheap enough to be called
// for each search.
func (p *Poller) Touch() { p.activity.touch() }

// Use says that a plan is searched, so that the statistics of its nodes matter: the
// others are measured no more often than StatsIdleInterval. It is cheap enough to be
// called for each search.
func (p *Poller) Use(plan *cluster.Plan) { p.used.use(plan) }

// TouchAll is [Poller.Touch] for others who search through what this one knows: any
// node may matter to them.
func (p *Poller) TouchAll() {
	p.Touch()
	p.used.all.Store(true)
	p.othersAt.Store(time.Now().UnixNano())
}

// Idle reports whether no search has been decided for a while.
func (p *Poller) Idle() bool {
	idle, _ := p.activity.look(time.Now())
	return idle
}

// Interval returns how often the nodes in use are polled now.
func (p *Poller) Interval() time.Duration {
	return max(p.o.StatsInterval, time.Duration(p.interval.Load()))
}

// Readers returns about how many sidesteps read the reports of the relay that this one reads, 0
// while none tells. It falls slowly: a relay that starts again has to count them first, and
// while it is silent they are still there.
func (p *Poller) Readers() int { return int(p.readers.Load()) }

// ReadersOfRelay takes in how many the relay tells.
func (p *Poller) ReadersOfRelay(count int) {
	const kept = 63. / 64 // of the number, at each report
	p.readers.Store(int64(max(float64(count), kept*float64(p.readers.Load()))))
}

// Follows reports whether a relay is asked in place of the cluster at present.
func (p *Poller) Follows() bool { return p.Source() == FromRelay }

// Source returns where what is known comes from, empty while nothing is.
func (p *Poller) Source() string {
	if now := p.source.Load(); now != nil {
		return *now
	}
	return ""
}

// SetSource notes where what is known comes from.
func (p *Poller) SetSource(now string) {
	p.source.Store(&now)
	if now == FromRelay {
		p.polledEvery(0)
	}
	p.metrics.sourceChanges.WithLabelValues(now).Inc()
	p.metrics.sourceIs(now)
}

// Status returns how the conversation with the cluster is going.
func (p *Poller) Status() Status { return p.status.get() }

// Ready returns nil once placement and the statistics of at least one node are
// known, or once it is known that there is nothing to steer; otherwise what is
// missing.
func (p *Poller) Ready() error {
	s := p.Snapshot()
	switch {
	case s == nil:
		status := p.Status()
		if status.Error == "" {
			return errors.New("the cluster has not answered yet")
		}
		return fmt.Errorf("the cluster is %s: %s", status.State, status.Error)
	case s.Engine.Serverless():
		return nil
	case !s.HasPlacement():
		if why := p.Status().Error; why != "" {
			return fmt.Errorf("the placement of shard copies is not known yet: %s", why)
		}
		return errors.New("the placement of shard copies is not known yet")
	case !p.measured.Load():
		return errors.New("no node's statistics are known yet")
	}
	return nil
}

// hint wakes the loop that reads from wake, without waiting for it.
func hint(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
