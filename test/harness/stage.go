package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// StageOptions says what stands on a Stage.
type StageOptions struct {
	Cluster ClusterOptions
	Indices []Index // created side by side
	// Fill, if set, is called when the indices are there and nothing is warm yet.
	Fill func(context.Context, *Cluster) error
	// Warm is how long the nodes are driven by searches on the first index: cold code is
	// ten times slower.
	Warm time.Duration
	// Warmed, if set, is called after the warm-up, before the sidesteps start.
	Warmed func(context.Context) error
	// Binary is that of sidestep. It is built if this is empty.
	Binary string
	// Sidesteps are started at last, one after the other.
	Sidesteps []Sidestep
}

// Sidestep says how a sidestep is started.
type Sidestep struct {
	Name   string // unique on its Stage
	Binary string // another one than the stage's
	Config string // text of its configuration file; empty: it has none
	// Upstreams are the nodes that it is told of; nil: all.
	Upstreams []string
}

// Always is the configuration of a sidestep that lists nodes for every search.
const Always = "routing: {when: always}\n"

// Stage is a real cluster with its indices, and the sidesteps before it.
type Stage struct {
	Cluster *Cluster
	Binary  string // of sidestep

	Fronts []*Front // in the order of their starts
}

// Open starts the cluster, fills and warms it, starts the sidesteps and waits until they
// can steer. What was started stays when it fails: Close is called in any case.
func (s *Stage) Open(ctx context.Context, o StageOptions) (err error) {
	if s.Binary = o.Binary; s.Binary == "" {
		if s.Binary, err = Build(ctx); err != nil {
			return err
		}
	}
	hook := o.Cluster.BeforeStart
	if hook != nil {
		o.Cluster.BeforeStart = func(c *Cluster) error {
			s.Cluster = c
			return hook(c)
		}
	}
	if s.Cluster, err = StartCluster(ctx, o.Cluster); err != nil {
		return err
	}
	if err := s.Cluster.createIndices(ctx, o.Indices); err != nil {
		return err
	}
	if o.Fill != nil {
		if err := o.Fill(ctx, s.Cluster); err != nil {
			return err
		}
	}
	if o.Warm > 0 {
		s.Cluster.options.Logf("warming up for %s", o.Warm)
		if err := s.Cluster.Warm(ctx, o.Indices[0].Name, o.Warm); err != nil {
			return err
		}
	}
	if o.Warmed != nil {
		if err := o.Warmed(ctx); err != nil {
			return err
		}
	}
	for _, sidestep := range o.Sidesteps {
		if _, err := s.StartSidestep(ctx, sidestep); err != nil {
			return err
		}
	}
	return s.AwaitReady(ctx)
}

// StartSidestep starts one more sidestep before the cluster. Close stops it. It may not be
// able to steer yet.
func (s *Stage) StartSidestep(ctx context.Context, o Sidestep) (front *Front, err error) {
	upstreams := o.Upstreams
	if upstreams == nil {
		upstreams = s.Cluster.URLs()
	}
	start := func(flags ...string) error {
		front, err = StartFront(ctx, cmp.Or(o.Binary, s.Binary), upstreams, flags...)
		return err
	}
	if o.Config == "" {
		err = start()
	} else { // it is read at the start alone
		err = withConfig(o.Config, func(file string) error { return start("--config", file) })
	}
	if err != nil {
		return nil, fmt.Errorf("start the sidestep %s: %w", o.Name, err)
	}
	front.Name = o.Name
	s.Fronts = append(s.Fronts, front)
	return front, nil
}

// Front returns a sidestep by its name, nil if there is none.
func (s *Stage) Front(name string) *Front {
	for _, front := range s.Fronts {
		if front.Name == name {
			return front
		}
	}
	return nil
}

// AwaitReady waits until every sidestep can steer, a minute at most.
func (s *Stage) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	for _, front := range s.Fronts {
		errs = append(errs, front.AwaitReady(ctx))
	}
	return errors.Join(errs...)
}

// Close stops everything. After a failure the logs stay, and are named; see [Close] for what is one.
func (s *Stage) Close(failed bool) error {
	var errs []error
	for _, front := range s.Fronts {
		errs = append(errs, Close(front, nil, failed))
	}
	failed = failed || errors.Join(errs...) != nil
	return errors.Join(append(errs, Close(nil, s.Cluster, failed))...)
}

// RunTests opens a stage for the tests of a package, runs them and closes it. It returns
// the exit code of the process. Limit bounds the opening.
func (s *Stage) RunTests(tests interface{ Run() int }, limit time.Duration, open func(context.Context) error) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	defer func() {
		if err := s.Close(code != 0); err != nil {
			fmt.Println("FAIL: stop:", err)
			code = 1
		}
	}()
	if err := open(ctx); err != nil {
		fmt.Println("FAIL:", err)
		return 1
	}
	return tests.Run()
}
