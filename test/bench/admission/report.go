package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sidestep/test/bootstrap"
	"sidestep/test/harness"
	"sidestep/test/machine"
)

// report is the result of a run.
type report struct {
	options
	sidestepVersion string
	began           time.Time
	took            time.Duration
	capacity        float64 // searches per second
	floodCapacity   float64 // those of the flood, likewise
	loads           []*level
	usage           machine.Usage
}

// each returns a value of every turn.
func (t *tally) each(of func(turn) float64) []float64 { return bootstrap.Values(t.turns, of) }

func goodput(t turn) float64  { return t.goodput() }
func mean(t turn) float64     { return harness.Milliseconds(t.result.MeanAccepted()) }
func p50(t turn) float64      { return harness.Milliseconds(t.result.Accepted(0.5)) }
func p99(t turn) float64      { return harness.Milliseconds(t.result.Accepted(0.99)) }
func rejected(t turn) float64 { return t.counters.rejected }
func queries(t turn) float64  { return t.counters.queries / t.sent }
func attempts(t turn) float64 { return (t.sent + t.doing.Extra()) / t.sent }
func refused(t turn) float64  { return float64(t.result.Refused) / float64(t.result.Sent) }
func late(t turn) float64     { return float64(t.result.TimedOut) / float64(t.result.Sent) }
func partial(t turn) float64  { return float64(t.result.Partial) / float64(t.result.Sent) }
func opened(t turn) float64   { return t.counters.opened / t.sent }
func backlog(t turn) float64  { return t.backlog }
func drained(t turn) float64  { return harness.Milliseconds(t.drained) }
func idle(t turn) float64     { return t.usage.Idle() }
func cpu(t turn) float64 {
	sum := 0.0
	for _, used := range t.counters.cpu {
		sum += used
	}
	return sum / t.sent * 1000
}

// median returns that of a value of the turns.
func (t *tally) median(of func(turn) float64) float64 { return bootstrap.Median(t.each(of)) }

// to compares a value of the turns with that of another arm.
func (t *tally) to(base *tally, of func(turn) float64) bootstrap.Estimate {
	return bootstrap.Ratio(t.each(of), base.each(of))
}

// judge says what sidestep without admission is held to at this load.
func (l *level) judge() []bootstrap.Verdict {
	direct, off := l.of(armDirect), l.of(armOff)
	if off == nil || l.load < 0.8 {
		return nil
	}
	var good, tail bootstrap.Estimate
	if control := l.of(armControl); control != nil {
		good, tail = control.to(direct, goodput), control.to(direct, p99)
	}
	return []bootstrap.Verdict{
		bootstrap.NoLower("goodput of off to direct", off.to(direct, goodput), good),
		bootstrap.NoHigher("p99 of off to direct", off.to(direct, p99), tail),
	}
}

// judge says what all are held to at a load.
func (r *report) judge(l *level) []bootstrap.Verdict { return append(l.judge(), r.judgeFlood(l)...) }

// verdicts are those of all loads.
func (r *report) verdicts() []string {
	var lines []string
	for _, l := range r.loads {
		for _, v := range r.judge(l) {
			lines = append(lines, fmt.Sprintf("%g × capacity: %s", l.load, v))
		}
	}
	return lines
}

const explanation = `%d nodes with %g of a core each (a cgroup's quota)%s and %#q: %d, an index of %d shards with a replica each, warm virtual machines.
The capacity is what a closed loop of %d connections gets from the nodes directly. Then searches come at a fixed rate, whatever becomes of them: **direct** is a client
that goes round robin over all nodes, **control** the same once more, **off** the same client before a sidestep without admission; **auto** and **target** (%s) are the modes of admission.
The ways take turns in an order drawn by lot, each after %s of rest, %s at half of the capacity and %s at its load, which count for nothing but in what is counted by search. A sidestep is started
for each of its turns. Goodput is what was answered, completely, within %s of the scheduled start; the client closes its connection after %s. Times are of complete answers, in ms.
The other columns are shares of the searches; what the nodes rejected, in tasks by turn; shard queries, attempts, connections opened and CPU of the nodes by search; how many cores of the
machine were idle meanwhile: where these are few, load generator and sidestep wait for a core, too; how many
connections the nodes had not accepted when the last client had left; and how long they went on then. They carry out searches on such connections too, though nobody waits for them:
a backlog that takes longer than the deadline leaves only searches on connections that are in use already. Figures are medians of the turns, ratios are of these medians, with the 95 %% interval of a bootstrap over the rounds. Load generator and sidestep have no quota.
`

