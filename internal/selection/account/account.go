// Package account tells operators what the selection knows of the nodes, and how a
// decision was made: in figures, and in words. It reads and changes nothing.
package account

import (
	"cmp"
	"slices"
	"time"

	"sidestep/internal/selection"
)

// Account is a decision as an operator reads it, with the numbers that it was made
// from. Durations in milliseconds.
type Account struct {
	Reason selection.Reason `json:"reason"`
	// Summary says in words what was decided and why.
	Summary string `json:"summary"`
	// Limit is from which response time on, less what the node's own queue explains, a
	// candidate stands out, null while nothing is measured. It is [selection.FarFactor] times Median plus [selection.SlowSlack].
	Limit  *float64 `json:"limit_ms"`
	Median *float64 `json:"median_ms"`
	// Candidates are the nodes with a copy: those that something speaks against, then
	// by rank.
	Candidates []Candidate `json:"candidates"`
	// Omitted is how many candidates there were beyond those shown.
	Omitted int `json:"candidates_omitted,omitempty"`
}

// Candidate is a candidate as an operator reads it.
type Candidate struct {
	Name string `json:"node"`
	ID   string `json:"node_id"`
	// Candidate is as it was decided; Excluded is the verdict on its copies.
	selection.Candidate
	// QueueEstimate is q̂ = 1 + outstanding × clients + queue.
	QueueEstimate float64 `json:"queue_estimate"`
	// Why says in words what Excluded does.
	Why string `json:"why,omitempty"`
}

// subject is what an account is made of.
type subject struct {
	s     *selection.Selector
	d     *selection.Decision
	req   selection.Request
	nodes []Candidate // by position
	now   time.Time
}

// Of describes d as it was decided for req, with at most so many candidates. What was
// measured is as of then; why a node is left out is what is known now.
func Of(s *selection.Selector, d *selection.Decision, req selection.Request, most int, now time.Time) Account {
	a, about := Account{Reason: d.Reason}, subject{s, d, req, make([]Candidate, len(d.Candidates())), now}
	if limit, ok := d.Limit(); ok {
		median := (limit - selection.SlowSlack) / selection.FarFactor
		a.Limit, a.Median = &limit, &median
	}
	copies := about.firstShards()
	for i, was := range d.Candidates() {
		c := &about.nodes[i]
		*c = Candidate{Name: was.Node.Name, ID: was.Node.ID, Candidate: *was, QueueEstimate: s.QueueEstimate(was.Parts)}
		c.Excluded = s.Verdict(d, copies[c.Position], c.Position)
		c.Why = about.why(c)
	}
	a.Candidates = slices.Clone(about.nodes)
	slices.SortStableFunc(a.Candidates, func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(weight(y), weight(x)), cmp.Compare(x.Rank, y.Rank))
	})
	a.Summary = about.summary(a)
	if len(a.Candidates) > most {
		a.Omitted = len(a.Candidates) - most
		a.Candidates = slices.Clone(a.Candidates[:most])
	}
	return a
}

// Nodes describes nodes at now, in the order given.
func Nodes(s *selection.Selector, nodes []*selection.Node, now time.Time) []selection.Figures {
	out := make([]selection.Figures, len(nodes))
	var sent, coordinated float64
	for i, n := range nodes {
		out[i] = s.Figures(n, now)
		sent += out[i].Sent
		coordinated += out[i].CoordinatedLately
	}
	for i := range out {
		out[i].Share, out[i].CoordinatedShare = part(out[i].Sent, sent), part(out[i].CoordinatedLately, coordinated)
	}
	return out
}

// part returns which part of all v is, 0 of nothing.
func part(v, all float64) float64 {
	if all == 0 {
		return 0
	}
	return v / all
}

// weight puts candidates that something speaks against first.
func weight(c Candidate) int {
	switch {
	case c.Excluded.KeepsOut():
		return 2
	case c.Excluded == selection.OverLimit:
		return 1
	default:
		return 0
	}
}

// firstShards returns for each node the copies of the first shard it has one of.
func (about subject) firstShards() map[int][]int {
	first := make(map[int][]int, len(about.nodes))
	for _, copies := range about.req.Shards {
		if len(first) == len(about.nodes) {
			break
		}
		for _, p := range copies {
			if _, ok := first[p]; !ok {
				first[p] = copies
			}
		}
	}
	return first
}
