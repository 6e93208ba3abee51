package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"sidestep/internal/admission"
)

// clientDeadline is after which time the clients of these scenarios close their
// connections.
const clientDeadline = time.Second

// overload is a small cluster: five nodes of one CPU, two search threads and a queue of
// fifty, whose clients wait for a second.
func overload(load float64) Scenario {
	sc := base(fmt.Sprintf("overload_%.0f", load*100), fmt.Sprintf("%.0f %% of the capacity", load*100))
	sc.machine = machine{cpus: 1, threads: 2, queue: 50}
	sc.load, sc.deadline = load, clientDeadline
	sc.warmup, sc.length = 15*time.Second, 75*time.Second
	return sc
}

// stressed has one of the nodes at a tenth of its speed.
func stressed(sc Scenario) Scenario {
	sc.faults = []fault{{nodes: []int{badNode}, to: forever, set: slower(10)}}
	return sc
}

// contenders are what is compared: the engine alone, sidestep without admission and with it.
func contenders() []policy {
	gate := func(name, about string, o admission.Options) policy {
		return policy{name: name, about: about, rank: adaptive(arsPublished, false), router: newControlled(o)}
	}
	return []policy{
		{name: "engine", about: "round robin over the nodes", rank: adaptive(arsPublished, false), router: newClients},
		{name: "off", about: "sidestep without admission", rank: adaptive(arsPublished, false), router: newSidestep(variants()[0])},
		gate("auto", "limits follow the queues", admission.Options{Mode: admission.Auto}),
		gate("auto_fifo", "the same, always the oldest first", admission.Options{Mode: admission.Auto, Order: admission.OldestFirst}),
		gate("auto_lifo", "the same, always the newest first", admission.Options{Mode: admission.Auto, Order: admission.NewestFirst}),
		gate("target", "the published algorithm, 500 ms", admission.Options{Mode: admission.Target, TargetResponseTime: clientDeadline / 2}),
	}
}

// Overload plays too many searches with and without admission and prints what came of it.
func Overload(ctx context.Context, seeds int, out io.Writer) error {
	for _, bad := range []bool{false, true} {
		fmt.Fprintf(out, "\none node at a tenth of its speed: %t; clients wait for %s; median of %d seeds\n", bad, clientDeadline, seeds)
		if err := printOverload(ctx, bad, seeds, out); err != nil {
			return err
		}
	}
	if err := printOrders(ctx, seeds, out); err != nil {
		return err
	}
	for _, factor := range []float64{1, 4, 10} {
		if err := printFlood(ctx, factor, seeds, out); err != nil {
			return err
		}
	}
	if err := printOutage(ctx, seeds, out); err != nil {
		return err
	}
	return printSlowdown(ctx, out)
}

// column is one of a table: the median of a figure over the seeds; nil: the name of the arm.
type column struct {
	name, format string
	of           func(*measure) float64
}

// served are the first columns of two tables.
var served = []column{
	{"load", "%.2f", func(m *measure) float64 { return m.sc.load }}, {"arm", "%s", nil},
	{"goodput", "%.2f", (*measure).goodput}, {"p50 ms", "%.0f", quantile(50)}, {"p99 ms", "%.0f", quantile(99)},
}

func leavers(m *measure) float64  { return float64(m.gaveUp) }
func rejected(m *measure) float64 { return float64(m.rejections) }

// table has a line for each arm in each scenario.
type table struct {
	scenarios []Scenario
	arms      []policy
	seeds     int
	columns   []column
}

