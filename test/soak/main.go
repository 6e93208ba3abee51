// Command soak runs sidestep for ten minutes under everything that leaves something
// behind: clients that go away while they wait, in the middle of an answer or of their
// own body, nodes that die, stand still and come back, and proxies before the nodes that
// restart TLS. Afterwards no goroutine, connection, lease or descriptor may be left
// over, resident memory must not have grown, and few requests may have failed. The exit
// code is 1 if it is otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	simcluster "sidestep/internal/sim/cluster"
	"sidestep/test/harness"
)

// options of a run.
type options struct {
	sidestep string        // the binary
	duration time.Duration // of the load
	rate     float64       // requests/s
	settle   time.Duration // how long leftovers may take to go
	seed     uint64
}

func main() {
	harness.Main("soak", func(arguments []string) (harness.Run, error) {
		var o options
		set := flag.NewFlagSet("soak", flag.ContinueOnError)
		set.StringVar(&o.sidestep, "sidestep", "bin/sidestep", "sidestep `binary`")
		set.DurationVar(&o.duration, "duration", 10*time.Minute, "length of the load")
		set.Float64Var(&o.rate, "rate", 500, "requests per second")
		set.DurationVar(&o.settle, "settle", 2*time.Minute, "how long what is left over may take to go; unused connections to nodes are kept for 50 s")
		set.Uint64Var(&o.seed, "seed", 1, "of all that is drawn by lot")
		return func(ctx context.Context) error { return soak(ctx, o) }, set.Parse(arguments)
	})
}

const (
	wide   = "wide"   // an index with several shards
	narrow = "narrow" // an index with one
	nodes  = 5
)

// stage is all that runs beside the load.
type stage struct {
	cluster    *simcluster.Cluster
	forwarders []*forwarder // parallel to the nodes
	sidestep   *harness.Front
	front      harness.Stage // that of sidestep
	dir        string
}

// soak runs everything and returns an error that says what is left over.
func soak(ctx context.Context, o options) (err error) {
	if o.duration <= 0 || o.rate <= 0 {
		return errors.New("-duration and -rate must be more than 0")
	}
	s := &stage{}
	defer func() { err = errors.Join(err, s.stop(err != nil)) }()
	if err := s.start(ctx, o); err != nil {
		return err
	}
	if err := harness.Pause(ctx, 3*time.Second); err != nil {
		return err
	}
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("before: %s\n", before)
	load, troubles, samples, err := s.run(ctx, o)
	if err != nil {
		return err
	}
	after, leftovers, err := s.awaitCalm(ctx, before, o.settle)
	if err != nil {
		return err
	}
	fmt.Printf("after:  %s\n", after)
	return s.conclude(ctx, report{load: load, troubles: troubles, memory: samples, after: after, leftovers: leftovers})
}

// start starts the cluster, a proxy with TLS before each node, and sidestep.
func (s *stage) start(ctx context.Context, o options) (err error) {
	if s.dir, err = os.MkdirTemp("", "sidestep-soak-"); err != nil {
		return err
	}
	s.cluster, err = simcluster.Start(simcluster.Options{
		Nodes: nodes, Seed: o.seed, Adaptive: true, Threads: 16,
		Indices: []simcluster.IndexSpec{{Name: wide, Shards: 5, Replicas: 1}, {Name: narrow, Shards: 1, Replicas: 2}},
	})
	if err != nil {
		return err
	}
	identity, authority, err := newIdentity()
	if err != nil {
		return err
	}
	var upstreams []string
	for _, n := range s.cluster.Nodes() {
		f, err := forward(ctx, strings.TrimPrefix(n.URL(), "http://"), identity)
		if err != nil {
			return err
		}
		s.forwarders = append(s.forwarders, f)
		n.SetPublishAddress(f.address())
		upstreams = append(upstreams, "https://"+f.address())
	}
	ca := filepath.Join(s.dir, "ca.pem")
	if err := os.WriteFile(ca, authority, 0o600); err != nil {
		return err
	}
	s.front.Binary = o.sidestep
	config := fmt.Sprintf("upstream: {tls: {ca_file: %q}}\nadmin: {profiles: true}\n", ca)
	if s.sidestep, err = s.front.StartSidestep(ctx, harness.Sidestep{Config: config, Upstreams: upstreams}); err != nil {
		return err
	}
	return s.front.AwaitReady(ctx)
}

// stop ends everything. The log of sidestep stays after a failure.
func (s *stage) stop(failed bool) error {
	err := s.front.Close(failed)
	for _, f := range s.forwarders {
		f.stop()
	}
	if s.cluster != nil {
		s.cluster.Stop()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// run sends the load while it makes trouble, and watches sidestep.
func (s *stage) run(ctx context.Context, o options) (*load, *troubles, []sample, error) {
	l := newLoad(s.sidestep.URL, s.sidestep, o)
	t := newTroubles(s, o.seed)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	troubling, calm := context.WithCancel(ctx)
	var making sync.WaitGroup
	making.Go(func() { t.makeNodesFail(troubling) })
	making.Go(func() { t.restartTLS(troubling) })

	watching, unwatch := context.WithCancel(ctx)
	var watch sync.WaitGroup
	var samples []sample
	var watchErr error
	watch.Go(func() {
		samples, watchErr = s.watch(watching, l, t)
		if watching.Err() != nil {
			watchErr = nil // the load has ended
			return
		}
		cancel()
	})
	l.run(ctx)
	unwatch()
	watch.Wait()
	calm()
	making.Wait()
	l.close()
	return l, t, samples, errors.Join(watchErr, t.err(), ctx.Err())
}

// watch samples the memory of sidestep each second, and tells every ten how far the load
// is, until it fails or ctx ends.
func (s *stage) watch(ctx context.Context, l *load, t *troubles) ([]sample, error) {
	var samples []sample
	begin := time.Now()
	for i := 1; ; i++ {
		if err := harness.Pause(ctx, time.Until(begin.Add(time.Duration(i)*time.Second))); err != nil {
			return samples, err
		}
		now, err := s.look(ctx)
		if err != nil {
			return samples, err
		}
		elapsed := time.Since(begin)
		samples = append(samples, sample{at: elapsed, resident: now.resident})
		if i%10 == 0 {
			fmt.Printf("%6s  %s; %s; %s\n", elapsed.Round(time.Second), l.progress(), t, now)
		}
	}
}