// markdown is the whole result.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Overload: %s\n\nMeasured %s by `make bench-admission ENGINE=%s` (%#q, %.0f minutes): %s %s, sidestep %s, %s.\n\n",
		r.Engine, r.began.UTC().Format("2006-01-02 15:04"), r.Engine, r.command, r.took.Minutes(), r.Engine, r.Version, r.sidestepVersion, machine.Name())
	fmt.Fprintf(&b, "Capacity %.0f searches/s. %d rounds of turns of %s. ", r.capacity, r.rounds, r.turn)
	stressed := ""
	if r.stressed > 0 {
		stressed = fmt.Sprintf(", of which one has %g,", r.stressed)
	}
	fmt.Fprintf(&b, explanation, nodeCount, r.quota, stressed, "thread_pool.search.queue_size", r.queue, nodeCount, r.connections, targetResponseTime, r.rest, r.settle, r.lead, r.deadline, r.patience)
	if others := r.usage.Others(); others != "" {
		fmt.Fprintf(&b, "Programs outside the measurement used %s of the machine.\n", others)
	}
	if r.flood > 0 {
		b.WriteString(r.aboutFlood())
	}
	fmt.Fprintf(&b, "\n![goodput and p99 by load](%s)\n\n", filepath.Base(r.path(".svg")))
	for _, line := range r.verdicts() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	for _, l := range r.loads {
		b.WriteString("\n" + r.section(l))
	}
	return b.String()
}

// section is the table of one load.
func (r *report) section(l *level) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %g × capacity: %.0f searches/s\n\n", l.load, l.rate)
	b.WriteString("| arm | goodput, /s | of capacity | to direct | mean | p50 | p99 | p99 to direct | refused | late | partial | rejections | shard queries | attempts | opened | CPU, ms | idle | not accepted | drained |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	base := l.of(armDirect)
	for _, t := range l.arms {
		var good, tail bootstrap.Estimate
		to := base
		if single := l.of(armDirect + alone); single != nil && strings.HasSuffix(t.arm, alone) {
			to = single
		}
		if t != to {
			good, tail = t.to(to, goodput), t.to(to, p99)
		}
		m := t.median
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %s | %.0f | %.0f | %.0f | %s | %.3f | %.3f | %.3f | %.0f | %.2f | %.3f | %.3f | %.1f | %.2f | %.0f | %.0f |\n", t.arm, m(goodput), m(goodput)/r.capacity, good, m(mean), m(p50), m(p99), tail,
			m(refused), m(late), m(partial), m(rejected), m(queries), m(attempts), m(opened), m(cpu), m(idle), m(backlog), m(drained))
	}
	b.WriteString("\n")
	for _, t := range l.arms {
		if d := t.doing(); len(d) > 0 {
			fmt.Fprintf(&b, "%s did: %s.\n\n", t.arm, d)
		}
	}
	b.WriteString(r.floodTable(l))
	for _, v := range r.judge(l) {
		fmt.Fprintf(&b, "- %s\n", v)
	}
	return b.String()
}

// doing sums up what the sidesteps of all turns did.
func (t *tally) doing() harness.Doing {
	all := harness.Doing{}
	for _, one := range t.turns {
		all.Add(one.doing, 1)
	}
	return all
}

// columns of the table of turns.
var columns = []struct {
	name string
	of   func(turn) float64
}{
	{"goodput_per_s", goodput},
	{"mean_ms", mean}, {"p50_ms", p50}, {"p99_ms", p99},
	{"refused", refused}, {"late", late}, {"partial", partial},
	{"rejections", rejected}, {"shard_queries_per_search", queries}, {"attempts_per_search", attempts}, {"opened_per_search", opened}, {"cpu_ms_per_search", cpu}, {"idle_cores", idle}, {"not_accepted", backlog}, {"drained_ms", drained},
	{"flood_answered_per_s", floodRate}, {"flood_refused", floodRefused},
}

// table writes every turn as a line.
func (r *report) table(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the turns: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	head := []string{"capacity_per_s", "load", "arm", "round"}
	for _, c := range columns {
		head = append(head, c.name)
	}
	rows := [][]string{head}
	for _, l := range r.loads {
		for _, t := range l.arms {
			for round, one := range t.turns {
				row := []string{fmt.Sprintf("%.1f", r.capacity), fmt.Sprint(l.load), t.arm, fmt.Sprint(round + 1)}
				for _, c := range columns {
					row = append(row, fmt.Sprint(math.Round(c.of(one)*1000)/1000))
				}
				rows = append(rows, row)
			}
		}
	}
	if err := csv.NewWriter(file).WriteAll(rows); err != nil {
		return fmt.Errorf("write the turns: %w", err)
	}
	return nil
}

// write writes all files of the result.
func (r *report) write(logf func(string, ...any)) error {
	if err := r.draw(r.path(".svg")); err != nil {
		return fmt.Errorf("plot the results: %w", err)
	}
	if err := r.table(r.path(".csv")); err != nil {
		return err
	}
	if err := harness.WriteResult(r.path(".md"), r.markdown()); err != nil {
		return err
	}
	for _, l := range r.loads {
		fmt.Println(r.section(l))
	}
	fmt.Println(strings.Join(r.verdicts(), "\n"))
	logf("written to %s after %s", r.path(".md"), r.took.Round(time.Second))
	return nil
}
