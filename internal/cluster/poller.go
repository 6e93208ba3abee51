// Package cluster keeps what is known of the cluster: its nodes, where every
// shard's copies are, what index expressions stand for, and how each node is
// doing. It works in the background only and publishes immutable [Snapshot]s.
package cluster

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
)

// Options configures a [Cluster].
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
	StatsInterval     time.Duration // how often each node is measured, ±20 %; default 200 ms
	StatsIdleInterval time.Duration // how rarely at most while no search is decided, ±20 %; default 2 s
	StatsTimeout      time.Duration // a node silent for longer is unresponsive; default 1 s
	PollTimeout       time.Duration // deadline of every other poll; default 5 s

	// Relay, if it has a URL, is asked in place of the cluster.
	Relay Relay

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// OnSnapshot is called after each publication, in order, never concurrently.
	OnSnapshot func(*Snapshot)
	// OnStats is called for each poll of a node, failed ones too; it may be
	// called concurrently for different nodes.
	OnStats func(NodeStats)
}

func (o Options) withDefaults() Options {
	o.DiscoveryInterval = cmp.Or(o.DiscoveryInterval, 10*time.Second)
	o.PlacementInterval = cmp.Or(o.PlacementInterval, time.Second)
	o.PlacementMaxAge = cmp.Or(o.PlacementMaxAge, time.Minute)
	o.StatsInterval = cmp.Or(o.StatsInterval, 200*time.Millisecond)
	o.StatsIdleInterval = cmp.Or(o.StatsIdleInterval, 2*time.Second)
	o.StatsTimeout = cmp.Or(o.StatsTimeout, time.Second)
	o.PollTimeout = cmp.Or(o.PollTimeout, 5*time.Second)
	o.Client = cmp.Or(o.Client, http.DefaultClient)
	o.Relay.Client = cmp.Or(o.Relay.Client, http.DefaultClient)
	o.Relay.Silence = cmp.Or(o.Relay.Silence, defaultSilence)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.OnSnapshot == nil {
		o.OnSnapshot = func(*Snapshot) {}
	}
	if o.OnStats == nil {
		o.OnStats = func(NodeStats) {}
	}
	return o
}

