package bulk

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"

	"sidestep/internal/es"
)

const (
	// maxAction is the longest action line that is looked at, without its line feed.
	maxAction = 64 << 10
	// readSize is how much is read at a time.
	readSize = 32 << 10
	// maxParts is how many parts of one bulk are looked at.
	maxParts = 1000
	// maxName is the longest name of an index that engines allow, in bytes.
	maxName = 255
	// mostGrowth is more than what is written into one operation: a routing of one of
	// [Values], and an id.
	mostGrowth = 100
)

// Options say what a [Rewriter] does.
type Options struct {
	// DefaultIndex is the index of the request line, of operations that name none.
	DefaultIndex string
	// Place returns the slot that these operations go to in this bulk, or why they stay as they
	// are. It is called once for each part, at its first operation.
	Place func(Part) (Slot, Reason)
	// ID returns the id of the next operation that is given a routing; nil: they are given
	// none, and the engine makes one.
	ID func() string
	// Create has these operations fail where their id is taken already, as those do that
	// the client calls `create`.
	Create bool
	// Length is the length of the body as far as it is told, and Longest how long it may
	// become: the engine refuses a longer one as a whole. 0: any length.
	Length, Longest int64
}

// Part are the operations of a bulk on one index that have no id: those without a routing
// or, if Routed, those with one of the client's.
type Part struct {
	Index  string
	Routed bool
}

// Placed counts the operations of a part that were given a routing.
type Placed struct {
	Part
	Operations int
	// Shards is how many shards they belong to.
	Shards int
	// Bytes is the size of their documents, line ends included.
	Bytes int64
}

// Tally is what a [Rewriter] has seen and done so far. An operation is planned, or
// passed for one reason.
type Tally struct {
	Operations, Planned int
	Passed              map[Reason]int // nil if none
	Placed              []Placed       // in the order of the bulk
	BytesRead           int64
	// Open says that the line of source of the last operation has not ended.
	Open bool
}

// Rewriter reads the body of a bulk (NDJSON) and gives operations that have no id the
// routing that is wanted for their index: one that is inserted where they have none, one
// that stands in place of the client's where they have. All other bytes are those of the
// body. Lines of source stream through,
// whatever their length; memory is at most one action line of 64 KiB, twice, 32 KiB to read
// into, and what is known of the up to 1,000 parts that are looked at.
//
// A bulk whose URL has a `routing`, `pipeline` or `require_alias`, or a type in its
// path, must not be read through one: they hold for each of its operations. Neither
// must a body that is compressed or not separated by line feeds ([es.ReadsLines]).
//
// It is not safe for concurrent use.
type Rewriter struct {
	src          io.Reader
	o            Options
	defaultIndex []byte
	grown        int64 // what has been written into the body

	buf      []byte // buf[from:to] has been read from src and not yet been looked at
	from, to int
	err      error  // of src; told when everything before it has been
	pending  []byte // looked at and not yet given to the reader
	action   []byte // the last action line that was changed
	state    lineState

	parts   map[Part]*destination
	planned []*destination // those that were given a routing
	current *destination   // of the source that is streaming; nil if it was not planned
	tally   Tally
}

// lineState says what the next byte of the body belongs to.
type lineState uint8

const (
	stateAction lineState = iota
	stateSource
	stateRest // nothing is looked at any more
)

// destination is what was answered for a part.
type destination struct {
	Placed
	why   Reason
	slot  Slot
	texts [][]byte // by logical number: the value as it is written, nil before it was used
}

// NewRewriter returns a Rewriter of src.
func NewRewriter(src io.Reader, o Options) *Rewriter {
	return &Rewriter{src: src, o: o, defaultIndex: []byte(o.DefaultIndex), parts: make(map[Part]*destination)}
}

// Tally returns what was done so far.
func (r *Rewriter) Tally() Tally {
	t := r.tally
	t.Passed, t.Open = maps.Clone(t.Passed), r.state == stateSource
	for _, p := range r.planned {
		t.Placed = append(t.Placed, p.Placed)
	}
	return t
}

// Read implements [io.Reader]. An error of the body is returned as it is, after all
// that came before it.
func (r *Rewriter) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		switch {
		case len(r.pending) > 0:
			moved := copy(p[n:], r.pending)
			r.pending = r.pending[moved:]
			n += moved
		case r.next():
		case n > 0:
			return n, nil // what is there does not wait for more
		case r.err != nil:
			r.src, r.buf, r.from, r.to, r.action = nil, nil, 0, 0, nil // the tally is of use for longer than these
			return 0, r.err
		case r.fill() == 0 && r.err == nil:
			return 0, nil
		}
	}
	return n, nil
}

// fill reads once more from src. Nothing is pending.
func (r *Rewriter) fill() int {
	r.to = copy(r.buf, r.buf[r.from:r.to])
	r.from = 0
	switch {
	case len(r.buf) == 0:
		r.buf = make([]byte, readSize)
	case r.to == len(r.buf): // an action line that is longer
		r.buf = append(make([]byte, 0, maxAction+readSize), r.buf...)
		r.buf = r.buf[:cap(r.buf)]
	}
	n, err := r.src.Read(r.buf[r.to:])
	r.to += n
	r.err = err
	r.tally.BytesRead += int64(n)
	return n
}

