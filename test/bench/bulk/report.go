package main

import (
	"fmt"
	"strings"
	"time"

	"sidestep/internal/bulk"
	loadgen "sidestep/internal/sim/load"
	"sidestep/test/bootstrap"
	"sidestep/test/harness"
	"sidestep/test/machine"
)

// What is required of the aware sidestep, relative to direct.
const (
	wantThroughput = 1.5 // at least, while a node is degraded
	wantP99        = 0.5 // at most, while a node is degraded
)

// report is the result of a run.
type report struct {
	options
	sidestepVersion string
	began           time.Time
	took            time.Duration
	outcomes        []*outcome
}

// of returns the tally of an arm, nil if there is none.
func (o *outcome) of(arm string) *tally {
	for _, t := range o.arms {
		if t.arm == arm {
			return t
		}
	}
	return nil
}

// each returns a value of every turn.
func (t *tally) each(of func(turn) float64) []float64 { return bootstrap.Values(t.turns, of) }

func perSecond(t turn) float64 { return t.perSecond }
func p50(t turn) float64       { return harness.Milliseconds(t.p50) }
func p99(t turn) float64       { return harness.Milliseconds(t.p99) }

// to compares a value of the turns with that of another arm.
func (t *tally) to(base *tally, of func(turn) float64) bootstrap.Estimate {
	return bootstrap.Ratio(t.each(of), base.each(of))
}

// requests returns the shard requests of a bulk, 0 if no turn tells.
func (t *tally) requests() float64 {
	var known []float64
	for _, one := range t.turns {
		if one.counted {
			known = append(known, one.requests)
		}
	}
	return median(known)
}

// lost returns the bulks that failed, and the items that were rejected or failed in
// bulks that did not.
func (t *tally) lost() (bulks, rejected, failed int64) {
	for _, one := range t.turns {
		bulks += one.result.Failed
		rejected += one.rejected
		failed += one.failed
	}
	return bulks, rejected, failed
}

// overall returns the p99 over the bulks of all turns.
func (t *tally) overall() time.Duration {
	var all loadgen.Result
	for _, one := range t.turns {
		all.Merge(one.result)
	}
	return all.Quantile(0.99)
}

