package relay

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidestep/internal/selection"
)

// maxSuspects bounds the nodes that a sidestep names to its relay at once. A third of the nodes is
// ejected at most, and of more a relay probes a few at a time.
const maxSuspects = 50

// Prober is the selection of a sidestep, which says what is to be probed, and learns from probes.
type Prober interface {
	// Findings returns what probes sent from here found, after the finding of this number.
	Findings(after int64) []selection.Finding
	// Suspected takes in which nodes others suspect.
	Suspected(ids []string, now time.Time)
	// Suspects appends the nodes that are suspected here.
	Suspects(dst []string, now time.Time) []string
	// TakeIn takes in what the probes of another found.
	TakeIn(f selection.Finding, now time.Time)
}

// fedFinding is a finding, and the report in which it is told.
type fedFinding struct {
	selection.Finding
	seq int64
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
					Node: node, Via: via, About: p.AboutVia, Took: p.Outcome.Took.Microseconds(), Failed: p.Outcome.Failed,
					Error: p.Outcome.Message[:min(len(p.Outcome.Message), maxReportedText)],
				})
			}
		}
		told = append(told, r)
	}
	return told
}

// suspected has the nodes probed that a reader suspects, by their places in the list of this relay.
func (f *feed) suspected(relay, places string, busy bool) {
	if f.prober == nil || places == "" && !busy {
		return
	}
	f.mu.Lock()
	var ids []string
	if relay == f.relay {
		for text := range strings.SplitSeq(places, ",") {
			if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < len(f.ids) && len(ids) < maxSuspects {
				ids = append(ids, f.ids[n])
			}
		}
	}
	f.mu.Unlock()
	f.prober.Suspected(ids, time.Now())
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
func (f *Follower) applyFindings(r *report, now time.Time) {
	if f.o.Prober == nil {
		return
	}
	for _, told := range r.Findings {
		if !told.valid(len(f.ids)) {
			continue
		}
		found := selection.Finding{Sent: f.time(min(told.Sent, r.Now)), Local: told.Local}
		for _, p := range told.Probes {
			found.Probes = append(found.Probes, selection.FoundProbe{
				Node: f.id(p.Node), Via: f.id(p.Via), AboutVia: p.About,
				Outcome: selection.ProbeOutcome{
					Took: time.Duration(p.Took) * time.Microsecond, Failed: p.Failed,
					Message: strings.Clone(p.Error[:min(len(p.Error), maxReportedText)]),
				},
			})
		}
		f.o.Prober.TakeIn(found, now)
	}
}

// valid reports whether a finding is one, where there are so many ids of nodes.
func (r *reportedFinding) valid(ids int) bool {
	return r.Sent >= 0 && r.Sent <= maxClock && !slices.ContainsFunc(r.Probes, func(p reportedProbe) bool {
		return min(p.Node, p.Via) < 0 || max(p.Node, p.Via) >= ids || p.Took < 0 || p.Took > (2*selection.ProbeTimeout).Microseconds()
	})
}
