package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
	"sidestep/internal/cluster/relay"
	simcluster "sidestep/internal/sim/cluster"
	"sidestep/test/harness"
)

const (
	// targetsEach is how many indices a sidecar searches, besides an alias.
	targetsEach = 20
	aliases     = 50
	// startLimit bounds how long a fleet may take to be ready.
	startLimit = 10 * time.Minute
	// silence is long, as this machine is too small for all who share it here: what is
	// measured is what they ask when all is well.
	silence = 59 * time.Second
)

// result is one line of the table.
type result struct {
	relayed   bool
	sidecars  int
	perSecond [purposes]float64
	busiest   float64       // polls of statistics a second of one node
	steered   int           // sidecars of which every target resolves
	age       time.Duration // of statistics as they reach a sidecar, in the mean
	arrivals  float64       // of statistics of a node, a second and sidecar
	bytes     float64       // that the relay sent, a second and sidecar
	cpu       float64       // cores, the simulated cluster included
}

// bench is what all measurements share.
type bench struct {
	o       options
	cluster *simcluster.Cluster
	network *direct
	seeds   []*url.URL
	count   *counter
}

func run(ctx context.Context, o options) error {
	simulated, err := simcluster.Start(simcluster.Options{
		Nodes:   o.nodes,
		Indices: simcluster.Many(o.indices, simcluster.IndexSpec{Name: "logs", Shards: 5, Replicas: 1}, aliases),
	})
	if err != nil {
		return err
	}
	defer simulated.Stop()
	network := &direct{hosts: map[string]http.Handler{}}
	for _, node := range simulated.Nodes() {
		network.serve(strings.TrimPrefix(node.URL(), "http://"), node.Handler())
	}
	b := &bench{o: o, cluster: simulated, network: network, count: &counter{next: network, nodes: map[string]int{}}}
	for _, address := range simulated.URLs()[:3] {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		b.seeds = append(b.seeds, u)
	}
	var results []result
	for _, relayed := range []bool{false, true} {
		fleets := o.alone
		if relayed {
			fleets = o.relayed
		}
		for _, n := range fleets {
			r, err := b.measure(ctx, n, relayed)
			if err != nil {
				return err
			}
			fmt.Printf("%+v\n", r)
			results = append(results, r)
			if err := harness.WriteResult(o.out, render(o, results)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fleet is what runs during a measurement.
type fleet struct {
	sidecars []*sidecar
	relay    *poll.Poller
	sent     *sentBytes
	work     sync.WaitGroup
	stop     context.CancelFunc
}

// sidecar is one of a fleet, with the targets that are searched through it.
type sidecar struct {
	*poll.Poller
	targets []string
	age     atomic.Int64 // ns, summed
	polls   atomic.Int64
}

// measure lets a fleet run, and counts.
func (b *bench) measure(ctx context.Context, n int, relayed bool) (result, error) {
	f, err := b.start(ctx, n, relayed)
	if err != nil {
		return result{}, err
	}
	defer f.end()
	if err := f.awaitReady(ctx); err != nil {
		return result{}, err
	}
	if err := harness.Pause(ctx, b.o.warmup); err != nil {
		return result{}, err
	}
	b.count.take()
	f.reset()
	started, cpu := time.Now(), cpuTime()
	if err := harness.Pause(ctx, b.o.window); err != nil {
		return result{}, err
	}
	seconds := time.Since(started).Seconds()
	seen, busiest := b.count.take()
	r := result{relayed: relayed, sidecars: n, busiest: float64(busiest) / seconds, cpu: (cpuTime() - cpu).Seconds() / seconds}
	for i, count := range seen {
		r.perSecond[i] = float64(count) / seconds
	}
	var age, polls int64
	for _, s := range f.sidecars {
		age, polls = age+s.age.Load(), polls+s.polls.Load()
		if s.resolvesAll() {
			r.steered++
		}
	}
	r.age = time.Duration(age / max(1, polls))
	r.arrivals = float64(polls) / seconds / float64(n) / float64(b.o.nodes)
	r.bytes = float64(f.sent.n.Load()) / seconds / float64(n)
	return r, nil
}

func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// start starts a fleet, and changes of the cluster: an index is created and another
// deleted each second.
func (b *bench) start(ctx context.Context, n int, relayed bool) (*fleet, error) {
	f := &fleet{sent: &sentBytes{}}
	ctx, f.stop = context.WithCancel(ctx)
	f.work.Go(func() { b.cluster.Storm(ctx, simcluster.Storm{Churn: 1}) })
	if relayed {
		f.relay = b.newPoller(nil, nil)
		b.network.serve("relay", f.sent.counting(relay.NewServer(f.relay, nil, prometheus.NewRegistry())))
		f.relay.Start(ctx)
		for f.relay.Ready() != nil {
			if err := harness.Pause(ctx, 100*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	for i := range n {
		s := &sidecar{}
		var source poll.Source
		if relayed {
			source = relay.NewFollower(relay.Options{
				URL:     &url.URL{Scheme: "http", Host: "relay", Path: "/snapshot"},
				Client:  &http.Client{Transport: b.network},
				Silence: silence,
			})
		}
		s.Poller = b.newPoller(source, s)
		for range targetsEach {
			s.targets = append(s.targets, fmt.Sprintf("logs-%d", rand.IntN(b.o.indices)))
		}
		s.targets = append(s.targets, fmt.Sprintf("logs-group-%d", i%aliases))
		s.Start(ctx)
		f.sidecars = append(f.sidecars, s)
		f.work.Go(func() { s.search(ctx) })
	}
	return f, nil
}

func (b *bench) newPoller(source poll.Source, s *sidecar) *poll.Poller {
	o := poll.Options{
		Seeds: b.seeds, Client: &http.Client{Transport: b.count}, Source: source,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Registerer: prometheus.NewRegistry(),
	}
	if s != nil {
		o.OnStats = func(stats cluster.NodeStats) {
			s.age.Add(int64(time.Since(stats.At)))
			s.polls.Add(1)
		}
	}
	return poll.New(cluster.NewStore(cluster.StoreOptions{}), o)
}

// search decides searches, as the proxy does, until ctx ends.
func (s *sidecar) search(ctx context.Context) {
	for harness.Pause(ctx, time.Duration(400+rand.IntN(200))*time.Millisecond) == nil {
		s.Touch()
		s.resolvesAll()
	}
}

// resolvesAll reports whether searches on all targets can be steered.
func (s *sidecar) resolvesAll() bool {
	known := s.Snapshot()
	if known == nil {
		return false
	}
	all := true
	for _, target := range s.targets {
		plan, miss := known.Resolve(target, "")
		if miss == cluster.MissUnknownTarget {
			s.Store().Learn(target, "")
		}
		if plan == nil {
			all = false
			continue
		}
		s.Use(plan)
	}
	return all
}

// awaitReady waits until every sidecar could steer every search: in one process they
// take one after the other what they take at once on machines of their own.
func (f *fleet) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, s := range f.sidecars {
		for s.Ready() != nil || !s.resolvesAll() {
			if err := harness.Pause(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("a fleet of %d is not ready: %w", len(f.sidecars), err)
			}
		}
	}
	return nil
}

func (f *fleet) reset() {
	f.sent.n.Store(0)
	for _, s := range f.sidecars {
		s.age.Store(0)
		s.polls.Store(0)
	}
}

func (f *fleet) end() {
	f.stop()
	for _, s := range f.sidecars {
		s.Stop()
	}
	if f.relay != nil {
		f.relay.Stop()
	}
	f.work.Wait()
}

// sentBytes counts the bytes of answers.
type sentBytes struct{ n atomic.Int64 }

func (s *sentBytes) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(countingWriter{w, s}, r)
	})
}

type countingWriter struct {
	http.ResponseWriter
	sent *sentBytes
}

// Write implements io.Writer.
func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent.n.Add(int64(n))
	return n, err
}
