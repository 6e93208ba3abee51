package selection

import (
	"slices"
	"time"

	"sidestep/internal/stats"
)

// Reason says why a decision is what it is. The set is closed: the same value
// is logged, counted and shown.
type Reason string

// Reasons of a decision.
const (
	// Ranked: copies chosen by rank.
	Ranked Reason = "ranked"
	// NoStatistics: no service time is known of any candidate, so all are equal.
	NoStatistics Reason = "no_statistics"
	// FailOpen: every copy of some shard is on a node that should be kept out;
	// all its copies are listed.
	FailOpen Reason = "fail_open"
	// NoOutlier: no node stands out, so the engine's own selection, which ranks for each shard, may decide.
	NoOutlier Reason = "no_outlier"
	// NoGain: a node is to be kept out, but a list would have to use it, or another slow one, or nodes in whose queues
	// searches wait, so the engine's own selection decides.
	NoGain Reason = "no_gain"
	// Affinity: the same copies for the same [Request.Affinity], while they are fit.
	Affinity Reason = "affinity"
	// Overloaded: all copies of some shard are on nodes that reject searches, their
	// queues being full. No list can help, and what is sent twice makes it worse.
	Overloaded Reason = "overloaded"
	// NoChoice: every shard has one copy only.
	NoChoice Reason = "no_choice"
)

// Reasons returns the closed set.
func Reasons() []Reason {
	return []Reason{Ranked, NoStatistics, FailOpen, NoOutlier, NoGain, Affinity, Overloaded, NoChoice}
}

// Lists reports whether a search is sent with a list of nodes for this reason; else it
// is sent as the client wrote it.
func (r Reason) Lists() bool { return !r.Left() && r != Overloaded && r != NoChoice }

// Left reports whether the choice is left to the engine's own selection for this reason.
func (r Reason) Left() bool { return r == NoOutlier || r == NoGain }

// Request is what a search touches.
type Request struct {
	// Nodes of the snapshot, by position.
	Nodes []*Node
	// Shards holds, for each shard, the positions of the nodes whose copy may
	// serve.
	Shards [][]int
	// Weights says, parallel to Shards, for how many shards with the same copies an
	// entry stands; nil: for one each. Choosing costs what there are entries.
	Weights []int
	// Outline sums Shards and Weights up, where they are many; may be nil. While all copies are listed a choice then
	// costs what there are nodes.
	Outline *Outline
	// Avoid lists nodes that failed this very search: they are kept out while
	// every shard keeps another copy.
	Avoid []*Node
	// Outliers asks for a list only while some candidate stands out and the list gains something, or a node is
	// expected ([Decision.Expects]); else the
	// decision is NoOutlier or NoGain, with all candidates in it: what the engine picks
	// is among them. One shard is chosen unless others send more to its nodes.
	Outliers bool
	// Affinity is a hash of what is to be served by the same copies each time, 0 if
	// nothing is. Sticky lists them although nobody stands out.
	Affinity uint64
	Sticky   bool
}

// Outline is what can be told once of the sets of copies of a wide target. Its slices are parallel.
type Outline struct {
	Nodes []int     // positions of the nodes with a copy, sorted
	Tasks []float64 // shard queries that each may expect if all copies are listed
	Sole  []bool    // it has the only copy of some shard
}

// weight returns for how many shards an entry of Shards stands.
func (r Request) weight(entry int) float64 {
	if r.Weights == nil {
		return 1
	}
	return float64(r.Weights[entry])
}

// OneShard reports whether the search touches one shard alone.
func (r Request) OneShard() bool {
	return len(r.Shards) == 1 && (len(r.Weights) == 0 || r.Weights[0] == 1)
}

