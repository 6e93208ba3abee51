package proxy

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// reasonOneShard says that operations of a bulk were given a routing, reasonOneSlot that
// some were given another routing than the client's.
const (
	reasonOneShard = "one_shard"
	reasonOneSlot  = "one_slot"
)

// bulkPrefix is how much of a streamed bulk is read before it is sent. The index of its
// first operation determines the best coordinating node.
const bulkPrefix = 16 << 10

// Bulk says which bulks are written to one shard. Its functions are called only for names
// that match Patterns.
type Bulk struct {
	Mode Mode
	// Patterns are the indices, with * as wildcard; if empty, no bulk is read.
	Patterns []string
	// Logical are the indices with logical shards.
	Logical []LogicalShards
	// Avoid says to avoid shards with a copy on a node in trouble. Without it all shards
	// are drawn evenly.
	Avoid bool
	// Idempotent gives ids to the documents of bulks that have none. Then a bulk can be
	// repeated when a connection broke, without documents stored twice.
	Idempotent bool
	// RetryRejected is how long operations that the engine rejects (429) are repeated; 0:
	// they are not.
	RetryRejected time.Duration
	// MaxSkew bounds the level of the fullest shard, relative to the mean.
	MaxSkew float64
	// Index returns what is known of a name.
	Index func(name string) (bulk.Index, bool)
	// IndicesOf returns the indices that an index expression stands for. It is called
	// only if there are Logical ones.
	IndicesOf func(target string) (names []string, known bool)
	// Counts returns how many documents each shard has by the engine's count, and when it
	// was read. May be nil.
	Counts func(name string) (documents []int64, at time.Time, ok bool)
	// Queues reports whether the write pool of the node with this id is overloaded. May
	// be nil.
	Queues func(node string) bool
	// Books outlive a change of the configuration; nil: there are none yet.
	Books *bulk.Books
}

// bulkWrite is what is done with one bulk.
type bulkWrite struct {
	x     *exchange
	mode  Mode
	line  es.BulkLine
	timed bool // its time counts for the pace of its shard, and has not ended
	items itemCount

	// Of the handler's goroutine alone:
	again    *repeatable // nil if it cannot be repeated
	failed   bool        // some operations were not stored, by the beginning of the answer, or it does not tell
	left     bool        // the client left before its answer
	measured bool        // the connection shows whether the answer is read

	mu       sync.Mutex // guards what follows: the leg reads a streamed body
	rewriter *bulk.Rewriter
	chosen   map[bulk.Part]bulk.Slot
	over     bool // finish was called: no more places
	places   []place
	node     *selection.Node // with the primary copy of the first shard
}

// place is a slot that was chosen for a part.
type place struct {
	bulk.Part
	book *bulk.Book
	slot int
}

// in returns what was written to the place.
func (p place) in(placed []bulk.Placed) (documents int, size int64) {
	for _, d := range placed {
		if d.Part == p.Part {
			return d.Operations, d.Bytes
		}
	}
	return 0, 0
}

// OwnBulkMode returns the mode that [Proxy.SetBulkMode] has set.
func (p *Proxy) OwnBulkMode() Mode { return p.bulkMode.Load().(Mode) }

// BulkMode returns the mode that bulks are served in.
func (p *Proxy) BulkMode() Mode {
	own, all := p.OwnBulkMode(), p.Mode()
	if own == ModeOff || all == ModeOff {
		return ModeOff
	}
	if own == ModeObserve || all == ModeObserve {
		return ModeObserve
	}
	return ModeRoute
}

// SetBulkMode switches the mode of bulks at run time, as [Proxy.SetMode] does for all
// requests. The more cautious of the two modes applies.
func (p *Proxy) SetBulkMode(m Mode) error { return setMode(&p.bulkMode, m) }

// planBulk prepares the bulk for one shard. It reports whether the body is to be read
// through x.bulk.
func (x *exchange) planBulk() bool {
	o, mode := &x.p.o.Bulk, x.p.BulkMode()
	if len(o.Patterns)+len(o.Logical) == 0 || mode == ModeOff {
		return false
	}
	line := es.ReadBulkLine(x.Path, x.r.URL.RawQuery)
	switch longest := x.view.longestBody; {
	case !readsLines(x.r.Header):
		x.p.metrics.bulk.passed(bulk.ReasonCompressed)
		return false
	case longest > 0 && x.r.ContentLength > longest: // the engine is to refuse it by its length, which is not told of one that may become longer
		x.p.metrics.bulk.passed(bulk.ReasonTooLong)
		return false
	case !line.Plain:
		x.p.metrics.bulk.passed(bulk.ReasonURLParameter)
		return false
	}
	x.p.o.Touch()
	x.bulk = &bulkWrite{x: x, mode: mode, line: line}
	x.bulk.rewriter = x.bulk.newRewriter(x.r.Body)
	return true
}

// newRewriter returns the rewriter of the client's body. The documents get ids if the bulk can be
// repeated.
func (b *bulkWrite) newRewriter(body io.Reader) *bulk.Rewriter {
	o := bulk.Options{DefaultIndex: b.line.Index, Place: b.placeOnce, Length: b.x.r.ContentLength, Longest: b.x.view.longestBody}
	if again := b.again; again != nil {
		o.ID, o.Create = again.minted.IDs(), again.create
		if again.create { // what was sent with ids is not sent without
			o.Longest = 0
		}
	}
	return bulk.NewRewriter(body, o)
}

// placeOnce chooses where a part goes, once. b.mu is held.
func (b *bulkWrite) placeOnce(part bulk.Part) (to bulk.Slot, why bulk.Reason) {
	if to, ok := b.chosen[part]; ok {
		return to, ""
	}
	o := &b.x.p.o.Bulk
	slots, index, why := b.x.p.slotsFor(b.x.view, part)
	if why == "" && b.mode == ModeObserve {
		why = bulk.ReasonObserve
	}
	if why != "" {
		return to, why
	}
	if part.Routed {
		o.Books.KeepSize(index.WriteIndex, slots.Size())
	}
	now := time.Now()
	at := place{Part: part, book: o.Books.Of(index, slots.Size(), o.MaxSkew, now)}
	to = bulk.Slot{Logical: slots, Number: b.pick(at, index, now)}
	if b.chosen == nil {
		b.chosen = make(map[bulk.Part]bulk.Slot)
	}
	b.chosen[part] = to
	return to, ""
}

// Read implements io.Reader. It reads the body as it is to be sent.
func (b *bulkWrite) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.rewriter.Read(p)
}

// Close implements io.Closer.
func (b *bulkWrite) Close() error { return b.x.r.Body.Close() }

// slotsFor returns the slots that operations of a part may be written to, or why they stay unchanged. Those of
// operations without a routing are the shards.
func (p *Proxy) slotsFor(v *view, part bulk.Part) (slots bulk.Logical, index bulk.Index, why bulk.Reason) {
	o := &p.o.Bulk
	if !part.Routed {
		if !es.MatchesAny(o.Patterns, part.Index) {
			return slots, index, bulk.ReasonNotSelected
		}
		found, known := o.Index(part.Index)
		if !known || v.snapshot == nil {
			return slots, index, bulk.ReasonUnknown
		}
		slots, why = found.Logical(1)
		return slots, found, cmp.Or(found.Refused, why)
	}
	entry, ok := o.logicalOf(part.Index)
	if !ok || !entry.Writes {
		return slots, index, bulk.ReasonOwnRouting
	}
	if v.snapshot == nil {
		return slots, index, bulk.ReasonUnknown
	}
	slots, index, why = p.slotsOf(v, part.Index, entry.Size)
	why = cmp.Or(index.RefusedRouted, why)
	if _, placed := v.snapshot.Lookup(part.Index); !placed && why == "" {
		why = bulk.ReasonUnknown // reads do not know the slots yet, either
	}
	return slots, index, why
}

// pick chooses the slot of a place. b.mu is held.
func (b *bulkWrite) pick(at place, index bulk.Index, now time.Time) int {
	x := b.x
	x.p.count(at.book, at.Index)
	copies, _ := x.view.snapshot.Lookup(index.WriteIndex)
	x.view.snapshot.Use(index.WriteIndex) // else nobody reads where it is when it moves
	slot, how := x.p.pickSlot(x.view, at.book, copies, now)
	x.p.metrics.bulk.choices.WithLabelValues(string(how)).Inc()
	at.slot = slot
	b.places = append(b.places, at)
	if b.node == nil {
		b.node = x.p.near(x.view, copies, slot*at.book.Size(), now)
	}
	return slot
}

