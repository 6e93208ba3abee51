package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// Trial is one fault on one node, and what was said about it.
type Trial struct {
	Fault Fault
	Node  string
	// Limit is within which each surface is to name node and cause.
	Limit    time.Duration
	Findings []Finding
	// Sidestep and Direct are what clients got meanwhile, through sidestep and from all
	// nodes in turn; Direct is nil if none asked.
	Sidestep, Direct *loadgen.Result
}

// Plan says how a fault is tried.
type Plan struct {
	Surfaces []Surface
	Limit    time.Duration
	// Wait is for how long the surfaces are looked at, though too late; at least Limit.
	Wait time.Duration
	// Lasts is for how long the fault lasts at least, for figures that mean something.
	Lasts time.Duration
	// Rate is the searches per second through sidestep, and as many directly if Direct.
	Rate   float64
	Direct bool
}

// Try degrades a node by a fault and sees what is said about it. All nodes must be fine
// before; they are again when it returns without an error.
func (s *Stage) Try(ctx context.Context, f Fault, plan Plan) (t *Trial, err error) {
	victim := s.Victim()
	if err := s.Prepare(ctx, f, victim); err != nil {
		return nil, err
	}
	sidestep := StartLoad(ctx, plan.Rate, s.Sidestep.URL)
	var direct *Load
	if plan.Direct {
		direct = StartLoad(ctx, plan.Rate, s.Cluster.URLs()...)
	}
	t = &Trial{Fault: f, Node: victim.Name, Limit: plan.Limit}
	defer func() {
		var failures [2]error
		t.Sidestep, failures[0] = sidestep.End()
		if direct != nil {
			t.Direct, failures[1] = direct.End()
		}
		err = errors.Join(err, failures[0], failures[1])
	}()
	if err := s.settle(ctx, victim); err != nil {
		return t, err
	}
	w := Watch{Surfaces: plan.Surfaces, Node: victim.Name, Right: f.Right, Limit: plan.Wait}
	if err := w.Before(ctx); err != nil {
		return t, err
	}
	began := time.Now()
	repair, err := s.Degrade(ctx, f, victim)
	if err != nil {
		return t, err
	}
	t.Findings = w.Run(ctx, began)
	_ = harness.Pause(ctx, time.Until(began.Add(plan.Lasts)))
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := errors.Join(repair(limited), ctx.Err()); err != nil {
		return t, err
	}
	return t, s.settle(ctx)
}

// settle waits until all nodes are fine, and what comes to these is new.
func (s *Stage) settle(ctx context.Context, to ...*harness.Node) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, n := range to {
		if err := s.AwaitClosed(ctx, n); err != nil {
			return err
		}
	}
	return s.AwaitFine(ctx)
}

// Wrong says what was not named rightly, or in time, and which healthy nodes were named, too;
// it is empty if all was right.
func (t *Trial) Wrong() []string {
	var wrong []string
	for _, f := range t.Findings {
		switch {
		case f.Right(t.Limit):
		case f.Err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %v", f.Surface, f.Err))
		case f.Node < 0:
			wrong = append(wrong, fmt.Sprintf("%s did not name %s", f.Surface, t.Node))
		case f.Cause < 0:
			wrong = append(wrong, fmt.Sprintf("%s did not name %s of %s", f.Surface, strings.Join(t.Fault.Right, " or "), t.Node))
		default:
			wrong = append(wrong, fmt.Sprintf("%s named it after %s only", f.Surface, seconds(max(f.Node, f.Cause))))
		}
		for _, other := range f.Blamed {
			wrong = append(wrong, fmt.Sprintf("%s also named %s", f.Surface, other))
		}
	}
	return wrong
}

// String is the table of a trial.
func (t *Trial) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  surface\tnames the node\tnames the cause\tsays\tand also")
	for _, f := range t.Findings {
		said := f.Text
		if f.Err != nil {
			said = f.Err.Error()
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", f.Surface, after(f.Node), after(f.Cause), said, strings.Join(f.Others, ", "))
	}
	// A strings.Builder takes everything.
	_ = w.Flush()
	for _, l := range []struct {
		name   string
		result *loadgen.Result
	}{{"through sidestep", t.Sidestep}, {"from the nodes in turn", t.Direct}} {
		if r := l.result; r != nil {
			fmt.Fprintf(&text, "  %s: %d searches, p50 %s, p99 %s, failed %d, partial %d\n", l.name, r.Sent,
				millis(r.Quantile(0.5)), millis(r.Quantile(0.99)), r.Failed, r.Partial)
			for _, e := range r.FirstErrors {
				fmt.Fprintf(&text, "    %s\n", e)
			}
		}
	}
	return text.String()
}

func after(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return "after " + seconds(d)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func millis(d time.Duration) string { return fmt.Sprintf("%.0f ms", harness.Milliseconds(d)) }