// Decision is the set of nodes that serves a search, and the lease on their
// outstanding counts once acquired. A zero Decision is ready for
// [Selector.Choose] and may be used again after its lease was returned.
type Decision struct {
	// Nodes may serve the search, ordered by position.
	Nodes []*Node
	// Coordinator is the node to send the search to, one of all nodes.
	Coordinator *Node
	Reason      Reason
	start       int64
	items       int64        // that the lease is for; 0: there is none
	listed      []*Candidate // parallel to Nodes
	limit       float64      // ms: response time above which a candidate is slow
	remote      bool         // some candidate is in another zone, and some is not
	expects     bool         // see [Decision.Expects]

	// scratch
	candidates []Candidate  // by position; of nodes without a copy empty
	order      []*Candidate // those with a copy, by position
	sorted     []float64
	through    pool // the nodes listed, and those that only coordinate
	others     pool // that may coordinate in place of these
	inTurn     []*Node
}

// Near returns the node to send the search through although it is not steered, as one node alone has
// the copies: that one, or another while something speaks against it; nil if there is a choice of
// copies, or several nodes have them, or the node is full: what it coordinates takes CPU from its
// shard queries.
func (d *Decision) Near() *Node {
	if d.Reason != NoChoice || len(d.Nodes) != 1 || d.Nodes[0].full() {
		return nil
	}
	return d.Coordinator
}

// Candidate is what a choice knows of one node with a copy, has measured of it, and makes of it. Durations in
// milliseconds.
type Candidate struct {
	Node     *Node `json:"-"` // nil: it has no copy
	Position int   `json:"-"` // in Request.Nodes
	Listed   bool  `json:"listed"`
	// Excluded says what speaks against the node; in [Selector.Verdict], what does against a copy of it.
	Excluded Exclusion `json:"excluded,omitzero"`
	Rank     float64   `json:"rank"` // lower is better
	// Measured is false where its service time is not known: then Rank is the others' median.
	Measured bool `json:"measured"`
	Parts    `json:"parts"`
	// Unqueued is the response time less what the node's queue explains: the figure that is held against the limit.
	Unqueued float64 `json:"response_less_queue_ms"`
	// ShardQueries are those that the search brings the node, in the mean.
	ShardQueries float64 `json:"shard_queries"`

	cost   float64 // by which copies are listed: the rank, or the place in the order of affinity
	sole   bool    // it has the only listed copy of some shard
	remote bool    // it is in another zone
}

// out reports whether the node is not to be listed while the shard has another copy, whatever that is.
func (c *Candidate) out() bool { return c.Excluded >= FailedBefore }

// slow reports whether it is not to be listed while the shard has another copy that is not out either.
func (c *Candidate) slow() bool { return c.Excluded.KeepsOut() && !c.out() }

// Choose fills d with the decision for req at now. Every shard of req keeps at
// least one listed copy. It does not acquire the lease.
func (s *Selector) Choose(d *Decision, req Request, now time.Time) {
	t := turn{s: s, at: s.since(now), number: s.o.Seed + s.turn.Add(1), acts: true}
	s.choose(d, req, t)
}

// Undecided counts a search that passes as lists are forbidden: while there are searches nodes are probed, which finds out
// whether lists are allowed again.
func (s *Selector) Undecided() { s.turn.Add(1) }

// Preview is Choose for what else could be done after a choice: it changes nothing, neither turns nor statistics.
func (s *Selector) Preview(d *Decision, req Request, now time.Time) {
	s.choose(d, req, turn{s: s, at: s.since(now), number: s.o.Seed + s.turn.Load()})
}

// Next is Preview of the choice that comes next, for the eyes of an operator.
func (s *Selector) Next(d *Decision, req Request, now time.Time) {
	s.choose(d, req, turn{s: s, at: s.since(now), number: s.o.Seed + s.turn.Load() + 1})
}

