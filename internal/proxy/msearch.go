package proxy

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// maxItemTargets is how many different targets of one multi-search are resolved;
// items on others stay as they are.
const maxItemTargets = 100

// multiSearch is what becomes of the items of a multi-search.
type multiSearch struct {
	items       []es.Item
	preferences []string // parallel to items; empty: the item stays
	// searches holds one exchange for each distinct target, in the order of their
	// first items.
	searches []*itemSearch
	byKey    map[itemKey]*itemSearch
	// first is the item that is steered first, -1 if none is.
	first int
	room  int64          // bytes that the body may still grow by
	count map[string]int // of items by reason
}

// itemKey is what the decision about an item depends on.
type itemKey struct{ target, routing, preference string }

// itemSearch is the decision about all items with the same key.
type itemSearch struct {
	exchange
	preference string // empty: its items stay
	items      int    // how many are steered
}

// multiSearch sends a multi-search with a preference for each item that is to be
// steered. They are soft: the engine itself falls back, so nothing need be mended
// afterwards and an item cannot get worse. It is sent once more, as the client
// wrote it, if no answer came or the preferences were refused. How long it takes
// says nothing about a search, so it is not hedged and teaches no averages.
func (p *Proxy) multiSearch(x *exchange, r *http.Request) (*http.Response, error) {
	m := p.decideItems(x, r)
	if m == nil {
		return p.pass(x, r)
	}
	now := time.Now()
	lead := m.byKey[keyOf(m.items[m.first])]
	u := p.pick(x.view, lead.decision.Coordinator, nil, now)
	if u == nil {
		return nil, errNoUpstream
	}
	x.tried, x.attempts, x.coordinator = append(x.tried, u), x.attempts+1, u.node.Name
	m.acquire(p, lead, u.node, now)
	step := x.step(kindFirst, u.node, lead.decision)
	out := x.outbound(r, u, r.URL.RawQuery)
	carry(out, es.SetPreferences(x.body, m.items, m.preferences))
	trace := x.traceItems(u, m)
	resp, err := x.roundTrip(u, out, trace)
	if err != nil {
		x.stepEnded(step, r, answer{err: err})
		x.upstream += time.Since(now)
		m.release()
		if x.gone(r) {
			return nil, err
		}
		p.blameTransport(u, err)
		return p.passAfter(x, r, causeTransport)
	}
	cause := m.refused(x, resp, p.o.MaxHeldBody)
	x.stepEnded(step, r, answer{resp: resp, cause: cause})
	trace.judged(cause)
	x.upstream += time.Since(now)
	if cause != "" {
		_ = resp.Body.Close()
		m.release()
		if cause == causeForbidden {
			p.suspend()
			x.reason = reasonForbidden
		}
		return p.passAfter(x, r, cause)
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode > http.StatusInternalServerError {
		// A 500 is for lines that the engine stumbles over: what fails in a search is
		// part of a 200.
		p.o.Selector.Observe(lead.decision, selection.Outcome{
			Failed: true, Blamed: []*selection.Node{u.node}, Message: "multi-search failed: " + resp.Status,
		}, time.Now())
	}
	x.nodes = m.nodes()
	resp.Body = &leasedBody{ReadCloser: resp.Body, release: m.release}
	return resp, nil
}

// passAfter sends the request as the client wrote it, after a steered attempt that
// came to nothing.
func (p *Proxy) passAfter(x *exchange, r *http.Request, cause string) (*http.Response, error) {
	p.metrics.failovers.WithLabelValues(cause).Inc()
	return p.pass(x, r)
}

// decideItems decides about each item. It returns nil if none is to be steered;
// x.reason then says why the first is not.
func (p *Proxy) decideItems(x *exchange, r *http.Request) *multiSearch {
	now := time.Now()
	if !x.mayDecide(p, now) {
		return nil
	}
	if x.mayForbid() && x.hidesItems(r) {
		x.reason = string(es.PassUnverifiable)
		return nil
	}
	m := &multiSearch{byKey: map[itemKey]*itemSearch{}, first: -1, room: p.o.MaxHeldBody, count: map[string]int{}}
	var readable bool
	if m.items, readable = es.MultiSearch(nil, x.request, x.body); !readable || len(m.items) == 0 {
		x.reason = string(es.PassUnreadableBody)
		return nil
	}
	m.preferences = make([]string, len(m.items))
	for i, item := range m.items {
		reason := m.decide(p, x, i, item, now)
		m.count[reason]++
		if i == 0 || i == m.first {
			x.reason = reason
		}
	}
	for reason, n := range m.count {
		p.metrics.items.WithLabelValues(reason).Add(float64(n))
	}
	if m.first < 0 {
		return nil
	}
	if x.mode == ModeObserve {
		p.metrics.observed.WithLabelValues(x.reason).Inc()
		x.reason = reasonObserve
		return nil
	}
	return m
}

// decide decides about one item and returns the reason.
func (m *multiSearch) decide(p *Proxy, x *exchange, i int, item es.Item, now time.Time) string {
	if item.Pass != es.PassNone {
		return string(item.Pass)
	}
	key := keyOf(item)
	s := m.byKey[key]
	if s == nil {
		if len(m.searches) == maxItemTargets {
			return reasonTooMany
		}
		s = p.decideTarget(x, item, now)
		m.byKey[key], m.searches = s, append(m.searches, s)
	}
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

func keyOf(item es.Item) itemKey { return itemKey{item.Target, item.Routing, item.Preference} }

// decideTarget resolves the target of an item and chooses the copies.
func (p *Proxy) decideTarget(x *exchange, item es.Item, now time.Time) *itemSearch {
	s := &itemSearch{exchange: exchange{view: x.view, request: x.request, soft: true}}
	s.request.Target, s.request.Routing, s.request.Preference = item.Target, item.Routing, item.Preference
	if p.affinity.passes(s.request) {
		s.reason = string(es.PassClientPreference)
		return s
	}
	if !s.resolve(p, now) {
		return s
	}
	s.decision = &selection.Decision{}
	p.o.Selector.Choose(s.decision, p.selectionRequest(&s.exchange, nil), now)
	s.reason = string(s.decision.Reason)
	if s.decision.Reason.Lists() {
		s.preference = es.PreferNodes(ids(s.decision.Nodes))
	}
	return s
}

// mayForbid reports whether the engine knows strict weighted routing.
func (x *exchange) mayForbid() bool {
	s := x.view.snapshot
	return s != nil && s.Engine.Distribution == "opensearch"
}

// hidesItems reports whether the answer may not show what became of the items. Of
// the content codings a client accepts the engines prefer gzip.
func (x *exchange) hidesItems(r *http.Request) bool {
	if x.request.Unverifiable || !es.AcceptsJSON(r.Header.Get("Accept")) {
		return true
	}
	codings := r.Header.Get("Accept-Encoding")
	return !decodable(codings) && !strings.Contains(strings.ToLower(codings), "gzip")
}

// refused returns the cause if the preferences are what was refused. Under strict
// weighted routing they are for all steered items or for none: the first is looked
// at, if it begins within limit.
func (m *multiSearch) refused(x *exchange, resp *http.Response, limit int64) string {
	switch {
	case resp.StatusCode == http.StatusBadRequest: // see refuses
		return causeRefused
	case resp.StatusCode != http.StatusOK || !x.mayForbid():
		return ""
	}
	next, forbidden := 0, false
	readHeadWithin(resp, int(limit), func(prefix []byte, complete bool) (done bool) {
		if len(prefix) < next && !complete {
			return false
		}
		next = 2 * len(prefix) // so that what is read is looked at twice at most, in the mean
		forbidden, done = es.ItemForbidden(prefix, complete, m.first)
		return done
	})
	if forbidden {
		return causeForbidden
	}
	return ""
}

// acquire counts the steered items as outstanding. The request has one coordinating
// node, whatever was chosen for each target.
func (m *multiSearch) acquire(p *Proxy, lead *itemSearch, coordinator *selection.Node, now time.Time) {
	for _, s := range m.searches {
		if s.items == 0 {
			continue
		}
		s.decision.Coordinator = nil
		if s == lead {
			s.decision.Coordinator = coordinator
		}
		p.o.Selector.AcquireItems(s.decision, s.items, now)
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

// nodes returns the names of the nodes listed for any item.
func (m *multiSearch) nodes() []string {
	var all []string
	for _, s := range m.searches {
		if s.items > 0 {
			all = append(all, names(s.decision.Nodes)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
