package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"sidestep/test/harness"
)

// Fault is one way to degrade a node, of which the cause is known.
type Fault struct {
	Name  string // as in the list of a command's flag
	Title string // for people
	// Right are the causes that are right, as sidestep names them.
	Right []string
	// Over is set if the fault ends by itself, and then the cause is told when it has.
	Over bool

	prepare func(context.Context, *Stage, *harness.Node) error
	begin   func(context.Context, *Stage, *harness.Node) (Repair, error)
}

// Repair ends a fault. It is called once, also when the context of the fault has ended.
type Repair func(context.Context) error

const (
	latency = 300 * time.Millisecond
	jitter  = 50 * time.Millisecond
	starved = 0.05            // of a core
	stopped = 2 * time.Second // less than what the nodes wait for each other
)

// Faults returns all of them, in the order in which they are shown.
func Faults() []Fault {
	return []Fault{
		{
			Name: "cpu", Title: fmt.Sprintf("CPU starvation: a quota of %g %% of a core", 100*starved),
			Right: []string{"cpu_starvation"}, begin: starve,
		},
		{
			Name: "pause", Title: fmt.Sprintf("a pause: stopped (SIGSTOP) for %s", stopped),
			Right: []string{"pause"}, Over: true, begin: standStill,
		},
		{
			Name: "merge", Title: fmt.Sprintf("a forced merge of other indices under load, with %g of a core", narrow),
			Right: []string{"merge_burst"}, prepare: segment, begin: merge,
		},
		{
			Name: "transport", Title: fmt.Sprintf("transport latency of %s ± %s", latency, jitter),
			Right: []string{"network_transport"}, begin: slowTransport,
		},
		{
			Name: "queue", Title: "a full search queue: another client floods the node",
			Right: []string{"queue_saturation"}, begin: flood,
		},
	}
}

// Choose returns the faults of a comma list in the order of [Faults]; all of them if
// it is empty.
func Choose(list string) ([]Fault, error) {
	return harness.Choose("fault", list, Faults(), func(f Fault) string { return f.Name })
}

func starve(_ context.Context, s *Stage, n *harness.Node) (Repair, error) {
	return func(context.Context) error { return s.confine(n) }, n.LimitCPU(starved)
}

func slowTransport(_ context.Context, _ *Stage, n *harness.Node) (Repair, error) {
	return n.ResetToxics, n.SlowTransport(latency, jitter)
}

func standStill(_ context.Context, _ *Stage, n *harness.Node) (Repair, error) {
	if err := n.Pause(); err != nil {
		return nil, err
	}
	var once sync.Once
	var failure error
	resume := func() { once.Do(func() { failure = n.Resume() }) }
	timer := time.AfterFunc(stopped, resume)
	return func(context.Context) error {
		timer.Stop()
		resume()
		return failure
	}, nil
}

// archive is what is merged. No client searches it. To merge it takes longer than it takes to prove that the node is
// short of CPU: a node that has used up its quota stands still, which excuses late probes.
func archive() harness.Segments {
	return harness.Segments{Name: "archive", Indices: merges, Segments: 8, Docs: 2500, Seed: 1}
}

// segment makes the archive anew for each merge. Its shards must not drive those of the
// searched index to other nodes, which the stage takes care of.
func segment(ctx context.Context, s *Stage, n *harness.Node) error {
	s.logf("making an archive on %s: many segments to merge", n.Name)
	return errors.Join(n.CreateSegments(ctx, archive()), n.LimitCPU(narrow))
}

func merge(ctx context.Context, s *Stage, n *harness.Node) (Repair, error) {
	end := n.ForceMerge(ctx, archive())
	return func(ctx context.Context) error { return errors.Join(end(ctx), s.confine(n)) }, nil
}

func flood(ctx context.Context, s *Stage, n *harness.Node) (Repair, error) {
	where, err := FindCopies(ctx, s.Cluster)
	if err != nil {
		return nil, err
	}
	_, end := n.Flood(ctx, harness.Flood{
		Index: Index, Shards: strings.Join(where[n.ID], ","), Waiting: queueSize + 20, Pause: 100 * time.Millisecond,
		Body: `{"size":0,"aggs":{"prices":{"histogram":{"field":"price","interval":0.05},"aggs":{"categories":{"terms":{"field":"category"}}}}}}`,
	})
	return end, nil
}

// Degrade begins a fault on a node. What it returns ends it; on an error there is
// nothing to end.
func (s *Stage) Degrade(ctx context.Context, f Fault, n *harness.Node) (Repair, error) {
	repair, err := f.begin(ctx, s, n)
	if err != nil && repair != nil {
		err = errors.Join(err, repair(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return nil, fmt.Errorf("degrade %s (%s): %w", n.Name, f.Name, err)
	}
	return repair, nil
}

// Prepare makes what a fault needs, before its time is measured.
func (s *Stage) Prepare(ctx context.Context, f Fault, n *harness.Node) error {
	if f.prepare == nil {
		return nil
	}
	// With all the CPU there is it is done sooner.
	if err := n.UnlimitCPU(); err != nil {
		return err
	}
	if err := f.prepare(ctx, s, n); err != nil {
		return errors.Join(err, s.confine(n))
	}
	return nil
}