// near returns the node with the primary copy of a shard, nil if it is unknown, in trouble or about to leave.
func (p *Proxy) near(v *view, index *cluster.Index, shard int, now time.Time) *selection.Node {
	n := v.primary(index, shard)
	if n == nil || p.troubleOf(v, n.ID) != "" || p.o.Selector.Leaves(n, now) {
		return nil
	}
	return n
}

// count adds the engine's counts to the book.
func (p *Proxy) count(book *bulk.Book, name string) {
	if p.o.Bulk.Counts == nil {
		return
	}
	if documents, at, ok := p.o.Bulk.Counts(name); ok {
		book.Counted(documents, at)
	}
}

// primary returns the node with the primary copy of a shard, nil if it is unknown.
func (v *view) primary(index *cluster.Index, shard int) *selection.Node {
	if index == nil || shard >= len(index.Shards) {
		return nil
	}
	for _, c := range index.Shards[shard].Copies {
		if at, ok := v.snapshot.Position(c.Node); ok && c.Kind == 'p' && c.Serving() {
			return v.nodes[at]
		}
	}
	return nil
}

// sending is called when the bulk is about to be sent, through the node of the first shard. The time of a bulk that was read
// before counts for the pace of its shard, unless it waits for a refresh.
func (b *bulkWrite) sending(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.explain()
	b.x.near = b.node
	b.timed = b.x.stream == nil && !b.line.Refreshes && b.alone()
	if b.timed {
		b.places[0].book.Begin(b.places[0].slot, now)
	}
}

// explain records in the trail what was done. b.mu is held.
func (b *bulkWrite) explain() {
	if placed := b.rewriter.Tally().Placed; len(placed) > 0 {
		b.x.Reason = reasonOneShard
		if slotted(placed) {
			b.x.Reason = reasonOneSlot
		}
	}
}

// slotted reports whether documents are written to a slot.
func slotted(placed []bulk.Placed) bool {
	return slices.ContainsFunc(placed, func(p bulk.Placed) bool { return p.Routed })
}

// alone reports whether all that has been read of the bulk is for one shard.
func (b *bulkWrite) alone() bool {
	t := b.rewriter.Tally()
	return len(b.places) == 1 && t.Operations == t.Planned
}

// answered ends the time of a bulk: t answers it, or nothing does. What its client takes to read the answer is not the
// shard's.
func (b *bulkWrite) answered(t *try, now time.Time) {
	if !b.timed {
		return
	}
	b.timed = false
	b.mu.Lock()
	defer b.mu.Unlock()
	switch p := b.places[0]; {
	case t == nil:
		p.book.Abandon(p.slot)
	case t.resp.StatusCode != http.StatusOK || b.failed || len(b.x.tries) > 1: // a refusal takes no time, and what is sent again takes more
		p.book.End(p.slot, 0, 0, now)
	default:
		documents, _ := p.in(b.rewriter.Tally().Placed)
		p.book.End(p.slot, documents, b.x.Upstream, now)
	}
}

// finish records the end of a bulk in the books.
func (b *bulkWrite) finish(now time.Time) {
	b.answered(nil, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	x, t := b.x, b.rewriter.Tally()
	x.RequestBytes = t.BytesRead
	b.explain()
	b.remember(now)
	b.items.end()
	stored, alone := x.complete && x.Status == http.StatusOK, b.alone()
	for i, p := range b.places {
		var documents int
		var size int64
		if stored {
			if !slices.ContainsFunc(b.places[:i], func(o place) bool { return o.book == p.book }) {
				p.book.Bulks.Add(1)
			}
			documents, size = p.in(t.Placed)
		}
		if alone && b.items.refused() {
			documents = min(documents, b.items.ok)
		}
		p.book.Wrote(p.slot, documents, size)
	}
	shards := 0
	for _, d := range t.Placed {
		shards += d.Shards
	}
	x.Bulk = &record.Bulk{
		Operations: t.Operations, Planned: t.Planned, Shards: shards,
		OK: b.items.ok, Rejected: b.items.rejected, Failed: b.items.other,
	}
	x.p.metrics.bulk.observe(b, &t)
}

var _ io.ReadCloser = (*bulkWrite)(nil)
