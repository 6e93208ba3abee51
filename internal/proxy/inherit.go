package proxy

import (
	"reflect"
	"time"
)

// TakeOver has p go on with what another proxy with the same Selector and connections has open and has learned: what waits
// for admission there waits beside what comes here, if that has the same options but for modes. It is called before p is
// used, and needs a snapshot after it.
func (p *Proxy) TakeOver(from *Proxy) {
	v := from.view.Load()
	p.view.Store(&view{nodes: v.nodes, upstreams: v.upstreams}) // the rest of it depends on options
	p.seeds, p.held, p.probes.asks = from.seeds, from.held, from.probes.asks
	if p.o.HedgeBudget == from.o.HedgeBudget {
		p.hedges = from.hedges
	}
	mine, theirs := p.o.Admission, from.o.Admission
	mine.Writes.Mode = theirs.Writes.Mode
	if reflect.DeepEqual(mine.Writes, theirs.Writes) {
		from.writes.own.Store(p.writes.own.Load())
		p.writes = from.writes
	}
	mine.Mode, mine.Writes = theirs.Mode, theirs.Writes
	if reflect.DeepEqual(mine, theirs) {
		p.admission = from.admission
	}
}

// Inherit has p know what another proxy has learned of the nodes, unless that is of another cluster: which are ejected and
// which are drained, and how much is admitted to each. p is in use or about to be, and its modes are set.
func (p *Proxy) Inherit(from *Proxy) {
	known, before := p.view.Load(), from.view.Load()
	if known.snapshot == nil || before.snapshot == nil || known.snapshot.ClusterUUID != before.snapshot.ClusterUUID {
		return
	}
	p.admission.inherit(from.admission, p)
	p.writes.inherit(from.writes, p)
	if p.o.Selector != from.o.Selector {
		p.o.Selector.Inherit(from.o.Selector, time.Now())
	}
}

// inherit takes over what another admission has learned of nodes. While something waits there that one is told of them, too,
// and its mode is that of a.
func (a *admissions) inherit(from *admissions, p *Proxy) {
	if a == from {
		return
	}
	a.takeIn(from)
	a.follow(p)
}

func (a *admissions) takeIn(from *admissions) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from.mu.Lock()
	defer from.mu.Unlock()
	a.before = from
	a.control.Inherit(from.control, time.Now())
}

// earlier returns the admission in the place of which a is, while something waits there.
func (a *admissions) earlier() *admissions {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.before != nil && !a.before.awaited() {
		a.before = nil
	}
	return a.before
}

// awaited reports whether something waits for a, or for an earlier one.
func (a *admissions) awaited() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.control.Waiting() > 0 || a.before != nil
}