func (s *Selector) choose(d *Decision, req Request, t turn) {
	d.collect(req)
	d.locate(s)
	d.exclude(req.Avoid, t)
	d.rank(t)
	switch {
	case d.Reason == NoChoice:
		d.listAll(NoChoice)
	case d.overloaded(req, t.at):
		d.listAll(Overloaded)
	case d.leaveToEngine(req):
		d.letChoose(req, t)
	case req.Affinity != 0:
		for _, copies := range req.Shards {
			d.stick(req, copies, t)
			d.listShard(copies, 0, t)
		}
	case req.OneShard():
		d.list(req, -1, t)
	default:
		d.list(req, nearSlack, t)
		if d.mayLeave(req) && !d.gains(t.at) {
			d.listAll(NoGain)
		}
	}
	d.gather(req)
	d.coordinate(req, t)
	// Where there is no choice only a node that could serve the search alone goes by polls.
	if t.acts && !d.Reason.Left() && (d.Reason != NoChoice || len(d.Nodes) == 1) {
		raise(&t.s.chosenAt, t.at)
	}
}

// listAll leaves the choice to the engine: whatever it picks is listed.
func (d *Decision) listAll(why Reason) {
	d.Reason = why
	for _, c := range d.order {
		c.Listed = true
	}
}

// collect finds the candidates: all nodes with a copy.
func (d *Decision) collect(req Request) {
	d.Nodes, d.listed = d.Nodes[:0], d.listed[:0]
	for _, c := range d.order {
		*c = Candidate{} // all others are, and of many nodes few have a copy
	}
	d.order = d.order[:0]
	d.Coordinator, d.Reason = nil, NoChoice
	d.limit, d.expects = 0, false
	d.candidates = slices.Grow(d.candidates[:0], len(req.Nodes))[:len(req.Nodes)]
	if slices.ContainsFunc(req.Shards, func(copies []int) bool { return len(copies) > 1 }) {
		d.Reason = Ranked
	}
	shards := req.Shards
	if req.Outline != nil {
		shards = [][]int{req.Outline.Nodes}
	}
	for _, copies := range shards {
		for _, p := range copies {
			if c := &d.candidates[p]; c.Node == nil {
				c.Node, c.Position = req.Nodes[p], p
				d.order = append(d.order, c)
			}
		}
	}
	slices.SortFunc(d.order, func(a, b *Candidate) int { return a.Position - b.Position })
}

// rank ranks the candidates. Nodes of which no service time is known get the median of the
// others: neither flooded nor starved. If it is of none, all are equal.
func (d *Decision) rank(t turn) {
	d.sorted = d.sorted[:0]
	for _, c := range d.order {
		if c.Parts, c.Measured = c.Node.parts(); c.Measured {
			c.Rank = c.Parts.Rank(t.s.n)
			d.sorted = append(d.sorted, c.Rank)
		}
	}
	median, missing := 0.0, len(d.order) > len(d.sorted)
	if missing && len(d.sorted) > 0 {
		_, median = stats.Medians(d.sorted)
	} else if missing && d.Reason == Ranked {
		d.Reason = NoStatistics
	}
	for _, c := range d.order {
		switch {
		case c.slow() && (c.Node.owes(t.at) || !c.Node.usable()):
			c.Rank = c.Node.rankExcluded(t.at)
		case !c.Measured:
			c.Rank = median
		}
		c.cost = c.Rank
	}
}

// rankExcluded returns the rank (ms) of a node that is excluded, for shards that have copies on such
// nodes only: by how soon it answered its last probe. Each of these comes after the one before, and after
// long queues of nodes that are about to leave: a node that is silent, for ProbeTimeout at most; one that is ejected and
// short of CPU, as its last probe met it idle; one that fails, or did not answer its last probe.
func (n *Node) rankExcluded(at int64) float64 {
	const next = twice * twice
	timeout := millis(ProbeTimeout)
	switch {
	case n.health.condition() == Failing || n.probe.took.Value() >= timeout: // it did not answer its last probe
		return next * next * timeout
	case n.health.excluded() && n.short.Load(): // good probes only tell how fast it is while it has nothing to do
		return next * timeout
	case n.owes(at):
		return timeout
	default:
		return n.probe.took.Value()
	}
}