// next makes the next part of what has been read pending. It returns false if more must be
// read before.
func (r *Rewriter) next() bool {
	b := r.buf[r.from:r.to]
	if len(b) == 0 {
		return false
	}
	if r.state == stateRest {
		r.pass(len(b))
		return true
	}
	end := bytes.IndexByte(b, '\n')
	if r.state == stateSource {
		if end < 0 {
			end = len(b) - 1
		} else {
			r.state = stateAction
		}
		if r.current != nil {
			r.current.Bytes += int64(end + 1)
		}
		r.pass(end + 1)
		return true
	}
	switch {
	case end > maxAction, end < 0 && len(b) > maxAction, end < 0 && r.err != nil:
		r.giveUp()
	case end < 0:
		return false
	case isBlank(b[:end]): // engines skip it
		r.pass(end + 1)
	default:
		r.readAction(b[:end])
	}
	return true
}

// pass gives n bytes to the reader as they are.
func (r *Rewriter) pass(n int) {
	r.pending = r.buf[r.from : r.from+n]
	r.from += n
}

// giveUp leaves everything from here on as it is: the engine has an error to tell, or
// reads another operation than we would.
func (r *Rewriter) giveUp() {
	r.state = stateRest
	r.count(ReasonMalformed)
}

// count notes an operation that stays as it is.
func (r *Rewriter) count(why Reason) {
	r.tally.Operations++
	if r.tally.Passed == nil {
		r.tally.Passed = make(map[Reason]int)
	}
	r.tally.Passed[why]++
}

// readAction reads an action line and gives it to the reader with the routing of its
// index, if any.
func (r *Rewriter) readAction(line []byte) {
	a, ok := es.ReadBulkAction(line)
	if !ok {
		r.giveUp()
		return
	}
	if a.Verb != es.BulkDelete {
		r.state = stateSource
	}
	r.pass(len(line) + 1)
	var why Reason
	if r.current, why = r.destinationOf(&a); r.current == nil {
		r.count(why)
		return
	}
	r.tally.Operations++
	r.tally.Planned++
	r.current.Operations++
	before := len(r.pending)
	r.pending = r.change(r.pending, &a)
	r.grown += int64(len(r.pending) - before)
	if r.o.ID != nil && !r.o.Create {
		r.grown++ // sent again, an index becomes a create
	}
}

// change returns an action line as it is sent.
func (r *Rewriter) change(line []byte, a *es.BulkAction) []byte {
	out := r.action[:0]
	out = append(out, line[:a.Insert]...)
	if r.o.Create {
		out = bytes.Replace(out, []byte(`"index"`), []byte(`"create"`), 1)
	}
	if r.o.ID != nil {
		out = append(append(append(out, `"_id":"`...), r.o.ID()...), `",`...)
	}
	rest := a.Insert
	if r.current.Routed {
		out, rest = append(out, line[a.Insert:a.RoutingFrom]...), a.RoutingTo
	} else {
		out = append(out, `"routing":`...)
	}
	out = append(out, r.current.value(a.Routing)...)
	if !r.current.Routed && !a.Bare {
		out = append(out, ',')
	}
	out = append(out, line[rest:]...)
	r.action = out
	return out
}

// value returns the routing of an operation as it is written. The client's is empty if it gave none.
func (d *destination) value(routing string) []byte {
	number := d.slot.number(routing)
	if d.texts[number] == nil {
		d.texts[number], _ = json.Marshal(d.slot.Value(d.slot.Number, routing)) //nolint:errchkjson // a string always marshals
		d.Shards++
	}
	return d.texts[number]
}

// destinationOf returns where an operation goes, or why it stays as it is.
func (r *Rewriter) destinationOf(a *es.BulkAction) (*destination, Reason) {
	name := a.Index
	if len(name) == 0 {
		name = r.defaultIndex
	}
	switch {
	case a.Verb == es.BulkUpdate:
		return nil, ReasonUpdate
	case a.Verb == es.BulkDelete:
		return nil, ReasonDelete
	case a.Fields&es.BulkID != 0:
		return nil, ReasonExplicitID
	case a.Fields&es.BulkRouting != 0 && a.Routing == "":
		return nil, ReasonOwnRouting
	case a.Fields&es.BulkPipeline != 0:
		return nil, ReasonPipeline
	case a.Fields&es.BulkOther != 0:
		return nil, ReasonOtherField
	case len(name) == 0:
		return nil, ReasonNoIndex
	case len(name) > maxName:
		return nil, ReasonUnknown
	case r.o.Longest > 0 && max(r.o.Length, r.tally.BytesRead)+r.grown+mostGrowth > r.o.Longest:
		return nil, ReasonTooLong
	}
	p, known := r.parts[Part{string(name), a.Routing != ""}]
	if !known {
		if len(r.parts) == maxParts {
			return nil, ReasonManyIndices
		}
		p = r.ask(Part{string(name), a.Routing != ""})
	}
	if p.why != "" {
		return nil, p.why
	}
	return p, ""
}

// ask asks where the caller wants a part.
func (r *Rewriter) ask(part Part) *destination {
	slot, why := r.o.Place(part)
	d := &destination{Placed: Placed{Part: part}, why: why, slot: slot, texts: make([][]byte, slot.size)}
	r.parts[part] = d
	if why == "" {
		r.planned = append(r.planned, d)
	}
	return d
}

// isBlank reports whether a line has nothing but what JSON calls white space.
func isBlank(line []byte) bool {
	return len(bytes.TrimLeft(line, " \t\r")) == 0
}
