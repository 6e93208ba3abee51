package proxy

import (
	"net/http"
	"time"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// race sends the attempt and, when it takes much longer than such searches
// usually do, a second one: to the copies that look best by then, through another
// coordinating node. The first good answer wins and the other attempt is
// cancelled.
func (p *Proxy) race(x *exchange, r *http.Request, first *attempt) *attempt {
	delay, ok := p.hedges.Delay(x.kind(), x.began)
	if !ok || x.soft || x.streams {
		p.send(x, r, first)
		x.stepEnded(first.step, r, first.answer)
		return first
	}
	results := make(chan *attempt, 2)
	go p.sendTo(x, r, first, results)
	if t := x.await(results, delay, r); t != nil {
		return t
	}
	// Probes tell within a few milliseconds which node the second attempt is to
	// avoid, if there is one.
	var second *attempt
	for look := 0; second == nil; look++ {
		p.o.Selector.Suspect(first.decision, time.Now())
		if t := x.await(results, selection.HedgeWait(look), r); t != nil {
			return t
		}
		second = p.prepareHedge(x, r, first.decision)
	}
	go p.sendTo(x, r, second, results)
	winner := x.firstGood(r, [2]*attempt{first, second}, results)
	if winner == second {
		p.metrics.hedges.WithLabelValues(hedgeWon).Inc()
	} else {
		p.metrics.hedges.WithLabelValues(hedgeLost).Inc()
	}
	return winner
}

// kind names the searches that take about as long as this one.
func (x *exchange) kind() string {
	if x.request.Operation == es.Search {
		return x.request.Target
	}
	return x.request.Target + "/" + string(x.request.Operation)
}

// await returns the attempt that ends within d, or whenever the client leaves; nil
// if none does.
func (x *exchange) await(results <-chan *attempt, d time.Duration, r *http.Request) *attempt {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case t := <-results:
		x.stepEnded(t.step, r, t.answer)
		return t
	case <-r.Context().Done():
		t := <-results // its transport gives up, too
		x.stepEnded(t.step, r, t.answer)
		return t
	case <-timer.C:
		return nil
	}
}

// firstGood waits for the first good answer of two attempts, or for both.
func (x *exchange) firstGood(r *http.Request, pair [2]*attempt, results <-chan *attempt) *attempt {
	t := <-results
	x.stepEnded(t.step, r, t.answer)
	other := pair[0]
	if t == other {
		other = pair[1]
	}
	if t.answer.final() {
		x.abandon(other, results)
		return t
	}
	last := <-results
	x.stepEnded(last.step, r, last.answer)
	last.answer.blamed = append(last.answer.blamed, t.answer.blamed...)
	if last.answer.final() {
		t.answer.discard()
		return last
	}
	blamed := last.answer.blamed
	last.answer = better(t.answer, last.answer)
	last.answer.blamed = blamed
	return last
}

// sendTo sends the attempt and hands it on, unless it was abandoned meanwhile.
func (p *Proxy) sendTo(x *exchange, r *http.Request, t *attempt, results chan<- *attempt) {
	p.send(x, r, t)
	if t.state.CompareAndSwap(pending, answered) {
		results <- t
		return
	}
	t.answer.discard()
}

// prepareHedge makes the second attempt, nil if there is to be none now.
func (p *Proxy) prepareHedge(x *exchange, r *http.Request, first *selection.Decision) *attempt {
	if !p.mostAlive(x.view) {
		return nil
	}
	d, now := &selection.Decision{}, time.Now()
	p.o.Selector.Choose(d, p.selectionRequest(x, nil), now)
	if !p.o.Selector.Worthwhile(first, d, now) {
		return nil
	}
	if !p.o.Selector.Stranded(first) && !p.hedges.Spend() {
		p.metrics.hedges.WithLabelValues(hedgeOverBudget).Inc()
		return nil
	}
	t, err := p.prepare(x, r, d, kindHedge)
	if err != nil {
		return nil
	}
	return t
}

// mostAlive reports whether more than half of the nodes are: else more load is
// the last thing the cluster needs.
func (p *Proxy) mostAlive(v *view) bool {
	alive := 0
	for _, n := range v.nodes {
		if n.Alive() {
			alive++
		}
	}
	return 2*alive > len(v.nodes)
}

// Ends of a hedge. The set is closed: it is a metric label.
const (
	hedgeWon        = "won"
	hedgeLost       = "lost"
	hedgeOverBudget = "over_budget"
)
