package proxy

import (
	"context"
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

// exchange is one client request on its way. The handler's goroutine alone writes it;
// while a hedge may be under way, what stands below mu is shared with its goroutine.
// Exchanges are used again once nobody holds them.
type exchange struct {
	record.Trail
	p    *Proxy
	w    http.ResponseWriter
	r    *http.Request
	view *view
	refs atomic.Int32

	// query is the client's query string, but for the routing of a read on indices with
	// logical shards.
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
	// asking says that the client waits to be told to send its body.
	asking bool

	// From hold. body is the held request body; streams says that it was too large to
	// hold (or that the request is not steered) and goes through as it comes.
	body    []byte
	scratch [heldScratch]byte
	held    int64 // bytes that count towards the total
	streams bool
	stream  *clientBody
	// trailer takes what the client sends after a body without length, once that has
	// been read.
	trailer http.Header
	reading time.Duration // spent reading the request body
	now     time.Time     // when that was done: deciding takes no time
	// clientGone is set when reading the client's body fails: what goes wrong after
	// that is nobody else's fault.
	clientGone bool

	// From resolve and choose.
	plan  *cluster.Plan
	first *try // as decided; nil if the request is not steered
	items *multiSearch
	bulk  *bulkWrite // nil if the request is none, or stays as it is
	sniff string     // address to put in place of the nodes' in the answer

	// From admit. Parts of the ticket are from choose, where admission is on.
	ticket   admission.Ticket
	admits   bool // admission is on
	admitted bool // the ticket has been admitted and not returned
	// turn is told when the verdict about a ticket that waits has come; made when one does.
	turn chan struct{}

	// From rewrite: the header fields that go upstream, as bytes.
	fields []byte

	// suspects are the nodes that attempts so far are blamed on, failure the cause. avoid
	// are those that the next choice leaves out.
	suspects, avoid []*selection.Node
	failure         attempt.Cause

	mu      sync.Mutex
	machine attempt.Machine
	tries   []*try
	tryRoom [3]*try
	// tried are the nodes that attempts went through since the last pause.
	tried []*upstream
	timer *time.Timer   // of the hedge
	round int           // where in tried those of this round of the client's own request begin
	armed bool          // the timer may run, and holds the exchange
	left  time.Duration // how long the timer is to run again before the first attempt is overdue
	quiet quietContext
	// unwatch ends watching the client; nil if it is not watched.
	unwatch func() bool
	asked   bool // nodes have been asked how they are
	over    bool // no hedge is to begin any more
	waits   bool // the handler's goroutine waits for the end of the hedge
	// passInterim is the method interim, kept with the exchange.
	passInterim func(int, http.Header)
	next        chan attempt.Action // what the end of a hedge asks of the handler's goroutine

	headAt   time.Time // when the answer's head was ready for the client
	complete bool      // the client has got its answer
}

// exchanges lends exchanges, those that were used.
var exchanges sync.Pool //nolint:gochecknoglobals // a pool is shared by nature

// newExchange begins the exchange of a request.
func newExchange(p *Proxy, w http.ResponseWriter, r *http.Request) *exchange {
	x, used := exchanges.Get().(*exchange)
	if !used {
		x = &exchange{next: make(chan attempt.Action, 1)}
		x.timer = time.AfterFunc(time.Hour, x.overdue)
		x.timer.Stop()
		x.passInterim = x.interim
	}
	x.Reset(time.Now())
	x.p, x.w, x.r, x.view, x.query = p, w, r, p.view.Load(), r.URL.RawQuery
	x.ticket.Owner = x
	x.admits = p.AdmissionMode() != admission.Off
	x.quiet.Context = r.Context()
	x.refs.Store(1)
	return x
}

// release gives the exchange up; the last of its holders returns it.
func (x *exchange) release() {
	if x.refs.Add(-1) > 0 {
		return
	}
	x.p.held.Add(-x.held)
	if x.first != nil && !slices.Contains(x.tries, x.first) {
		x.first.release()
	}
	for _, t := range x.tries {
		t.release()
	}
	select {
	case <-x.next: // left behind by a panic
	default:
	}
	clear(x.tried)
	clear(x.suspects)
	x.ticket.Reset()
	*x = exchange{
		ticket: x.ticket, turn: x.turn,
		next: x.next, timer: x.timer, passInterim: x.passInterim,
		fields: small(x.fields), tried: x.tried[:0], suspects: x.suspects[:0],
	}
	x.tries = x.tryRoom[:0]
	exchanges.Put(x)
}

// small returns an empty buffer to be used again, unless it has become large.
func small(b []byte) []byte {
	if cap(b) > 16<<10 {
		return nil
	}
	return b[:0]
}

// steering is how the request is steered, if it is.
func (x *exchange) steering() es.Steering { return x.request.Operation.Steering() }

// gone reports whether the client has left.
func (x *exchange) gone() bool {
	return x.clientGone || x.stream != nil && x.stream.gone.Load() || x.r.Context().Err() != nil
}

// stalled reports whether the client has sent nothing of its body for too long.
func (x *exchange) stalled() bool { return x.stream != nil && x.stream.stalled.Load() }

// try is one attempt at an exchange. Between its sending and its end it belongs to the
// goroutine that sends it.
type try struct {
	x        *exchange
	steered  bool               // it goes to the nodes of the decision
	decision selection.Decision // if it is steered
	upstream *upstream
	query    string
	body     []byte
	outHead  []byte // as it goes upstream
	number   int    // in the machine and in the trail
	began    time.Time
	header   http.Header // the client's, with the name of the attempt's span; nil if there is none
	message  leg.Message
	leased   bool
	abort    leg.Abort
	// abandoned: another attempt was sooner. Guarded by the exchange's mu.
	abandoned bool
	answer
}

// tries lends attempts: a decision has room that is worth keeping.
var tries = sync.Pool{New: func() any { return new(try) }} //nolint:gochecknoglobals // a pool is shared by nature

func newTry(x *exchange) *try {
	t := tries.Get().(*try)
	t.x = x
	return t
}

// release gives the attempt up for good.
func (t *try) release() {
	t.unlease()
	t.discard()
	*t = try{decision: t.decision, outHead: small(t.outHead)}
	tries.Put(t)
}

// lists reports whether the attempt has a list of nodes.
func (t *try) lists() bool { return t.steered && t.decision.Reason.Lists() }

// exchangeKey finds the exchange of a request in its context.
type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }
