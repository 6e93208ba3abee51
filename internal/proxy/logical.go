package proxy

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
)

// LogicalShards names indices whose documents with a routing of the client's are spread
// over the slots of [bulk.Logical].
type LogicalShards struct {
	Pattern string // a name, with * as wildcard
	Size    int    // shards in a slot
	Writes  bool   // bulks are written to one slot
}

const (
	// logicalWait is how long a read by routing waits for its indices to be known, from
	// its arrival. If they stay unknown no read waits during the next logicalPause.
	logicalWait  = 2 * time.Second
	logicalPause = 5 * time.Second
	// maxRouting bounds the length of a routing that is widened.
	maxRouting = 4096
	// logicalLook is the interval of checking meanwhile.
	logicalLook = 5 * time.Millisecond
)

// routedResult is what was done with a routing. The set is closed: it is a metric label.
type routedResult string

// Results for the routing of a read on indices with logical shards. Where it is dropped
// the engine visits all shards, so nothing is missed.
const (
	routedWidened    routedResult = "widened"         // the values of the other slots are added
	routedUnknown    routedResult = "dropped_unknown" // dropped: the indices of the target are not known
	routedDoubtful   routedResult = "dropped_doubtful"
	routedTooLong    routedResult = "dropped_too_long" // dropped: the request line would be, or the target or routing is
	routedResized    routedResult = "dropped_resized"
	routedByID       routedResult = "by_id"            // unchanged: the slot of a single document is unknown
	routedUnreadable routedResult = "unreadable_items" // unchanged: the header lines cannot be read
)

func routedResults() []routedResult {
	return []routedResult{routedWidened, routedUnknown, routedDoubtful, routedTooLong, routedResized, routedByID, routedUnreadable}
}

// logicalOf returns what is configured for an index.
func (b *Bulk) logicalOf(name string) (LogicalShards, bool) {
	at := slices.IndexFunc(b.Logical, func(l LogicalShards) bool { return es.Matches(l.Pattern, name) })
	if at < 0 {
		return LogicalShards{}, false
	}
	return b.Logical[at], true
}

// slotsOf returns how the documents of an index with logical shards are spread, or why
// they are not: [bulk.ReasonUnknown] while the index is unknown.
func (p *Proxy) slotsOf(v *view, name string, size int) (l bulk.Logical, index bulk.Index, why bulk.Reason) {
	index, known := p.o.Bulk.Index(name)
	if !known || v.snapshot == nil {
		return l, index, bulk.ReasonUnknown
	}
	// The index was deleted, and created with other shards since it was read, or an alias has its name since it was placed.
	if placed, ok := v.snapshot.Lookup(name); ok && len(placed.Shards) != index.Shards {
		return l, index, bulk.ReasonUnknown
	}
	l, why = index.Logical(size)
	if why == bulk.ReasonUndivided {
		p.warnUndivided(name, index.Shards, size)
	}
	return l, index, why
}

// warnUndivided logs once that an index has no slots of this size.
func (p *Proxy) warnUndivided(name string, shards, size int) {
	if _, told := p.undivided.LoadOrStore(name, true); !told {
		p.o.Logger.Warn("bulk.routing_size has no effect on the index: its number of shards must be a multiple of the size, and more",
			"index", name, "shards", shards, "size", size)
	}
}

// otherSlots returns the routing values that a search needs beside its own to visit all
// slots; none if the index has no logical shards. If result is not routedWidened the
// routing has to be dropped.
func (p *Proxy) otherSlots(target, routing string) (more []string, result routedResult) {
	target, local := es.LocalTarget(target)
	v := p.view.Load()
	switch s := v.snapshot; {
	case routing == "" || !local || s != nil && s.Engine.Serverless():
		return nil, routedWidened
	case len(routing) > maxRouting, !cluster.LookUp{Target: cluster.Target{Expression: target}}.Valid():
		return nil, routedTooLong // it would never be known
	case strings.Contains(target, "<"): // date math changes at midnight
		return nil, routedDoubtful
	case s != nil && p.tooOld(s, time.Now()):
		return nil, routedDoubtful
	}
	names, known := p.o.Bulk.IndicesOf(target)
	switch {
	case !known:
		return nil, routedUnknown
	case len(names) == 0: // a missing index may be created at any moment
		return nil, routedDoubtful
	}
	for _, name := range names {
		entry, ok := p.o.Bulk.logicalOf(name)
		if !ok {
			continue
		}
		l, index, why := p.slotsOf(v, name, entry.Size)
		switch {
		case why == bulk.ReasonUnknown:
			return nil, routedUnknown
		case index.Resized && index.Values != nil:
			return nil, routedResized
		case why == "":
			more = l.Widen(more, routing)
		}
	}
	return more, routedWidened
}

// slotSearch finds the slots that a request needs. It does not refer to its exchange,
// which may end while the leg still reads the body.
type slotSearch struct {
	p     *Proxy
	ctx   context.Context //nolint:containedctx // of one request
	began time.Time
	line  es.Routed
}

// await is otherSlots, but waits until the indices are known.
func (w *slotSearch) await(target, routing string) (more []string, result routedResult) {
	p, deadline := w.p, w.began.Add(logicalWait)
	for {
		more, result = p.otherSlots(target, routing)
		if result != routedUnknown {
			return more, result
		}
		now := time.Now()
		switch {
		case isBefore(now, &p.unknownUntil):
			return nil, result
		case now.After(deadline):
			p.unknownUntil.Store(new(now.Add(logicalPause)))
			return nil, result
		}
		select {
		case <-w.ctx.Done():
			return nil, result
		case <-time.After(logicalLook):
		}
	}
}

// widen makes a read by routing visit all shards where its documents may be, in every
// mode: documents stay where they were written.
func (x *exchange) widen() {
	p := x.p
	if len(p.o.Bulk.Logical) == 0 {
		return
	}
	line := es.ReadRouted(x.Method, x.Path, x.query)
	w := &slotSearch{p: p, ctx: x.r.Context(), began: x.Began, line: line}
	switch {
	case line.Kind == es.RoutedItems:
		x.routed = w
	case line.Routing == "" && !line.Doubtful:
	case line.Kind == es.RoutedByID:
		x.noteByID(line.Target, line.Routing)
	case line.Kind == es.RoutedSearch:
		x.widenLine(w)
	}
}

// widenLine widens the routing in the query string.
func (x *exchange) widenLine(w *slotSearch) {
	line, more, result := w.line, []string(nil), routedDoubtful
	if !line.Doubtful {
		more, result = w.await(line.Target, line.Routing)
	}
	query := es.AddRouting(x.query, more)
	switch {
	case result == routedWidened && len(more) == 0:
		return
	case result == routedWidened && es.FitsRequestLine(x.Method, x.Path, query):
		x.request.Routing = line.Routing + "," + strings.Join(more, ",")
	default:
		if result == routedWidened {
			result = routedTooLong
		}
		if query = es.DropRouting(x.query); query == x.query {
			return // there was no routing
		}
		x.request.Routing = ""
	}
	x.query = query
	x.p.metrics.routed.WithLabelValues(string(result)).Inc()
}

// explainWidened is widen for a request that is explained: it does not wait.
func (x *exchange) explainWidened() routedResult {
	r := &x.request
	if len(x.p.o.Bulk.Logical) == 0 || r.Routing == "" || x.steering() == es.SteerByID {
		return ""
	}
	more, result := x.p.otherSlots(r.Target, r.Routing)
	switch {
	case result != routedWidened:
		r.Routing = ""
	case len(more) == 0:
		return ""
	default:
		r.Routing += "," + strings.Join(more, ",")
	}
	return result
}

// routingTexts describe the results in words.
var routingTexts = map[routedResult]string{
	routedWidened: " The target has logical shards (bulk.routing_size): the routing is sent with values for the other slots.",
	routedUnknown: " What the target stands for is not known yet, so that the routing would be left out if that does not change within two seconds: ask again.",
	routedResized: " An index with a routing size was split, shrunk or cloned: the routing is left out, and all shards are visited.",
}

// noteByID counts reads and writes of a document by its id and routing. The engine looks
// only in the shard of that routing, whatever slot the document is in.
func (x *exchange) noteByID(target, routing string) {
	if routing == "" || len(x.p.o.Bulk.Logical) == 0 {
		return
	}
	names, _ := x.p.o.Bulk.IndicesOf(target)
	for _, name := range names {
		if _, ok := x.p.o.Bulk.logicalOf(name); ok {
			x.p.metrics.routed.WithLabelValues(string(routedByID)).Inc()
			return
		}
	}
}

// widenItems returns the body of a multi-search as it is read, with the routing of each
// search widened.
func (x *exchange) widenItems(body io.ReadCloser) io.ReadCloser {
	if x.routed == nil {
		return body
	}
	if !readsLines(x.r.Header) {
		x.query = es.DropRouting(x.query) // that of the request line at least
		x.p.metrics.routed.WithLabelValues(string(routedUnreadable)).Inc()
		return body
	}
	x.longer = true
	return struct {
		io.Reader
		io.Closer
	}{bulk.NewSearches(body, x.routed.widenHeader), body}
}

// widenHeader returns the header line of a search with its routing widened.
func (w *slotSearch) widenHeader(line []byte) []byte {
	h, ok := es.ReadHeaderRouting(line, w.line)
	switch {
	case !ok:
		w.p.metrics.routed.WithLabelValues(string(routedUnreadable)).Inc()
		return line
	case h.Routing == "":
		return line
	}
	more, result := []string(nil), routedDoubtful
	if !h.Doubtful && !w.line.Doubtful {
		more, result = w.await(h.Target, h.Routing)
	}
	if result == routedWidened && len(more) == 0 {
		return line
	}
	w.p.metrics.routed.WithLabelValues(string(result)).Inc()
	if result != routedWidened {
		return h.With(line, "")
	}
	return h.With(line, h.Routing+","+strings.Join(more, ","))
}
