package proxy

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// maxItemTargets bounds the different targets of one multi-search that are resolved.
// Items on further targets stay unchanged.
const maxItemTargets = 100

// multiSearch is what becomes of the items of a multi-search. Their preferences are soft:
// if a listed node fails the engine itself uses another copy. So no item can get worse,
// and none has to be repeated.
type multiSearch struct {
	items       []es.Item
	preferences []string // parallel to items; empty: the item stays unchanged
	// searches holds the decision for each distinct target, in the order of their first
	// items.
	searches []*itemSearch
	byKey    map[itemKey]*itemSearch
	// first is the first item that is steered, -1 if none is.
	first int
	room  int64          // bytes by which the body may still grow
	count map[string]int // of items by reason
}

// itemKey is what the decision about an item depends on.
type itemKey struct{ target, routing, preference string }

func keyOf(item es.Item) itemKey { return itemKey{item.Target, item.Routing, item.Preference} }

// itemSearch is the decision about all items with the same key.
type itemSearch struct {
	decision   selection.Decision
	reason     string
	preference string // empty: its items stay unchanged
	items      int    // how many are steered
	all        int    // how many there are
}

// chooseItems decides about each item. If none is steered x.Reason is the first item's.
func (x *exchange) chooseItems(now time.Time) {
	m := &multiSearch{byKey: map[itemKey]*itemSearch{}, first: -1, room: x.p.o.MaxHeldBody, count: map[string]int{}}
	if !x.fits() { // what is in it would be looked at for each item
		x.Reason = reasonTooLong
		return
	}
	var readable bool
	if m.items, readable = es.MultiSearch(nil, x.request, x.body); !readable || len(m.items) == 0 {
		x.Reason = string(es.PassUnreadableBody)
		return
	}
	if len(m.items) > es.MaxItems {
		x.Reason = reasonTooMany
		return
	}
	m.preferences = make([]string, len(m.items))
	defer x.expectItems(m)
	for i, item := range m.items {
		reason := m.choose(x, i, item, now)
		m.count[reason]++
		if i == 0 || i == m.first {
			x.Reason = reason
		}
	}
	if !x.tallied { // it is decided about once more where it has waited
		x.tallied = true
		m.tally(x.p.metrics.items)
	}
	if m.first < 0 || !x.decided(selection.Reason(x.Reason)) {
		return
	}
	x.items, x.first = m, newTry(x)
	m.describe(x.first)
}

// tally counts the items.
func (m *multiSearch) tally(items *prometheus.CounterVec) {
	for reason, n := range m.count {
		items.WithLabelValues(reason).Add(float64(n))
	}
}

// choose decides about one item and returns the reason.
func (m *multiSearch) choose(x *exchange, i int, item es.Item, now time.Time) string {
	if item.Pass != es.PassNone {
		return string(item.Pass)
	}
	key := keyOf(item)
	s := m.byKey[key]
	if s == nil {
		if len(m.searches) == maxItemTargets {
			return reasonTooMany
		}
		s = chooseTarget(x, item, now)
		m.byKey[key], m.searches = s, append(m.searches, s)
	}
	s.all++
	if s.preference == "" {
		return s.reason
	}
	growth := int64(len(s.preference) + len(`{"preference":""}`))
	if growth > m.room {
		return reasonTooMany
	}
	m.room -= growth
	m.preferences[i] = s.preference
	s.items++
	if m.first < 0 {
		m.first = i
	}
	return s.reason
}

// chooseTarget decides about the searches of one target in a multi-search as if they were
// searches of their own.
func chooseTarget(x *exchange, item es.Item, now time.Time) *itemSearch {
	one := &exchange{p: x.p, r: x.r, view: x.view, request: x.request}
	one.request.Target, one.request.Routing, one.request.Preference = item.Target, item.Routing, item.Preference
	s := &itemSearch{}
	if x.p.affinity.passes(one.request) {
		s.reason = string(es.PassClientPreference)
		return s
	}
	if one.plan, s.reason = one.planAt(x.view.snapshot, now); one.plan == nil {
		return s
	}
	x.p.o.Selector.Choose(&s.decision, one.selectionRequest(nil), now)
	s.reason = string(s.decision.Reason)
	if s.decision.Reason.Lists() {
		s.preference = preference(s.decision.Nodes, true)
	}
	return s
}

// describe makes t the attempt at all items: to the coordinating node of the first
// steered item, with the nodes listed for any item.
func (m *multiSearch) describe(t *try) {
	lead := &m.lead().decision
	t.steered = true
	t.decision.Reason, t.decision.Coordinator = lead.Reason, lead.Coordinator
	t.decision.Nodes = t.decision.Nodes[:0]
	for _, s := range m.searches {
		if s.items == 0 {
			continue
		}
		for _, n := range s.decision.Nodes {
			if !slices.Contains(t.decision.Nodes, n) {
				t.decision.Nodes = append(t.decision.Nodes, n)
			}
		}
	}
	slices.SortFunc(t.decision.Nodes, func(a, b *selection.Node) int { return strings.Compare(a.Name, b.Name) })
}

// lead returns the decision about the first steered item.
func (m *multiSearch) lead() *itemSearch { return m.byKey[keyOf(m.items[m.first])] }

// lease counts the steered items as outstanding. The coordinating node is that of
// the request, whatever was chosen for each target.
func (m *multiSearch) lease(t *try, now time.Time) {
	lead := m.lead()
	for _, s := range m.searches {
		if s.items == 0 {
			continue
		}
		s.decision.Coordinator = nil
		if s == lead {
			s.decision.Coordinator = t.upstream.node
		}
		t.x.p.o.Selector.Acquire(&s.decision, s.items, now)
	}
}

// release returns the leases.
func (m *multiSearch) release() {
	for _, s := range m.searches {
		if s.items > 0 {
			s.decision.Release()
		}
	}
}

// blame counts the failure of a whole multi-search against the node that answered.
func (m *multiSearch) blame(x *exchange, t *try) {
	x.p.o.Selector.Blame([]*selection.Node{t.upstream.node}, "multi-search failed: "+http.StatusText(t.resp.StatusCode), time.Now())
}