// Cluster discovers and measures one cluster. Make it with [New].
type Cluster struct {
	o         Options
	metrics   *metrics
	status    *statusBoard
	fleet     *fleet
	addresses *addresses
	school    *school
	attention *attention
	demand    *demand
	relay     *relay
	crowd     crowd
	writes    writes

	snapshot atomic.Pointer[Snapshot]
	noPages  atomic.Bool // the engine has no _list/shards for us
	measured atomic.Bool // a poll of a node's statistics was answered
	source   atomic.Pointer[string]
	interval atomic.Int64 // ns: at which nodes in use are polled, 0 while unknown

	// publishing is held while a snapshot is made and handed on: it keeps
	// publications in order.
	publishing sync.Mutex
	known      known
	inUse      inUse
	leftAlone  leftAlone

	// Hints that wake the background loops; one that is pending is enough.
	rediscover, replace, remeasure, retarget chan struct{}

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New returns a cluster that is not started yet.
func New(o Options) *Cluster {
	o = o.withDefaults()
	c := &Cluster{
		o:          o,
		rediscover: make(chan struct{}, 1),
		replace:    make(chan struct{}, 1),
		remeasure:  make(chan struct{}, 1),
		retarget:   make(chan struct{}, 1),
		cancel:     func() {},
	}
	c.metrics = newMetrics(o.Registerer, func() time.Time {
		if s := c.Snapshot(); s != nil {
			return s.PlacedAt
		}
		return time.Time{}
	})
	c.status = newStatusBoard(o.Logger, c.metrics)
	c.fleet = newFleet(&client{http: o.Client, metrics: c.metrics}, o.Seeds)
	c.addresses = newAddresses(o.Seeds, o.Logger)
	c.school = newSchool(c.metrics)
	c.attention = newAttention(time.Now())
	c.demand = newDemand()
	c.relay = newRelay(c)
	return c
}

// Start begins to work in the background, until ctx ends or [Cluster.Stop]. It
// is called once.
func (c *Cluster) Start(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	if c.o.Relay.URL != nil {
		c.done.Go(func() { c.followLoop(ctx) })
	} else {
		c.sourceIs(sourcePolls)
		stop := c.pollOwn(ctx)
		c.done.Go(func() {
			<-ctx.Done()
			stop()
		})
	}
	c.done.Go(func() { c.retargetLoop(ctx) })
	c.done.Go(func() { c.teachLoop(ctx, nil) })
	for range teachers - 1 {
		c.done.Go(func() { c.teachLoop(ctx, c.school.queue) })
	}
}

// Snapshots serves what is known to other sidesteps, as their relay. It has no
// accounts and tells no credentials.
func (c *Cluster) Snapshots() http.Handler { return c.relay }

// Stop ends the background work and waits for it.
func (c *Cluster) Stop() {
	c.cancel()
	c.done.Wait()
}

// Snapshot returns what is known now; nil until an engine has been recognised.
func (c *Cluster) Snapshot() *Snapshot { return c.snapshot.Load() }

// Learn asks for the shards that target with routing stands for to be looked up
// in the background. It never blocks; what is already known or queued is not
// asked for again, and what does not fit into the queue is dropped.
func (c *Cluster) Learn(target, routing string) {
	s := c.Snapshot()
	if s == nil || s.table == nil {
		return
	}
	p := s.table.get(target)
	if p != nil && !s.believes(p) {
		c.school.renew(topic{Target: Target{Expression: target}, of: aboutPlacement})
	}
	if p == nil && routing != "" {
		c.learnShards(s, Target{Expression: target})
	}
	if p == nil || routing != "" {
		c.learnShards(s, Target{Expression: target, Routing: routing})
	}
}

// learnShards asks for the shards of a target, and for where they are if that was
// too long ago.
func (c *Cluster) learnShards(s *Snapshot, t Target) {
	if l := s.lesson(topic{Target: t}); l != nil && l.joinedIn(s).whole.miss == MissUnknownTarget {
		c.school.renew(topic{Target: t, of: aboutPlacement})
	}
	c.school.enrol(topic{Target: t}, s.Version)
}

// RefreshPlacement hints that the placement proved wrong: it is fetched soon.
// It never blocks and is rate limited.
func (c *Cluster) RefreshPlacement() { hint(c.replace) }

// Touch says that a search is being decided, so that fresh statistics matter. While
// none is, nodes are measured more and more rarely, down to StatsIdleInterval; the
// first one after that has them measured at once. It is cheap enough to be called
// for each search.
func (c *Cluster) Touch() { c.attention.touch() }

// Use says that a plan is searched, so that the statistics of its nodes matter: the
// others are measured no more often than StatsIdleInterval. It is cheap enough to be
// called for each search.
func (c *Cluster) Use(plan *Plan) { c.demand.use(plan) }

// Interval returns how often the nodes in use are polled now.
func (c *Cluster) Interval() time.Duration {
	return max(c.o.StatsInterval, time.Duration(c.interval.Load()))
}

// Follows reports whether a relay is asked in place of the cluster at present.
func (c *Cluster) Follows() bool { return c.following() }

// Status returns how the conversation with the cluster is going.
func (c *Cluster) Status() Status { return c.status.get() }

// Ready returns nil once placement and the statistics of at least one node are
// known, or once it is known that there is nothing to steer; otherwise what is
// missing.
func (c *Cluster) Ready() error {
	s := c.Snapshot()
	switch {
	case s == nil:
		status := c.Status()
		if status.Error == "" {
			return errors.New("the cluster has not answered yet")
		}
		return fmt.Errorf("the cluster is %s: %s", status.State, status.Error)
	case s.Engine.Serverless():
		return nil
	case s.table == nil:
		return errors.New("the placement of shard copies is not known yet")
	case !c.measured.Load():
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
