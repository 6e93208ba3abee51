package proxy

import (
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/attempt"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/leg"
	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// exchange is one client request in progress. Only the handler's goroutine writes it;
// while a hedge may run, the fields below mu are shared with the hedge's goroutine.
// Exchanges are pooled and reused once no goroutine holds them.
type exchange struct {
	record.Trail
	p    *Proxy
	w    http.ResponseWriter
	r    *http.Request
	view *view
	refs atomic.Int32

	// query is the client's query string, except for the routing of a read on indices
	// with logical shards.
	query string
	// routed is of a multi-search whose searches may be on such; nil of any other. longer says that its body, which streams, may become longer.
	routed *slotSearch
	longer bool

	// From classify.
	request es.Request
	rule    rule
	explain bool
	// soft says that the preference must leave the engine its own fallback
	// (_prefer_nodes): a partial result could not be detected, so it could not be
	// repeated either.
	soft bool
	// asking says that the client waits to be told by the engine to send its body
	// (Expect: 100-continue).
	asking bool
	// protocol is what the client asks for on its connection (Upgrade), other than HTTP; empty: nothing.
	protocol string

	// From hold. body is the held request body. stream is one that is not held: it is too large, or the request is not
	// steered.
	body    []byte
	scratch [heldScratch]byte
	held    int64 // bytes that count towards the total
	stream  *clientBody
	// discarded is how many bytes of the body were read only to be thrown away.
	discarded int64
	// trailer receives the trailers of a body without length, once it has been read.
	trailer http.Header
	reading time.Duration // spent reading the request body, and waiting for an equal bulk to end
	now     time.Time     // after that; the time that decisions use

	// From resolve and choose.
	// ruledOut is why there is to be no decision, whatever is known of the cluster; empty: there may be one.
	ruledOut string
	plan     *cluster.Plan
	first    *try // the decision; nil if the request is not steered
	// near is the node to send it through although it is not steered, as it alone has the
	// copies, or the primary one of a bulk; may be nil.
	near  *selection.Node
	items *multiSearch
	// tallied: the searches of a multi-search have been counted
	tallied bool
	bulk    *bulkWrite // nil if the request is none, or stays as it is
	sniff   string     // address to put in place of the nodes' in the answer

	// admitter decides about the request; nil if none does, or the ticket was returned. It is from classify. The ticket's Parts are
	// from choose if there is one.
	admitter *admissions
	ticket   admission.Ticket
	// turn receives when a waiting ticket has got its verdict, or is to be decided anew.
	turn chan struct{}

	// From rewrite: the header fields that go upstream, as bytes.
	fields []byte

	// suspects are the nodes at fault for the failure of earlier attempts, failure its
	// cause. avoid are the nodes that the next choice avoids, and that coordinate
	// after the others.
	suspects, avoid []*selection.Node
	failure         attempt.Cause

	round int // index in tries where the current round of the client's own request begins

	mu      sync.Mutex
	lacks   bool // this process had no room for the connection of the last attempt
	machine attempt.Machine
	tries   []*try
	tryRoom [3]*try
	timer   *time.Timer // of the hedge
	armed   bool        // the timer may run, or a hedge be chosen or under way
	// parts is the timer that aborts the attempts although they may change something; nil until the client has left.
	parts   *time.Timer
	aborted bool // the attempts were aborted, as the client has left
	// unwatch stops watching the client; nil if it is not watched.
	unwatch   func() bool
	grace     time.Duration // from when the first attempt is late until it is overdue
	overdueAt time.Time     // when it is
	probed    bool          // its nodes have been probed
	// unmade: a second attempt was not made for want of budget; only the timer's goroutine looks.
	unmade bool
	// passInterim is the method value of interim, kept to save an allocation.
	passInterim func(int, http.Header)
	next        chan attempt.Action // the action after the end of a hedge, for the handler's goroutine

	headAt   time.Time // when the answer's head was ready for the client
	complete bool      // the client has got its answer
}

// exchanges is the pool.
var exchanges sync.Pool //nolint:gochecknoglobals // a pool is shared by nature

// newExchange takes an exchange from the pool for a request.
func newExchange(p *Proxy, w http.ResponseWriter, r *http.Request) *exchange {
	x, used := exchanges.Get().(*exchange)
	if !used {
		x = &exchange{next: make(chan attempt.Action, 1), turn: make(chan struct{}, 1)}
		x.timer = time.AfterFunc(math.MaxInt64, x.overdue) // never, however long this process stands still now
		x.timer.Stop()
		x.passInterim = x.interim
	}
	x.Reset(time.Now())
	x.p, x.w, x.r, x.view, x.query = p, w, r, p.view.Load(), r.URL.RawQuery
	x.ticket.Owner = x
	x.refs.Store(1)
	return x
}

// release drops one hold. The last one returns the exchange to the pool.
func (x *exchange) release() {
	if x.refs.Add(-1) > 0 {
		return
	}
	x.p.o.Held.Add(-x.held)
	if x.first != nil && !slices.Contains(x.tries, x.first) {
		x.first.release()
	}
	for _, t := range x.tries {
		t.release()
	}
	select {
	case <-x.next: // of a hedge that had not the last word
	default:
	}
	x.ticket.Reset()
	*x = exchange{
		ticket: x.ticket, turn: x.turn,
		next: x.next, timer: x.timer, passInterim: x.passInterim,
		fields: small(x.fields),
	}
	x.tries = x.tryRoom[:0]
	exchanges.Put(x)
}

// small returns b, emptied for reuse, unless it has become large.
func small(b []byte) []byte {
	if cap(b) > 16<<10 {
		return nil
	}
	return b[:0]
}

// steering is how the request is steered, if it is.
func (x *exchange) steering() es.Steering { return x.request.Operation.Steering() }

// gone reports whether the client has left. It looks at the connection: the system may not have told yet.
func (x *exchange) gone() bool {
	if x.knownGone() {
		return true
	}
	c := x.client()
	return c != nil && c.Left()
}

// knownGone reports whether it is already known that the client has left.
func (x *exchange) knownGone() bool {
	return x.stream != nil && x.stream.gone.Load() || x.r.Context().Err() != nil
}

// stalled reports whether the client has sent nothing of its body for too long. Then net/http ends the context before the reader of the
// body is told why.
func (x *exchange) stalled() bool {
	s := x.stream
	return s != nil && (s.stalled.Load() || x.r.Context().Err() != nil && s.late(time.Now()))
}

// try is one attempt. From its sending to its end it belongs to the goroutine that sends
// it.
type try struct {
	x        *exchange
	steered  bool               // it goes to the nodes of the decision
	decision selection.Decision // if it is steered
	soft     bool               // as x.soft, or as the list before it left a shard without a copy
	upstream *upstream
	query    string
	body     []byte
	outHead  []byte // as it goes upstream
	number   int    // in the machine and in the trail
	began    time.Time
	header   http.Header // the client's, with the name of the attempt's span; nil if there is none
	message  leg.Message
	leased   bool
	answer
}

// tries is the pool of attempts, whose decisions hold slices worth reusing.
var tries = sync.Pool{New: func() any { return new(try) }} //nolint:gochecknoglobals // a pool is shared by nature

func newTry(x *exchange) *try {
	t := tries.Get().(*try)
	t.x, t.soft = x, x.soft
	return t
}

// release returns the attempt to the pool.
func (t *try) release() {
	t.unlease()
	t.discard()
	*t = try{decision: t.decision, outHead: small(t.outHead)}
	tries.Put(t)
}

// lists reports whether the attempt has a list of nodes.
func (t *try) lists() bool { return t.steered && t.decision.Reason.Lists() }
