package proxy

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/cluster"
)

// Replace has p go on with what another proxy with the same Selector and connections has open and knows. Requests that are
// under way there go by what p is told from now on. What waits for admission there waits beside what comes here, if
// the options of that are the same but for modes. It is called before p is used, and needs a snapshot after it.
func (p *Proxy) Replace(before *Proxy) {
	p.view, p.seeds, p.probes = before.view, before.seeds, before.probes
	if p.o.HedgeBudget == before.o.HedgeBudget {
		p.hedges = before.hedges
	}
	mine, theirs := p.o.Admission, before.o.Admission
	mine.Writes.Mode = theirs.Writes.Mode
	if reflect.DeepEqual(mine.Writes, theirs.Writes) {
		before.writes.own.Store(p.writes.own.Load())
		p.writes = before.writes
	}
	mine.Mode, mine.Writes = theirs.Mode, theirs.Writes
	if reflect.DeepEqual(mine, theirs) {
		p.admission = before.admission
	}
}

// BeginWith has admissions that p does not share with the proxy that it has replaced begin with the last polls that are known
// there: until the next ones everything would be admitted. It is called once the modes of p are set.
func (p *Proxy) BeginWith(before *Proxy) {
	p.admission.begin(before.admission)
	p.writes.begin(before.writes)
}

func (a *admissions) begin(other *admissions) {
	if a == other {
		return
	}
	other.mu.Lock()
	polls, queues := maps.Clone(other.polls), other.queues
	other.mu.Unlock()
	a.do(func(time.Time) []*admission.Ticket {
		a.queues = queues
		a.control.Update(slices.Collect(maps.Keys(polls)))
		return nil
	})
	for _, st := range polls {
		if !a.polledSince(st) {
			a.observe(st)
		}
	}
}

// polledSince reports whether a later poll of the node is known.
func (a *admissions) polledSince(st cluster.NodeStats) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.polls[st.Node].At.After(st.At)
}

// KeepOutAs ejects and drains the nodes that another proxy ejects and drains, if it is of the same cluster. It needs a
// snapshot before it.
func (p *Proxy) KeepOutAs(other *Proxy) {
	mine, theirs := p.view.Load().snapshot, other.view.Load().snapshot
	if mine != nil && theirs != nil && mine.ClusterUUID == theirs.ClusterUUID {
		p.o.Selector.KeepOutAs(other.o.Selector, time.Now())
	}
}
