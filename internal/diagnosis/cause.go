package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Cause is what lies behind a spike. The set is closed: it is a metric label.
type Cause string

// Causes of spikes.
const (
	CauseGC           Cause = "gc_pause"
	CauseMerge        Cause = "merge_burst"
	CauseRefresh      Cause = "refresh_burst"
	CauseFetch        Cause = "fetch_heavy"
	CauseQueue        Cause = "queue_saturation"
	CauseCPU          Cause = "cpu_starvation"
	CausePause        Cause = "pause"
	CauseTransport    Cause = "network_transport"
	CauseHTTP         Cause = "network_http"
	CauseUnresponsive Cause = "unresponsive"
	CauseUnknown      Cause = "unknown"
)

// Causes returns all of them.
func Causes() []Cause {
	return []Cause{
		CauseGC, CauseMerge, CauseRefresh, CauseFetch, CauseQueue, CauseCPU,
		CausePause, CauseTransport, CauseHTTP, CauseUnresponsive, CauseUnknown,
	}
}

// meaning describes a cause in words.
func (c Cause) meaning() string {
	switch c {
	case CauseGC:
		return "the garbage collector stopped the node"
	case CauseMerge:
		return "merges of segments took the node's CPU and disk"
	case CauseRefresh:
		return "refreshes took the node's CPU"
	case CauseFetch:
		return "the node was busy fetching documents"
	case CauseQueue:
		return "more searches came than the node could take"
	case CauseCPU:
		return "the node got too little CPU"
	case CausePause:
		return "the node's process stood still"
	case CauseTransport:
		return "the network between the nodes was slow, the node itself was not"
	case CauseHTTP:
		return "HTTP to the node was slow or cut, the node itself was not"
	case CauseUnresponsive:
		return "the node did not answer"
	default:
		return "nothing that was captured explains it"
	}
}

// threshold is the least score at which a cause is named. Healthy nodes have causes with
// lower scores, too. What may be as usual has unnamed at most: it is told, and not named.
const threshold, unnamed = 0.5, 0.4

// ScoredCause is a cause with its evidence.
type ScoredCause struct {
	Cause Cause `json:"cause"`
	// Score says how well the cause explains the spike: from 0, not at all, to 1,
	// entirely.
	Score    float64    `json:"score"`
	Evidence []Evidence `json:"evidence"`
}

// Assess scores the causes for which a record has evidence, the most likely first. It is
// a pure function of the record.
func Assess(rec *Record) []ScoredCause {
	best := map[Cause]ScoredCause{}
	for _, bout := range rec.Bouts {
		for _, s := range assess(gather(rec, bout)) {
			if s.Score > best[s.Cause].Score {
				best[s.Cause] = s
			}
		}
	}
	scored := slices.AppendSeq([]ScoredCause{}, maps.Values(best))
	slices.SortFunc(scored, func(a, b ScoredCause) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(string(a.Cause), string(b.Cause)))
	})
	return scored
}

// assess scores the causes of one bout.
func assess(f *facts) (scored []ScoredCause) {
	for _, c := range []struct {
		cause Cause
		judge func(*facts) (float64, []Evidence)
	}{
		{CauseGC, gcPause},
		{CauseMerge, mergeBurst},
		{CauseRefresh, refreshBurst},
		{CauseFetch, fetchHeavy},
		{CauseQueue, queueSaturation},
		{CauseCPU, cpuStarvation},
		{CausePause, standstill},
		{CauseTransport, slowTransport},
		{CauseHTTP, slowHTTP},
		{CauseUnresponsive, unresponsive},
	} {
		score, evidence := c.judge(f)
		if score > 0 {
			scored = append(scored, ScoredCause{Cause: c.cause, Score: rounded(min(score, 1)), Evidence: evidence})
		}
	}
	return scored
}

// verdict names the cause of a record whose causes are scored. It returns the evidence
// and a sentence about the cause.
func verdict(rec *Record) (cause Cause, evidence []Evidence, summary string) {
	cause, evidence = CauseUnknown, []Evidence{}
	if len(rec.Causes) > 0 && rec.Causes[0].Score >= threshold {
		cause, evidence = rec.Causes[0].Cause, rec.Causes[0].Evidence
	}
	parts := make([]string, 0, 2)
	for _, e := range evidence[:min(2, len(evidence))] {
		parts = append(parts, e.String())
	}
	summary = cause.meaning()
	if len(parts) > 0 {
		summary += " (" + strings.Join(parts, ", ") + ")"
	}
	return cause, evidence, summary
}

// String writes a finding as part of a sentence.
func (e Evidence) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", e.Text, strconv.FormatFloat(e.Value, 'f', -1, 64), e.Unit))
}

// finding is one piece of evidence, with its figure rounded.
func finding(value float64, unit, text string) Evidence {
	switch {
	case unit == "%":
		value *= 100
		value = float64(int64(value + 0.5))
	case value >= 10:
		value = float64(int64(value + 0.5))
	default:
		value = rounded(value)
	}
	return Evidence{Text: text, Value: value, Unit: unit}
}

// rounded keeps two decimals.
func rounded(v float64) float64 { return float64(int64(v*100+0.5)) / 100 }
