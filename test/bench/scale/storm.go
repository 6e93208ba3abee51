package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	simcluster "sidestep/internal/sim/cluster"
	loadgen "sidestep/internal/sim/load"
	"sidestep/test/bench/plain"
	"sidestep/test/harness"
)

const (
	// turn is how long searches go one way, through sidestep or directly, before they
	// go the other: a disturbance of the machine hits both.
	turn = 5 * time.Second
	// leadIn is before each turn, on its connections, and does not count.
	leadIn = time.Second
	// searched is how many of the indices are searched.
	searched = 20
	// ownTime is a bound of the buckets of sidestep_overhead_seconds.
	ownTime = time.Millisecond
)

// stand is what is measured.
type stand struct {
	sim   *simcluster.Cluster
	front *harness.Front
	plain string // URL of the plain proxy
	order *rand.Rand
}

// health is what sidestep's process holds after a collection of garbage, and what it
// held at most since the last look.
type health struct {
	resident, heap, goroutines, most float64
}

// phase is a load in turns: directly, through the plain proxy and through sidestep.
type phase struct {
	name                    string
	direct, plain, sidestep loadgen.Result
	quick                   float64 // share of searches of which at most ownTime passed in sidestep
	changes                 int64   // of the cluster state
	elapsed                 time.Duration
	after                   health
	refreshes               float64 // of the placement of indices in use
}

// runStorm starts a simulated cluster and the binary, and measures the first table,
// memory, and a load without changes and in a storm.
func runStorm(ctx context.Context, o options, r *report) (err error) {
	sim, err := simcluster.Start(simcluster.Options{
		Nodes: o.nodes, ServiceTime: time.Millisecond, Sigma: -1, Threads: 64, Seed: 1,
		Indices: simcluster.Many(o.indices, simcluster.IndexSpec{Name: "index", Shards: 5, Replicas: 1}, 3000),
	})
	if err != nil {
		return err
	}
	defer sim.Stop()
	started := time.Now()
	s := harness.Stage{Binary: o.sidestep}
	f, err := s.StartSidestep(ctx, harness.Sidestep{Config: "admin: {profiles: true}\n" + harness.Always, Upstreams: sim.URLs()[:1]})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(err != nil)) }()
	if err := f.AwaitReady(ctx); err != nil {
		return err
	}
	r.ready = time.Since(started)
	if r.idle, err = look(ctx, f); err != nil {
		return err
	}
	other, stop, err := plain.Start(ctx, sim.URLs())
	if err != nil {
		return err
	}
	defer stop()
	at := stand{sim, f, other, o.seed.Random()}
	for _, p := range []struct {
		name  string
		storm simcluster.Storm
	}{{"without changes", simcluster.Storm{}}, {"storm", simcluster.Storm{Relocations: o.changes/2 - 20, Churn: 20}}} {
		done, err := load(ctx, o, at, p.storm)
		if err != nil {
			return err
		}
		done.name = p.name
		r.phases = append(r.phases, done)
	}
	return nil
}

// load searches in turns for three times the length of a phase, during a storm.
func load(ctx context.Context, o options, s stand, storm simcluster.Storm) (*phase, error) {
	p := &phase{}
	before, err := count(ctx, s.front)
	if err != nil {
		return nil, err
	}
	stormy, calm := context.WithCancel(ctx)
	defer calm()
	var weather sync.WaitGroup
	started := time.Now()
	weather.Go(func() { p.changes = s.sim.Storm(stormy, storm) })
	ways := []struct {
		to   []string
		into *loadgen.Result
	}{{s.sim.URLs(), &p.direct}, {[]string{s.plain}, &p.plain}, {[]string{s.front.URL}, &p.sidestep}}
	for range max(1, int(o.phase/turn)) {
		for _, i := range s.order.Perm(len(ways)) {
			result, err := take(ctx, o.rate, ways[i].to)
			if err != nil {
				return nil, err
			}
			ways[i].into.Merge(result)
		}
	}
	p.elapsed = time.Since(started)
	calm()
	weather.Wait()
	after, err := count(ctx, s.front)
	if err != nil {
		return nil, err
	}
	p.refreshes = after.refreshes - before.refreshes
	p.quick = (after.quick - before.quick) / (after.requests - before.requests)
	p.after, err = look(ctx, s.front)
	return p, err
}

// take is one turn of a way.
func take(ctx context.Context, rate float64, targets []string) (result *loadgen.Result, err error) {
	transport := loadgen.NewTransport(512)
	defer transport.CloseIdleConnections()
	options := loadgen.Options{
		Targets: targets, Rate: rate, Transport: transport,
		Request: func(i int) *http.Request {
			return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: fmt.Sprintf("/index-%d/_search", i%searched)}}
		},
	}
	for _, options.Duration = range []time.Duration{leadIn, turn} {
		if result, err = loadgen.Run(ctx, options); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// counts are counters of sidestep.
type counts struct {
	refreshes       float64 // of the placement of indices in use
	quick, requests float64 // of which at most ownTime passed in sidestep, and all
}

func count(ctx context.Context, f *harness.Front) (c counts, err error) {
	if c.refreshes, err = f.Sum(ctx, "sidestep_cluster_placement_refreshes_total", map[string]string{"source": "in_use", "result": "ok"}); err != nil {
		return c, err
	}
	c.quick, c.requests, err = f.Within(ctx, "sidestep_overhead_seconds", ownTime.Seconds())
	return c, err
}

// heapAlloc matches a line of the heap profile.
var heapAlloc = regexp.MustCompile(`# HeapAlloc = (\d+)`)

func look(ctx context.Context, f *harness.Front) (h health, err error) {
	_, profile, err := f.Admin(ctx, http.MethodGet, "/debug/pprof/heap?gc=1&debug=1", "")
	if err != nil {
		return h, err
	}
	found := heapAlloc.FindSubmatch(profile)
	if found == nil {
		return h, errors.New("the heap profile tells no HeapAlloc")
	}
	if h.heap, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
		return h, err
	}
	if h.resident, err = f.Sum(ctx, "process_resident_memory_bytes", nil); err != nil {
		return h, err
	}
	if h.goroutines, err = f.Sum(ctx, "go_goroutines", nil); err != nil {
		return h, err
	}
	h.most, err = peak(f.PID())
	return h, err
}

// highWater matches the most that a process had resident, in KiB.
var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak returns the most that a process had resident since the last call, in bytes.
func peak(pid int) (float64, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return 0, err
	}
	found := highWater.FindSubmatch(status)
	if found == nil {
		return 0, errors.New("the system does not tell how much was resident at most")
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return 0, err
	}
	return kib * 1024, os.WriteFile(dir+"clear_refs", []byte("5"), 0) // counts from here
}
