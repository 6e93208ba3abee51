// Package account tells operators what the selection knows of the nodes, and how a
// decision was made: in figures, and in words. It reads and changes nothing.
package account

import (
	"cmp"
	"math"
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
	// candidate stands out, null while nothing is measured, or the policy knows no
	// outliers. It is [selection.FarFactor] times Median plus [selection.SlowSlack].
	Limit  *float64 `json:"limit_ms"`
	Median *float64 `json:"median_ms"`
	// Candidates are the nodes with a copy: those that something speaks against, then
	// by rank.
	Candidates []Candidate `json:"candidates"`
	// Omitted is how many candidates there were beyond those shown.
	Omitted int `json:"candidates_omitted,omitempty"`
}

// Candidate is what a decision knew of one node with a copy, and made of it.
type Candidate struct {
	Node   string `json:"node"`
	NodeID string `json:"node_id"`
	Listed bool   `json:"listed"`
	// Excluded says what speaks against the node or its copies, Why the same in words.
	Excluded selection.Exclusion `json:"excluded,omitzero"`
	Why      string              `json:"why,omitempty"`
	// Rank is the policy's, in ms for adaptive; lower is better.
	Rank float64 `json:"rank"`
	// Measured is false where there are no statistics: then Rank is the others' median.
	Measured bool            `json:"measured"`
	Parts    selection.Parts `json:"parts"`
	// QueueEstimate is q̂ = 1 + outstanding × clients + queue.
	QueueEstimate float64 `json:"queue_estimate"`
	// Unqueued is the response time less what the node's queue explains: the figure
	// that is held against the limit.
	Unqueued float64 `json:"response_less_queue_ms"`
	// ShardQueries are those that the search brings the node, in the mean.
	ShardQueries float64 `json:"shard_queries"`
}

// subject is what an account is made of.
type subject struct {
	s     *selection.Selector
	d     *selection.Decision
	req   selection.Request
	nodes []selection.Assessment
	now   time.Time
}

// Of describes d as it was decided for req, with at most so many candidates. What was
// measured is as of then; why a node is left out is what is known now.
func Of(s *selection.Selector, d *selection.Decision, req selection.Request, most int, now time.Time) Account {
	a, about := Account{Reason: d.Reason}, subject{s, d, req, s.Assessments(d), now}
	if limit, ok := d.Limit(); ok {
		median := (limit - selection.SlowSlack) / selection.FarFactor
		a.Limit, a.Median = &limit, &median
	}
	copies := about.firstShards()
	for _, n := range about.nodes {
		one := Candidate{
			Node: n.Node.Name, NodeID: n.Node.ID, Listed: n.Listed, Rank: n.Rank, Measured: n.Measured, Parts: n.Parts,
			QueueEstimate: n.Queue, Unqueued: n.Unqueued, ShardQueries: n.Tasks,
			Excluded: s.Verdict(d, copies[n.Position], n.Position),
		}
		if math.IsInf(one.Rank, 0) { // the policy ars: a node that is not measured comes first
			one.Rank = 0
		}
		one.Why = about.why(one, n.Node)
		a.Candidates = append(a.Candidates, one)
	}
	slices.SortStableFunc(a.Candidates, func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(y.weight(), x.weight()), cmp.Compare(x.Rank, y.Rank))
	})
	a.Summary = about.summary(a)
	if len(a.Candidates) > most {
		a.Omitted = len(a.Candidates) - most
		a.Candidates = slices.Clone(a.Candidates[:most])
	}
	return a
}

// weight puts candidates that something speaks against first.
func (c Candidate) weight() int {
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
