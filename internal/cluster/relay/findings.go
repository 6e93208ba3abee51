package relay

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidestep/internal/cluster"
)

const (
	// maxSuspects bounds the nodes that a sidestep names to its relay at once. Of those that it does not name it
	// finds out by itself.
	maxSuspects = 50
	// maxReportedFindings bounds the findings of a report that are taken in, the last ones.
	maxReportedFindings = 64
	// maxReportedProbes bounds the probes of a finding.
	maxReportedProbes = 64
	// maxTook bounds the time that a probe is told to have taken: probes are waited for half as long.
	maxTook = 2 * time.Second
)

// Prober is the selection of a sidestep, which says what is to be probed, learns from probes, and knows what is drained.
type Prober interface {
	// DrainedNodes returns the ids of the nodes that are drained here, sorted.
	DrainedNodes(now time.Time) []string
	// Findings returns what probes sent from here found, after the finding of this number.
	Findings(after int64) []cluster.Finding
	// Suspected takes in which nodes others suspect.
	Suspected(ids []string, now time.Time)
	// Suspects appends the nodes that are suspected here.
	Suspects(dst []string, now time.Time) []string
	// TakeIn takes in what the probes of another found.
	TakeIn(f cluster.Finding)
}

// fedFinding is a finding, and the report in which it is told.
type fedFinding struct {
	cluster.Finding
	seq int64
}

// takeDrained takes in which nodes are drained, and reports whether these are others than before.
func (f *feed) takeDrained(now time.Time) bool {
	if f.prober == nil {
		return false
	}
	before := f.drained
	f.drained = f.prober.DrainedNodes(now)
	return !slices.Equal(before, f.drained)
}

// takeFindings takes in what was found since the last report. Readers that are keptBodies reports
// behind need not know.
func (f *feed) takeFindings() {
	if f.prober == nil {
		return
	}
	f.findings = slices.DeleteFunc(f.findings, func(found fedFinding) bool { return found.seq <= f.seq-keptBodies })
	for _, found := range f.prober.Findings(f.found) {
		f.found = found.Number
		f.findings = append(f.findings, fedFinding{found, f.seq})
	}
}

// findingsSince returns what is told of findings after a report.
func (f *feed) findingsSince(after int64) (told []reportedFinding) {
	for _, found := range f.findings {
		if found.seq <= after {
			continue
		}
		r := reportedFinding{Sent: f.clock(found.Sent), Local: found.Local}
		for _, p := range found.Probes {
			node, known := f.numbers[p.Node]
			via, also := f.numbers[p.Via]
			if known && also {
				r.Probes = append(r.Probes, reportedProbe{
					Node: node, Via: via, Burst: p.Burst, Took: min(p.Took, maxTook).Microseconds(), Failed: p.Failed,
					Error: p.Message[:min(len(p.Message), maxReportedText)],
				})
			}
		}
		if len(r.Probes) > 0 {
			told = append(told, r)
		}
	}
	return told
}

// suspected has the nodes probed that a reader suspects, by their places in the list of this relay.
func (f *feed) suspected(relay, places string, busy bool) {
	if f.prober == nil || places == "" && !busy {
		return
	}
	f.prober.Suspected(f.named(relay, places), time.Now())
}

// named returns the ids of nodes by their places in the list of a relay; of another one there are none.
func (f *feed) named(relay, places string) (ids []string) {
	texts := strings.SplitN(places, ",", maxSuspects+1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if relay != f.relay {
		return nil
	}
	for _, text := range texts[:min(len(texts), maxSuspects)] {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < len(f.ids) {
			ids = append(ids, f.ids[n])
		}
	}
	return ids
}

// suspects returns the part of a request that names the nodes suspected here.
func (f *Follower) suspects() string {
	if f.o.Prober == nil {
		return ""
	}
	var places []string
	for _, id := range f.o.Prober.Suspects(nil, time.Now()) {
		if i := slices.Index(f.ids, id); i >= 0 && len(places) < maxSuspects {
			places = append(places, strconv.Itoa(i))
		}
	}
	if len(places) == 0 {
		return ""
	}
	return "&suspects=" + url.QueryEscape(strings.Join(places, ","))
}

// applyFindings takes in what the relay's probes found. One that says what no probe finds is left out.
func (f *Follower) applyFindings(r *report) {
	if f.o.Prober == nil {
		return
	}
	for _, told := range r.Findings[max(0, len(r.Findings)-maxReportedFindings):] {
		if !told.valid(len(f.ids)) {
			continue
		}
		found := cluster.Finding{Sent: f.time(min(told.Sent, r.Now)), Local: told.Local}
		for _, p := range told.Probes {
			found.Probes = append(found.Probes, cluster.FoundProbe{
				Node: f.id(p.Node), Via: f.id(p.Via), Burst: p.Burst, Took: time.Duration(p.Took) * time.Microsecond, Failed: p.Failed,
				Message: strings.Clone(p.Error[:min(len(p.Error), maxReportedText)]),
			})
		}
		f.o.Prober.TakeIn(found)
	}
}

// valid reports whether a finding is one, where there are so many ids of nodes.
func (r *reportedFinding) valid(ids int) bool {
	if r.Sent < 0 || r.Sent > maxClock || len(r.Probes) > maxReportedProbes {
		return false
	}
	for i, p := range r.Probes {
		twice := slices.ContainsFunc(r.Probes[:i], func(o reportedProbe) bool { return o.Node == p.Node })
		if twice || min(p.Node, p.Via) < 0 || max(p.Node, p.Via) >= ids || p.Took < 0 || p.Took > maxTook.Microseconds() {
			return false
		}
	}
	return true
}
