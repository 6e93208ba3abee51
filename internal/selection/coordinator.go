package selection

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// unfitRank is added for a node that is to coordinate only if no other is left, whatever they coordinate already: it
// is far more than any search takes, in ms.
const unfitRank = math.MaxInt32

// asGood returns up to which coordinating rank nodes are as good as one of rank best,
// where searches wait for shard searches of response (ms; 0: not known): coordinatingFactor
// times the best plus nearSlack, or plus half of that time if it is more. In a busy cluster the
// ranks differ by what each node did a moment ago, and whichever looked best then would get
// everything now.
func asGood(best, response float64) float64 {
	return coordinatingFactor*best + max(nearSlack, response/twice)
}

// holds returns how long (ms) n may hold a shard query up: its response time, or the wait in its queue.
func (n *Node) holds(at int64) float64 { return max(n.response.Mean(), n.queued(at)) }

// unfit reports whether n is to coordinate only if no other is left. A node that is slow at searching is slow at
// coordinating, polls that it does not answer tell no time, and one that is back is idle, which makes it look best to
// every search, whatever share of them it is to have. Where few are left, the others are not bad but the cluster is
// full, or sidestep may not ask, and the few would be sent everything. Then only those that cannot be reached, are
// silent, ejected or avoided, or are about to leave, are unfit.
func (n *Node) unfit(few scarcity, at int64) bool {
	return !n.usable() || n.leaves(at) || n.owes(at) || !few.fit && !n.coordinates(at) || !few.sound && n.fails()
}

// busy returns how busy the CPUs of n are, as far as is known: 1 while it is loaded, 0 if it has FarFactor times the room
// of a node that is full, in between what lies in between.
func (n *Node) busy(at int64) float64 {
	if n.rejects(at) {
		return 1
	}
	room, full := 1-n.utilisation(), 1-fullLoad
	return min(1, max(0, (FarFactor*full-room)/(FarFactor*full-full)))
}

// scarcity says that few nodes are left to coordinate: fewer than half of those that may are well otherwise (fit), or
// answer polls without errors (sound). Each is found out by itself: one that fails whatever is sent through it is not
// needed where others merely come back.
type scarcity struct{ fit, sound bool }

// coordinates reports whether nothing but errors may speak against n as coordinating node.
func (n *Node) coordinates(at int64) bool {
	return n.health.condition() == Fine && n.answers(at) && !n.leaves(at)
}

// fails reports whether the last poll of n was answered with an error. It may fail whatever is sent through it.
func (n *Node) fails() bool { return State(n.polled.Load()) == Unknown && n.missedAt.Load() != 0 }

// answers reports whether n can be reached, answered its last poll, and is not silent.
func (n *Node) answers(at int64) bool {
	life := State(n.polled.Load())
	return life != Unreachable && life != Unresponsive && !n.owes(at)
}

// fewLeft finds out of which of nodes few are left, if something speaks against one of those asked for: else that is
// all the same.
func fewLeft(nodes []*Node, at int64, of ...*Node) scarcity {
	if !slices.ContainsFunc(of, func(n *Node) bool { return n.fails() || !n.coordinates(at) }) {
		return scarcity{}
	}
	all, fit, sound := 0, 0, 0
	for _, n := range nodes {
		if !n.mayCoordinate() {
			continue
		}
		all++
		if n.coordinates(at) {
			fit++
		}
		if !n.fails() {
			sound++
		}
	}
	return scarcity{fit: twice*fit < all, sound: twice*sound < all}
}

// observeOverhead takes in what HTTP and coordination took, in ms.
func (n *Node) observeOverhead(ms float64, at int64) {
	n.overhead.Observe(ms)
	raise(&n.observedAt, at)
}

// overheadAt returns the overhead of n, in ms, as far as it still counts at: half of it after each
// roundLife. A node that was not chosen since is not held to its past, of which polls tell whether
// it goes on.
func (n *Node) overheadAt(at int64) float64 {
	return math.Ldexp(n.overhead.Mean(), -int(max(0, at-n.observedAt.Load())/int64(roundLife)))
}

// coordinate picks the node to send the search to, in turn among those of which the coordinating rank
// is about as good as the best one and which do not coordinate far more than
// the others already; if all of these do, the cheapest of all. Turns, not lots: each
// coordinating node ranks the copies by what it saw itself, and ranks worse the less
// evenly it is used. Nodes that are not listed are asked only when all listed
// ones are clearly worse, or they are busy: then all nodes of the own zone take part, and of that zone alone. Where one node can serve the search
// alone it coordinates it, too, and nothing travels between nodes, unless it is busy and half of all nodes are clearly better. Nodes that only coordinate take part in all else, but for those in another zone.
func (d *Decision) coordinate(req Request, t turn) {
	p := &d.through
	p.nodes = append(p.nodes[:0], d.Nodes...)
	if len(d.Nodes) > 1 && t.s.coordinatingOnly.Load() {
		for _, n := range req.Nodes {
			if n.CoordinatingOnly && t.s.local(n) {
				p.nodes = append(p.nodes, n)
			}
		}
	}
	few := fewLeft(req.Nodes, t.at, p.nodes...)
	p.weigh(few, t.at)
	spread := twice*p.busy >= float64(len(p.nodes)) && !req.OneShard()
	if spread || p.best > nearSlack {
		others := &d.others
		others.nodes = others.nodes[:0]
		for _, n := range req.Nodes {
			if n.mayCoordinate() && (p.busy == 0 || t.s.local(n)) {
				others.nodes = append(others.nodes, n)
			}
		}
		others.weigh(few, t.at)
		better := 0
		for _, rank := range others.ranks {
			if asGood(rank, p.response) < p.best {
				better++
			}
		}
		if spread && others.best < unfitRank || better > 0 && (!req.OneShard() || p.busy == 0 || twice*better >= len(others.ranks)) {
			others.response = p.response
			p = others
		}
	}
	d.Coordinator, d.inTurn = p.pick(t), p.inTurn
}

