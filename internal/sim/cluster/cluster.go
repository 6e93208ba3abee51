package simcluster

import (
	"compress/gzip"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Cluster is a running simulated cluster. Its methods may be called concurrently.
type Cluster struct {
	opts  Options
	nodes []*Node
	byID  map[string]*Node

	ctx    context.Context //nolint:containedctx // the life of the cluster's background work
	cancel context.CancelFunc
	work   sync.WaitGroup // recoveries, listeners and HTTP handlers

	ending  sync.Mutex
	stopped bool // no more work is begun

	state   atomic.Pointer[state]
	writing sync.Mutex // held while the next state is made

	zippers sync.Pool // of *gzip.Writer
	writes  writes

	strictWeights atomic.Bool

	chance sync.Mutex
	rng    *rand.Rand
}

// Start starts a cluster, its indices ready. Stop ends it.
func Start(o Options) (*Cluster, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		opts: o, byID: make(map[string]*Node, o.Nodes),
		rng: rand.New(rand.NewPCG(o.Seed, 0x5eed)), //nolint:gosec // a simulation wants repeatable chance
	}
	c.zippers.New = func() any {
		z, _ := gzip.NewWriterLevel(nil, 3) // a valid level
		return z
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	ids := make([]string, o.Nodes)
	for i := range o.Nodes {
		n := newNode(c, i)
		ids[i] = n.id
		c.nodes = append(c.nodes, n)
		c.byID[n.id] = n
	}
	c.state.Store(newState(ids, o.Adaptive))
	for _, spec := range o.Indices {
		if err := c.CreateIndex(spec); err != nil {
			c.Stop()
			return nil, err
		}
	}
	for _, n := range c.nodes {
		if err := n.open(); err != nil {
			c.Stop()
			return nil, err
		}
	}
	return c, nil
}

// SetStrictWeights makes the cluster refuse preferences for nodes, as OpenSearch does
// under strict weighted routing.
func (c *Cluster) SetStrictWeights(on bool) { c.strictWeights.Store(on) }

// Stop ends the cluster and waits for everything it runs.
func (c *Cluster) Stop() {
	c.ending.Lock()
	c.stopped = true
	c.ending.Unlock()
	c.cancel()
	for _, n := range c.nodes {
		n.close()
		if n.reserved != nil {
			_ = n.reserved.Close()
		}
	}
	c.work.Wait()
}

var errStopped = errors.New("the cluster is stopped")

// begin counts work that Stop waits for; the caller calls c.work.Done. It reports
// false if the cluster is stopped.
func (c *Cluster) begin() bool {
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.stopped {
		return false
	}
	c.work.Add(1)
	return true
}

// background runs f in a goroutine that Stop waits for.
func (c *Cluster) background(f func()) bool {
	if !c.begin() {
		return false
	}
	go func() {
		defer c.work.Done()
		f()
	}()
	return true
}

// Nodes returns all nodes, also those that left.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// URLs returns the HTTP address of every node, http://127.0.0.1:PORT.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		urls[i] = n.URL()
	}
	return urls
}

// Version returns the version of the cluster state. It grows with every change
// of nodes, indices, aliases, copies and settings.
func (c *Cluster) Version() int64 { return c.state.Load().Version }

// CreateIndex creates an index with all its copies started, as far as there are
// nodes for them.
func (c *Cluster) CreateIndex(spec IndexSpec) error {
	return c.change(func(s *state) (*state, error) { return s.withIndex(spec) })
}

// DeleteIndex deletes an index and takes it out of its aliases.
func (c *Cluster) DeleteIndex(name string) error {
	return c.change(func(s *state) (*state, error) { return s.withoutIndex(name) })
}

// SetAlias points an alias at indices; without any it removes the alias.
func (c *Cluster) SetAlias(alias string, indices ...string) error {
	return c.change(func(s *state) (*state, error) { return s.withAlias(alias, indices) })
}

// SetAdaptive switches the engine's own adaptive replica selection.
func (c *Cluster) SetAdaptive(on bool) error {
	return c.change(func(s *state) (*state, error) { return s.withSetting("transient", adaptiveSetting, on) })
}

// Relocate moves the copy of a shard from one node, by id, to another. The source
// serves for Options.RecoveryTime, then the copy is on the target.
func (c *Cluster) Relocate(index string, shard int, from, to string) error {
	ref := shardRef{index, shard}
	if err := c.change(func(s *state) (*state, error) { return s.withRelocation(ref, from, to) }); err != nil {
		return err
	}
	for _, cp := range c.state.Load().index(index).Shards[shard] {
		if cp.Node == from && cp.State == relocating {
			c.recover(allocation{ref, cp.Alloc})
		}
	}
	return nil
}

// change publishes the state that next makes of the present one.
func (c *Cluster) change(next func(*state) (*state, error)) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	s, err := next(c.state.Load())
	if err != nil {
		return err
	}
	if s != nil {
		c.state.Store(s)
	}
	return nil
}

// recover completes recoveries after the recovery time.
func (c *Cluster) recover(allocs ...allocation) {
	c.background(func() {
		if sleep(c.ctx, c.opts.RecoveryTime) != nil {
			return
		}
		for _, alloc := range allocs {
			_ = c.change(func(s *state) (*state, error) { return s.withRecovered(alloc), nil }) // never fails
		}
	})
}

// living returns the nodes in the cluster, in the order they joined.
func (c *Cluster) living() []*Node {
	ids := c.state.Load().Nodes
	nodes := make([]*Node, len(ids))
	for i, id := range ids {
		nodes[i] = c.byID[id]
	}
	return nodes
}

// serviceTime draws the time of a shard query.
func (c *Cluster) serviceTime() time.Duration {
	c.chance.Lock()
	z := c.rng.NormFloat64()
	c.chance.Unlock()
	return time.Duration(float64(c.opts.ServiceTime) * math.Exp(c.opts.Sigma*z))
}

// spread draws from d ± jitter.
func (c *Cluster) spread(d, jitter time.Duration) time.Duration {
	if jitter <= 0 {
		return d
	}
	c.chance.Lock()
	defer c.chance.Unlock()
	return d - jitter + time.Duration(c.rng.Int64N(2*int64(jitter)+1))
}
