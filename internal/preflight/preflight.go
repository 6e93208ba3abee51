// Package preflight looks at a cluster the way an operator would before trusting
// sidestep with it: can it be reached, may sidestep's account ask what it must, do
// the nodes' addresses lead anywhere, which settings of the engine meet with what
// sidestep does, and how much of the traffic is steered. It asks by reading alone,
// and only when somebody wants to know.
package preflight

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sidestep/internal/cluster"
)

const (
	// deadline bounds a whole check, defaultTimeout one of its questions: longer than a node waits for the others that it
	// asks for their part.
	deadline       = 15 * time.Second
	defaultTimeout = 3 * time.Second
	// apart is the least time between two checks. Each asks all nodes, and whoever reaches the admin
	// listener can ask for one, pages of other sites too.
	apart = time.Second
)

// Level says how much a finding matters.
type Level string

// Levels, the least grave first.
const (
	OK      Level = "ok"      // as it should be
	Note    Level = "note"    // worth knowing; nothing is wrong
	Problem Level = "problem" // sidestep cannot do what it is for, or not for all
)

// Finding is one thing that was found out.
type Finding struct {
	Level Level  `json:"level"`
	Topic Topic  `json:"topic"`
	Text  string `json:"text"`
	// Advice is what to do about it; empty if there is nothing to do.
	Advice string `json:"advice,omitempty"`
}

// Topic is what a finding is about. The set is closed.
type Topic string

// Topics, in the order in which findings are told.
const (
	TopicCluster  Topic = "cluster"  // does it answer, is it known
	TopicAccount  Topic = "account"  // what sidestep's own account may ask
	TopicNodes    Topic = "nodes"    // versions, roles, zones, addresses, clocks
	TopicCopies   Topic = "copies"   // is there anything to choose from
	TopicSettings Topic = "settings" // of the engine
	TopicTraffic  Topic = "traffic"  // what is steered of what passes
)

// Report is the outcome of a check.
type Report struct {
	At   time.Time `json:"at"`
	Took float64   `json:"took_ms"`
	// Level is the gravest of the findings.
	Level    Level     `json:"level"`
	Findings []Finding `json:"findings"`
}

// Facts are what the running sidestep knows.
type Facts struct {
	// Snapshot is nil until an engine was recognised.
	Snapshot *cluster.Snapshot
	// Missing says why searches cannot be steered; nil if they can.
	Missing error
	// Mode of routing: "route", "observe" or "off".
	Mode string
	// Decisions counts the clients' requests by reason, Observed what mode observe
	// decided by its own reason.
	Decisions, Observed map[string]int64
	// Sniffed counts the clients' questions for the nodes' own addresses that
	// were answered with these.
	Sniffed int64
}

// Options configures a [Checker].
type Options struct {
	// Client asks with sidestep's own account.
	Client *http.Client
	// Seeds are the addresses of the cluster that were configured.
	Seeds []*url.URL
	// Static says that nodes are not talked to at addresses of their own.
	Static bool
	// Account says that sidestep has an account of its own.
	Account bool
	// Zone is the node attribute that names a node's zone to sidestep; empty if
	// zones do not count.
	Zone string
	// Counts says that documents are counted, as bulks go to one shard or to slots.
	Counts bool
	// Facts returns what is known now.
	Facts func() Facts
	// Timeout bounds each question, default 3 s.
	Timeout time.Duration
}

// Checker makes checks, one at a time and one a second: who asks while one is being made, or waited
// for, gets its report. Make it with [New].
type Checker struct {
	o     Options
	ask   asker
	calls singleflight.Group

	last time.Time // when the last one ended; only the call under way uses it
}

// New returns a checker.
func New(o Options) *Checker {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Checker{o: o, ask: asker{client: o.Client, timeout: o.Timeout}}
}

// Run makes a check, at least a second after the last one. It takes at most 16 s, whatever the
// cluster does.
func (c *Checker) Run(ctx context.Context) *Report {
	report, _, _ := c.calls.Do("", func() (any, error) {
		time.Sleep(apart - time.Since(c.last))
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
		defer cancel()
		defer func() { c.last = time.Now() }()
		return c.run(bounded), nil
	})
	return report.(*Report)
}

func (c *Checker) run(ctx context.Context) *Report {
	began := time.Now()
	facts := c.o.Facts()
	reach := c.reach(ctx, facts)
	findings := slices.Concat(reach.findings, c.known(facts))
	switch s := facts.Snapshot; {
	case reach.via == nil:
	case s == nil: // what answers may be no engine, refuse all that is asked, or not have been asked yet
		findings = append(findings, c.lacking(ctx, reach.via)...)
	default:
		findings = append(findings, concat(
			func() []Finding { return c.account(ctx, reach.via, s) },
			func() []Finding { return c.nodes(ctx, reach.via, s) },
			func() []Finding { return c.clocks(ctx, reach.via) },
			func() []Finding { return copies(s) },
			func() []Finding { return c.settings(ctx, reach.via, s.Engine) },
		)...)
	}
	findings = once(append(findings, traffic(facts)...))
	report := &Report{
		At: began.UTC().Truncate(time.Millisecond), Level: OK, Findings: findings,
		Took: float64(time.Since(began).Microseconds()) / 1000,
	}
	for _, f := range findings {
		if f.Level == Problem || f.Level == Note && report.Level == OK {
			report.Level = f.Level
		}
	}
	return report
}

// once leaves out what was said before: the account may be refused by an address that was given, and by a node.
func once(findings []Finding) []Finding {
	said := map[Finding]bool{}
	return slices.DeleteFunc(findings, func(f Finding) bool {
		again := said[f]
		said[f] = true
		return again
	})
}

// concat runs the parts at once and joins what they find, in their order.
func concat(parts ...func() []Finding) []Finding {
	found := make([][]Finding, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { found[i] = part() })
	}
	wg.Wait()
	var all []Finding
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}