// pool is nodes that may coordinate a request, and what it costs to go through each of them.
type pool struct {
	nodes    []*Node
	ranks    []float64 // of each, in ms
	best     float64   // the lowest of them; +Inf if there are none
	response float64   // ms: the longest that one of the nodes may hold a shard query up
	busy     float64   // how busy the nodes are, in sum
	inTurn   []*Node   // scratch
}

// weigh finds out what sending a search through each node is expected to cost beside the search itself. Polls tell it for
// nodes that coordinate nothing, too, so a slow one is found and found well again without a client paying. What a node
// coordinates takes CPU from its shard queries, and has to wait for it: as far as its CPUs are busy that counts as long as
// it may hold a shard query up. A node without statistics costs nothing extra.
func (p *pool) weigh(few scarcity, at int64) {
	p.ranks, p.best, p.response, p.busy = p.ranks[:0], math.Inf(1), 0, 0
	for _, n := range p.nodes {
		busy, rank := n.busy(at), n.overheadAt(at)+n.reach.Mean()
		if n.unfit(few, at) {
			rank += unfitRank
		} else {
			holds := n.holds(at)
			rank += busy * max(twice*nearSlack, holds)
			p.response = max(p.response, holds)
		}
		p.ranks = append(p.ranks, rank)
		p.best, p.busy = min(p.best, rank), p.busy+busy
	}
}

// pick picks a node in turn among those about as good as the best that do not
// coordinate far more than the others; if all do, the cheapest. It is nil if there are none.
// What a search costs through a node is (1 + rank/response)² · (1 + coordinating). A burst of searches does not all go
// through the one node with an HTTP side that was a little better before it, and none of it
// through one that takes many times as long as a search.
func (p *pool) pick(t turn) *Node {
	var total float64 // requests that they coordinate
	for _, n := range p.nodes {
		total += float64(n.coordinating.Load())
	}
	limit, busy := asGood(p.best, p.response), int64(bounded(total, float64(len(p.nodes))))
	least, cheapest := math.Inf(1), (*Node)(nil)
	p.inTurn = p.inTurn[:0]
	for i, n := range p.nodes {
		if p.ranks[i] <= limit && n.coordinating.Load() <= busy {
			p.inTurn = append(p.inTurn, n)
		}
		longer := 1 + p.ranks[i]/max(1, p.response)
		if cost := longer * longer * float64(1+n.coordinating.Load()); cost < least {
			least, cheapest = cost, n
		}
	}
	if len(p.inTurn) > 0 {
		return p.inTurn[t.number%uint64(len(p.inTurn))]
	}
	return cheapest
}

// mayCoordinate reports whether searches are sent through n at all.
func (n *Node) mayCoordinate() bool { return !n.NoData || n.CoordinatingOnly }

// Coordinator returns the node to send a request to that is not steered, picked as for one that is. Nodes of nodes for
// which usable returns false are not considered; nil if none is left. What is sent there is to be counted by [Node.Begin].
func (s *Selector) Coordinator(nodes []*Node, usable func(*Node) bool, now time.Time) *Node {
	t := turn{s: s, at: s.since(now), number: s.o.Seed + s.passed.Add(1)}
	p := pool{nodes: make([]*Node, 0, len(nodes))}
	for _, n := range nodes {
		if !usable(n) {
			continue
		}
		if !n.serves() && n.unpolled() && t.at-n.stateAt.Load() >= int64(holdMemory) && elapsed(&n.probe.askedAt, t.at, holdMemory) {
			s.changing(n, t.at, "", func() { n.health.state.Store(int32(Fine)) })
			if !n.Alive() { // it is tried by this request alone, which may wait for long. [Selector.Heard] lets it in
				return n
			}
		}
		p.nodes = append(p.nodes, n)
	}
	p.weigh(fewLeft(nodes, t.at, p.nodes...), t.at)
	if p.response > 0 { // of a request that goes to one node the usual one counts
		p.response = usual(p.nodes, func(n *Node) (float64, bool) { return n.holds(t.at), true })
	}
	return p.pick(t)
}

// Begin counts a request that is not steered and goes through n until [Node.End], which
// must be called once, whatever becomes of it.
func (n *Node) Begin() { n.coordinating.Add(1) }

// End ends what [Node.Begin] began.
func (n *Node) End() { n.coordinating.Add(-1) }

// SentThrough notes, for operators, that a request, steered or not, is sent through n at now.
func (s *Selector) SentThrough(n *Node, now time.Time) { n.coordinated.Add(s.since(now), 1) }

// elapsed reports whether interval has passed since the time in last (0: never),
// and if so sets last to at; only one of several callers at a time is told so.
func elapsed(last *atomic.Int64, at int64, interval time.Duration) bool {
	old := last.Load()
	return (old == 0 || at-old >= int64(interval)) && last.CompareAndSwap(old, at)
}