// section is the table of one case.
func (r *report) section(o *outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s. ", o.scenario.title, o.layout)
	if o.scenario.begin != nil {
		fmt.Fprintf(&b, "%s is degraded. ", o.slow)
	}
	if others := o.usage.Others(); others != "" {
		fmt.Fprintf(&b, "Programs outside the measurement used %s of the machine.", others)
	}
	b.WriteString("\n\n| arm | documents/s | to direct | p50, ms | p99, ms | p99 to direct | p99 of all, ms | shard requests per bulk | documents before | added | skew before | after | bulks | failed | items rejected, failed |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	base := o.of(armDirect)
	for _, t := range o.arms {
		var throughput, tail bootstrap.Estimate
		if t != base {
			throughput, tail = t.to(base, perSecond), t.to(base, p99)
		}
		requests := ""
		if n := t.requests(); n > 0 {
			requests = fmt.Sprintf("%.1f", n)
		}
		var bulks int64
		for _, one := range t.turns {
			bulks += one.result.Sent
		}
		failed, rejected, broken := t.lost()
		fmt.Fprintf(&b, "| %s | %.0f | %s | %.0f | %.0f | %s | %.0f | %s | %.0f | %d | %.2f | %.2f | %d | %d | %d, %d |\n", t.arm,
			median(t.each(perSecond)), throughput, median(t.each(p50)), median(t.each(p99)), tail, harness.Milliseconds(t.overall()),
			requests, sum(t.began), t.added, skew(t.began), skew(t.ended), bulks, failed, rejected, broken)
	}
	if t := o.of(armAware); t != nil {
		b.WriteString("\nShards chosen by aware:")
		for _, c := range bulk.Choices() {
			fmt.Fprintf(&b, " %s %.0f", c, t.choices[c])
		}
		b.WriteString(".\n")
	}
	b.WriteString("\n")
	for _, v := range r.judge(o) {
		fmt.Fprintf(&b, "- %s\n", v)
	}
	for _, note := range o.notes {
		fmt.Fprintf(&b, "- note: %s\n", note)
	}
	return b.String()
}

// judge compares aware with what is required of it.
func (r *report) judge(o *outcome) []bootstrap.Verdict {
	direct, aware := o.of(armDirect), o.of(armAware)
	throughput := aware.to(direct, perSecond)
	if o.scenario.begin == nil {
		return []bootstrap.Verdict{fewer(aware.requests(), direct.requests()),
			bootstrap.NoLower("documents/s of aware to direct", throughput, o.of(armControl).to(direct, perSecond))}
	}
	all := []bootstrap.Verdict{
		bootstrap.AtLeast("documents/s of aware to direct", throughput, wantThroughput),
		bootstrap.AtMost("p99 of aware to direct", aware.to(direct, p99), wantP99),
	}
	if own := o.of(armEngine); own != nil && o.scenario.role == holdsReplicas {
		all = append(all, bootstrap.AtLeast("documents/s of aware to engine", aware.to(own, perSecond), 1),
			bootstrap.AtMost("p99 of aware to engine", aware.to(own, p99), 1))
	}
	return all
}

func fewer(aware, direct float64) bootstrap.Verdict {
	return bootstrap.Verdict{About: fmt.Sprintf("%.1f shard requests per bulk of aware, fewer than %.1f of direct", aware, direct), Holds: aware > 0 && aware < direct}
}

// verdicts are those of all cases.
func (r *report) verdicts() []string {
	var lines []string
	for _, o := range r.outcomes {
		for _, v := range r.judge(o) {
			lines = append(lines, fmt.Sprintf("%s: %s", o.scenario.name, v))
		}
	}
	return lines
}

const explanation = `Three nodes, six shards with a replica each, and an index for each way to send bulks: **direct** is a client that goes
round robin over all nodes; **engine** is the same on an index with ` + "`index.append_only.enabled` and `index.bulk.adaptive_shard_selection.enabled`" + `,
which lets OpenSearch choose the shard of each bulk; **even** is the client before a sidestep with ` + "`bulk.avoid: false`, **aware**" + ` before one with
the defaults; **control** is direct once more. The node that is degraded holds only primaries, or only replicas, of two of the six shards. The
indices were filled while it was well, by a sidestep that writes evenly, those of even and aware by their own; each further case
with a degraded node goes on with what the one before left. The ways take turns in rounds, in an order drawn by lot; after
the fault has begun each has a first turn that does not count. All of it is a closed loop. Documents/s are those that were acknowledged, until the
last answer; figures are medians of the turns, "p99 of all" is over the bulks of all turns. Ratios are of these medians, with the 95 % interval of a
bootstrap over the rounds. Shard requests are counted at the nodes: Elasticsearch counts
them itself, in OpenSearch each is a task of the write pools at both copies. Skew is the fullest shard to the mean,
before the case and after it.
`

const whyFew = `The clients are as few because nodes, sidesteps and clients share the cores of one machine. With eight clients and two cores
bulks wait for a core: the p99 of the healthy cluster was 190 ms, so that a node 200 ms late did not even double it
([measured with OpenSearch](bulk-opensearch-8-clients.md), ` + "`-connections 8`" + `).

`

// markdown is the whole result.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Bulks: %s\n\nMeasured %s by `make bench-bulk ENGINE=%s` (%#q, %.0f minutes): %s %s, sidestep %s, %s.\n\n",
		r.Engine, r.began.UTC().Format("2006-01-02 15:04"), r.Engine, r.command, r.took.Minutes(), r.Engine, r.Version, r.sidestepVersion, machine.Name())
	fmt.Fprintf(&b, "%d rounds of turns of %s, %d clients, bulks of %d documents of about 300 bytes. %s\n", r.rounds, r.turn, r.connections, r.documents, explanation)
	if r.connections == usualClients {
		b.WriteString(whyFew)
	}
	fmt.Fprintf(&b, "![documents/s and p99, relative to direct](%s.svg)\n\n", r.name())
	for _, line := range r.verdicts() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	for _, o := range r.outcomes {
		b.WriteString("\n" + r.section(o))
	}
	return b.String()
}
