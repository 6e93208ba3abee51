package proxy

import (
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// Results of a hedge. The set is closed: it is a metric label.
const (
	hedgeWon        = "won"
	hedgeLost       = "lost"
	hedgeOverBudget = "over_budget"
	hedgeUnlikely   = "unlikely" // to win, as those made before lost
)

// armHedge sets the timer that fires when the first attempt is late. x.mu is held, and the attempt is recorded: if the
// process stands still now, the timer fires before anything else is done.
func (x *exchange) armHedge() {
	late, overdue, ok := x.p.hedges.Delay(x.kind(), x.Began)
	if !ok {
		return
	}
	x.grace = overdue - late
	x.refs.Add(1)
	x.armed = true
	x.timer.Reset(late)
}

// endHedge stops the timer: no hedge may start any more.
func (x *exchange) endHedge() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.armed && x.timer.Stop() {
		x.refs.Add(-1)
	}
	x.armed = false
}

// overdue is called by the timer, on a goroutine of its own, when the first attempt takes
// longer than such searches usually do. It has the nodes asked whether they answer, and later
// probed. When that shows which node the search waits for, it sends a second attempt that
// avoids this node.
func (x *exchange) overdue() {
	defer x.release()
	now := time.Now()
	x.mu.Lock()
	if !x.waitsForFirst() {
		x.mu.Unlock()
		return
	}
	if x.overdueAt.IsZero() {
		x.overdueAt = now.Add(x.grace)
	}
	probed := x.probed
	x.mu.Unlock()
	second := x.second(now, probed)
	x.mu.Lock()
	next := attempt.Action{Do: attempt.Wait}
	if x.waitsForFirst() {
		next = x.machine.Overdue(second != nil && x.p.pays(&x.first.decision), x.overdueAt.Sub(now))
	}
	if next.Do == attempt.Hedge {
		x.sent(second, record.Hedge, now)
		x.mu.Unlock()
		x.send(second)
		if next, _ = x.ended(second); next.Do != attempt.Wait {
			x.next <- next // nobody takes it if another attempt has the last word
		}
		return
	}
	if next.Do != attempt.Wait {
		x.lookInto(next.Do, now)
		x.refs.Add(1)
		x.timer.Reset(next.After)
	}
	x.mu.Unlock()
	if second != nil {
		second.release()
	}
}

// waitsForFirst reports whether the first attempt is under way, and another one may be sent beside it. x.mu is held.
func (x *exchange) waitsForFirst() bool { return x.armed && x.Attempts[0].Outcome == "" }

// lookInto has the nodes of the first attempt asked, or probed. x.mu is held.
func (x *exchange) lookInto(how attempt.Do, now time.Time) {
	switch how {
	case attempt.Ask:
		x.p.ask(&x.first.decision, now)
	case attempt.Suspect:
		x.probed = true
		x.p.o.Selector.Suspect(&x.first.decision, now)
	}
}

// second makes the second attempt, to the copies that are best now and through another
// coordinating node; nil if there should be none now. Until the nodes have been probed only
// one that is silent is a reason.
func (x *exchange) second(now time.Time, probed bool) *try {
	p, first := x.p, &x.first.decision
	if silent := p.o.Selector.Silent(first, now); !silent && !probed || !p.mostAlive(x.view) || x.gone() {
		return nil
	}
	switch {
	case p.o.Selector.EjectedSince(first):
	case p.admission.full():
		return nil
	case !p.hedges.Left():
		x.countUnmade()
		return nil
	}
	t := newTry(x)
	p.o.Selector.Choose(&t.decision, x.selectionRequest(nil), now)
	t.steered = true
	past := func(first *selection.Decision) bool { return p.o.Selector.Worthwhile(first, &t.decision, now) }
	if past(first) && t.rewrite() && x.pick(t, now) &&
		// Through the same address it may wait at the same coordinating node.
		(t.upstream != x.first.upstream || past(&selection.Decision{Nodes: first.Nodes})) {
		return t
	}
	t.release()
	return nil
}

// pays takes a second attempt beside first from the budget, if it needs any. It reports whether there may be one.
func (p *Proxy) pays(first *selection.Decision) bool {
	return p.o.Selector.EjectedSince(first) || p.hedges.Spend()
}

// countUnmade counts, once for each request, that there was no budget for a second attempt.
func (x *exchange) countUnmade() {
	if x.unmade {
		return
	}
	x.unmade = true
	result := hedgeUnlikely
	if x.p.hedges.Exhausted() {
		result = hedgeOverBudget
	}
	x.p.metrics.hedges.WithLabelValues(result).Inc()
}

// mostAlive reports whether more than half of the nodes are alive. If not, the cluster
// must not get more load.
func (p *Proxy) mostAlive(v *view) bool {
	alive := 0
	for _, n := range v.nodes {
		if n.Alive() {
			alive++
		}
	}
	return 2*alive > len(v.nodes)
}

// abandonOthers gives up the attempts other than this one. x.mu is held.
func (x *exchange) abandonOthers(but int, now time.Time) {
	for i, t := range x.tries {
		if i == but || x.Attempts[i].Outcome != "" {
			continue
		}
		x.Ended(i, record.Abandoned, 0, nil, now)
		t.message.Abort.Now() // closes the connection, which cancels the search on the engine
	}
}
