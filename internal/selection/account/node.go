package account

import (
	"time"

	"sidestep/internal/selection"
)

// Node is what an operator sees of a node.
type Node struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	// Since is when the state began, null while the node was never seen.
	Since *time.Time `json:"since"`
	// Why says what spoke against the node, while it is busy, slow, failing or in
	// slow start.
	Why string `json:"why,omitempty"`
	// Leaving is how the node is said to be about to leave: "drained", "excluded",
	// "decommissioned" or "shutdown". LeavingUntil is until when it is drained.
	Leaving      string          `json:"leaving,omitempty"`
	LeavingUntil *time.Time      `json:"leaving_until,omitempty"`
	Rank         *float64        `json:"rank"` // null without statistics
	Parts        selection.Parts `json:"parts"`
	Overhead     float64         `json:"http_overhead_ms"`
	Outstanding  int64           `json:"outstanding"`
	// Coordinating are the requests sent through the node and not answered yet, steered or not.
	Coordinating int64   `json:"coordinating"`
	Searches     int64   `json:"searches"` // whose list had the node
	Failures     int64   `json:"failures"`
	Share        float64 `json:"share_last_minute"` // of expected shard queries, 0..1
	// PollAge is how long ago, in seconds, the node last answered a poll; null if
	// it never did.
	PollAge *float64 `json:"poll_age_s"`
	// Probes of the node that were answered, or not within [selection.ProbeTimeout], and
	// the time that they took together.
	Probes    int64         `json:"probes"`
	ProbeTime time.Duration `json:"-"`

	LastError *selection.NodeError `json:"last_error"`
}

// Nodes describes nodes at now, in the order given.
func Nodes(s *selection.Selector, nodes []*selection.Node, now time.Time) []Node {
	out, sent := make([]Node, len(nodes)), make([]float64, len(nodes))
	var all float64
	for i, n := range nodes {
		f := s.Figures(n, now)
		out[i], sent[i] = shown(n, f, now), f.Sent
		all += f.Sent
	}
	for i := range out {
		if all > 0 {
			out[i].Share = sent[i] / all
		}
	}
	return out
}

func shown(n *selection.Node, f selection.Figures, now time.Time) Node {
	v := Node{
		ID: n.ID, Name: n.Name, State: f.State.String(), Why: f.Why, Leaving: f.Leaving,
		Parts: f.Parts, Overhead: f.Overhead, Outstanding: n.Outstanding(), Coordinating: n.Coordinating(),
		Searches: f.Searches, Failures: f.Failures, Probes: f.Probes, ProbeTime: f.ProbeTime, LastError: f.LastError,
	}
	if !f.Since.IsZero() {
		since := f.Since.UTC().Truncate(time.Millisecond)
		v.Since = &since
	}
	if !f.LeavingUntil.IsZero() {
		until := f.LeavingUntil.UTC().Truncate(time.Second)
		v.LeavingUntil = &until
	}
	if !f.Polled.IsZero() {
		age := max(0, now.Sub(f.Polled).Seconds())
		v.PollAge = &age
	}
	if f.Measured {
		v.Rank = &f.Rank
	}
	return v
}