func (t table) print(ctx context.Context, out io.Writer) error {
	w := newTable(out)
	for _, c := range t.columns {
		fmt.Fprint(w, c.name, "\t")
	}
	fmt.Fprintln(w)
	for i := range t.scenarios {
		runs, err := repeat(ctx, &t.scenarios[i], t.arms, t.seeds, 0)
		if err != nil {
			return err
		}
		for k, arm := range t.arms {
			for _, c := range t.columns {
				if c.of == nil {
					fmt.Fprint(w, arm.name, "\t")
				} else {
					fmt.Fprintf(w, c.format+"\t", median(runs[k], c.of))
				}
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}

func printOverload(ctx context.Context, bad bool, seeds int, out io.Writer) error {
	t := table{arms: contenders(), seeds: seeds, columns: slices.Concat(served, []column{
		{"refused", "%.0f", func(m *measure) float64 { return float64(m.refused) }}, {"gave up", "%.0f", leavers}, {"rejected by nodes", "%.0f", rejected},
		{"limit", "%.1f", func(m *measure) float64 { return m.limitAt(m.sc.length) }},
	})}
	for _, load := range []float64{0.5, 0.8, 1, 1.25, 1.5, 2} {
		sc := overload(load)
		if bad {
			sc = stressed(sc)
		}
		t.scenarios = append(t.scenarios, sc)
	}
	return t.print(ctx, out)
}

// printOrders compares the orders in which what waits is sent, where the engine's queues,
// and so ours, hold more than clients have patience for.
func printOrders(ctx context.Context, seeds int, out io.Writer) error {
	fmt.Fprintln(out, "\nthe same with nothing wrong, where each node's queue holds 2,000: more than clients wait for")
	t := table{arms: contenders(), seeds: seeds, columns: slices.Concat(served, []column{{"gave up", "%.0f", leavers}})}
	for _, load := range []float64{1.05, 1.25, 1.5, 2} {
		sc := overload(load)
		sc.queue = 2000
		t.scenarios = append(t.scenarios, sc)
	}
	return t.print(ctx, out)
}

// printFlood has a class send five times its share, of searches of the same cost, or of another.
func printFlood(ctx context.Context, factor float64, seeds int, out io.Writer) error {
	fmt.Fprintf(out, "\nsearches at 0.3 of the capacity, alone and beside a flood of others that take %.0f times as long, at all of the capacity: five times the share of their weight, 1 of 5\n", factor)
	t := newTable(out)
	fmt.Fprintln(t, "arm\tp50 alone\tp99 alone\tp50 beside the flood\tp99 beside the flood\tfailed\tof the flood/s\t")
	classes := []admission.Class{{Name: "interactive", Weight: 4}, {Name: "flood", Weight: 1}}
	list := []policy{
		contenders()[1],
		{name: "auto", rank: adaptive(arsPublished, false), router: newControlled(admission.Options{Mode: admission.Auto, Classes: classes})},
	}
	alone, beside := overload(0.3), overload(0.3)
	beside.flood = flood{load: 1, factor: factor}
	a, err := repeat(ctx, &alone, list, seeds, 0)
	if err != nil {
		return err
	}
	b, err := repeat(ctx, &beside, list, seeds, 0)
	if err != nil {
		return err
	}
	for i, arm := range list {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t\n", arm.name, median(a[i], quantile(50)), median(a[i], quantile(99)),
			median(b[i], quantile(50)), median(b[i], quantile(99)), median(b[i], func(m *measure) float64 { return float64(m.failed) }),
			median(b[i], func(m *measure) float64 { return m.rate(m.flooded) }))
	}
	return t.Flush()
}

// printSlowdown slows all nodes down for ten minutes.
func printSlowdown(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "\nall nodes at a third of their speed for ten minutes at 0.8 of the healthy capacity: mean limit")
	const from = time.Minute
	sc := overload(0.8)
	sc.length = from + 12*time.Minute
	sc.faults = []fault{{nodes: []int{0, 1, 2, 3, 4}, from: from, to: from + 10*time.Minute, set: slower(3)}}
	limit := func(name string, at time.Duration) column {
		return column{name, "%.1f", func(m *measure) float64 { return m.limitAt(at) }}
	}
	return table{scenarios: []Scenario{sc}, seeds: 1, columns: []column{
		{"arm", "%s", nil}, limit("before", from), limit("minute 2", from+2*time.Minute), limit("minute 5", from+5*time.Minute),
		limit("minute 10", from+10*time.Minute), limit("2 minutes after", sc.length),
	}, arms: slices.DeleteFunc(contenders(), func(p policy) bool { return p.name != "auto" && p.name != "target" })}.print(ctx, out)
}

func median(runs []*measure, of func(*measure) float64) float64 {
	values := make([]float64, len(runs))
	for i, m := range runs {
		values[i] = of(m)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// goodput returns the searches answered before their clients left, as a part of what the
// healthy cluster can answer.
func (m *measure) goodput() float64 {
	return m.rate(m.answered) / m.sc.capacity()
}

// quantile returns within what time, in ms, a part of the searches that are not the flood's
// was answered, of those that were.
func quantile(percent float64) func(*measure) float64 {
	return func(m *measure) float64 { return float64(m.latency.ValueAtQuantile(percent)) / 1000 }
}

// limitAt returns the mean limit over the ten seconds before t.
func (m *measure) limitAt(t time.Duration) float64 {
	to := min(int(t/time.Second), len(m.limits))
	from := max(0, to-10)
	sum := 0.0
	for _, l := range m.limits[from:to] {
		sum += l
	}
	return sum / max(1, float64(to-from))
}
