package selection

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Account is a decision as an operator reads it, with the numbers that it was made
// from. Durations in milliseconds.
type Account struct {
	Reason Reason `json:"reason"`
	// Summary says in words what was decided and why.
	Summary string `json:"summary"`
	// Limit is from which response time on, less what the node's own queue explains, a
	// candidate stands out, null
	// while nothing is measured, or the policy knows no outliers. It is slowFactor times
	// Median plus slowSlack.
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
	Excluded Exclusion `json:"excluded,omitzero"`
	Why      string    `json:"why,omitempty"`
	// Rank is the policy's, in ms for those of C3; lower is better.
	Rank float64 `json:"rank"`
	// Measured is false where there are no statistics: then Rank is the others' median.
	Measured bool  `json:"measured"`
	Parts    Parts `json:"parts"`
	// QueueEstimate is q̂ = 1 + outstanding × clients + queue.
	QueueEstimate float64 `json:"queue_estimate"`
	// Unqueued is the response time less what the node's queue explains: the figure
	// that is held against the limit.
	Unqueued float64 `json:"response_less_queue_ms"`
	// ShardQueries are those that the search brings the node, in the mean.
	ShardQueries float64 `json:"shard_queries"`
}

// Account tells of d as it was decided for req, with at most so many candidates. What
// was measured is as of then; why a node is kept out is what is known now.
func (s *Selector) Account(d *Decision, req Request, most int, now time.Time) Account {
	a := Account{Reason: d.Reason}
	if s.policy.health && !math.IsInf(d.limit, 1) {
		limit := d.limit
		middle := (limit - slowSlack) / slowFactor
		a.Limit, a.Median = &limit, &middle
	}
	copies := d.firstShards(req)
	for i, p := range d.order {
		c, n, m := d.candidates[p], req.Nodes[p], d.measured[i]
		one := Candidate{
			Node: n.Name, NodeID: n.ID, Listed: c.listed, Rank: c.rank, Measured: m.known, Parts: m.Parts,
			QueueEstimate: m.estimate(s.n), Unqueued: m.unqueued,
			Excluded: s.Verdict(d, copies[p], p),
		}
		if c.listed {
			one.ShardQueries = c.tasks
		}
		if math.IsInf(one.Rank, 0) { // the policy ars: who is not measured comes first
			one.Rank = 0
		}
		one.Why = s.why(d, one, n)
		a.Candidates = append(a.Candidates, one)
	}
	slices.SortStableFunc(a.Candidates, func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(y.weight(), x.weight()), cmp.Compare(x.Rank, y.Rank))
	})
	a.Summary = s.summary(d, req, a)
	if len(a.Candidates) > most {
		a.Omitted = len(a.Candidates) - most
		a.Candidates = slices.Clone(a.Candidates[:most])
	}
	return a
}

// weight puts candidates that something speaks against first.
func (c Candidate) weight() int {
	switch {
	case c.Excluded.keepsOut():
		return 2
	case c.Excluded == OverLimit:
		return 1
	default:
		return 0
	}
}

// firstShards returns for each candidate the copies of the first shard it has one of.
func (d *Decision) firstShards(req Request) map[int][]int {
	first := make(map[int][]int, len(d.order))
	for _, copies := range req.Shards {
		if len(first) == len(d.order) {
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

// Verdict says why d does not list the copy of a shard that is on the node at the
// position given; copies are the shard's, as in [Request.Shards]. NotExcluded: it
// does, and nothing speaks against the node.
func (s *Selector) Verdict(d *Decision, copies []int, position int) Exclusion {
	c := &d.candidates[position]
	if c.why != NotExcluded || c.listed {
		return c.why
	}
	may, _ := d.eligible(copies, s.factor)
	switch {
	case c.remote && !may.remote:
		return OtherZone
	case d.Reason == Affinity:
		return OtherSticks
	default:
		return RanksWorse
	}
}

// Bound is how many of the data nodes are ejected, and how many may be.
type Bound struct {
	Out    int `json:"out"`
	AtMost int `json:"at_most"`
	Nodes  int `json:"nodes"`
}

// Bound returns the bound on ejected nodes, and how far it is used.
func (s *Selector) Bound() Bound {
	var b Bound
	for _, n := range *s.all.Load() {
		if n.NoData {
			continue
		}
		b.Nodes++
		if n.health.excluded() {
			b.Out++
		}
	}
	b.AtMost = (b.Nodes + 1) / 3
	return b
}
