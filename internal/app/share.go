package app

import (
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// sharing is a selection that tells others what its probes found, and learns from theirs: what a
// relay and its followers exchange.
type sharing struct{ *selection.Selector }

// Findings implements [relay.Prober].
func (s sharing) Findings(after int64) []cluster.Finding {
	found := s.Selector.Findings(after)
	told := make([]cluster.Finding, len(found))
	for i, f := range found {
		told[i] = cluster.Finding{Number: f.Number, Sent: f.Sent, Local: f.Local, Probes: make([]cluster.FoundProbe, len(f.Probes))}
		for j, p := range f.Probes {
			told[i].Probes[j] = cluster.FoundProbe{
				Node: p.Node, Via: p.Via, Burst: p.Burst, Took: p.Outcome.Took, Failed: p.Outcome.Failed, Message: p.Outcome.Message,
			}
		}
	}
	return told
}

// TakeIn implements [relay.Prober].
func (s sharing) TakeIn(f cluster.Finding) {
	heard := selection.Finding{Number: f.Number, Sent: f.Sent, Local: f.Local, Probes: make([]selection.FoundProbe, len(f.Probes))}
	for i, p := range f.Probes {
		heard.Probes[i] = selection.FoundProbe{
			Node: p.Node, Via: p.Via, Burst: p.Burst,
			Outcome: selection.ProbeOutcome{Took: p.Took, Failed: p.Failed, Message: p.Message},
		}
	}
	s.Selector.TakeIn(heard, time.Now())
}
