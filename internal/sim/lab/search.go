package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/attempt"
	"sidestep/internal/selection"
)

// search is one request of a client.
type search struct {
	start    time.Duration
	kind     kind
	index    int
	shards   []int     // global numbers of the shards it touches
	demands  []float64 // CPU seconds of the shard query on each
	sidecar  int
	class    int // of admission
	finished func(ok bool)

	machine attempt.Machine
	rule    attempt.Rule
	tries   []*try
	second  *try            // the second attempt beside the first; nil: there was none
	tried   []int           // nodes that attempts went through
	round   int             // where in tried a new round began
	decided *plan           // the first attempt, made when the search came
	near    *selection.Node // to send it through although it is not steered; may be nil
	repeats int             // how often its client sends it again, if it gets an error that another node may not give
	left    bool            // its client has closed the connection
	settled bool            // answered, for better or worse

	cause    attempt.Cause // of the last failure
	suspects []int         // nodes that failures named
	avoid    []int         // the same, and those with full queues

	ticket admission.Ticket
}

// try is one attempt of a search.
type try struct {
	plan
	number   int
	steered  bool
	sent     time.Duration
	ended    bool
	status   int  // of HTTP; 0: no answer
	complete bool // its answer lacks nothing
	cause    attempt.Cause
	// cancelled: nobody waits for it. What waits for a thread is dropped, what runs is
	// not: the engine would stop it within some milliseconds.
	cancelled bool
	hops      int // shard queries that its coordinating node sent to another node
}

// good reports whether its answer is the client's, and lacks nothing.
func (t *try) good() bool { return t.complete && t.cause == attempt.Good }

// last returns the attempt that was sent last.
func (s *search) last() *try { return s.tries[len(s.tries)-1] }

// ownSent reports whether the client's own request has been sent.
func (s *search) ownSent() bool {
	return slices.ContainsFunc(s.tries, func(t *try) bool { return !t.steered })
}

// request draws what is asked for.
func (w *world) request(s *search) {
	if w.sc.drawn == nil {
		s.index = w.demands.IntN(len(w.indices))
		s.shards = w.indices[s.index]
		mean := w.sc.demand.Seconds()
		if s.class == floodClass {
			mean *= w.sc.flood.factor
		}
		if w.sc.byID > 0 && w.demands.Float64() < w.sc.byID {
			at := w.demands.IntN(len(s.shards))
			s.kind, s.shards, mean = readByID, s.shards[at:at+1], readDemand
		}
		s.demands = w.drawDemands(len(s.shards), mean, w.sc.sigma)
		return
	}
	t := w.tenant()
	s.index = t.Indices[w.demands.IntN(len(t.Indices))]
	shards := w.indices[s.index]
	what, at := w.demands.Float64(), w.demands.IntN(len(shards))
	mean, sigma := t.Mean/1000, t.Sigma
	switch {
	case what < t.OneShard:
		s.kind, s.shards = searchOne, shards[at:at+1]
	case what < t.OneShard+t.ByID:
		s.kind, s.shards, mean = readByID, shards[at:at+1], readDemand
	default:
		s.shards = shards
	}
	s.demands = w.drawDemands(len(s.shards), mean, sigma)
}

// tenant draws who asks.
func (w *world) tenant() *DrawnTenant {
	x := w.demands.Float64()
	tenants := w.sc.drawn.Tenants
	for i := range tenants {
		if x -= tenants[i].Share; x < 0 {
			return &tenants[i]
		}
	}
	return &tenants[len(tenants)-1]
}

// drawDemands draws the CPU seconds of shard queries: lognormal.
func (w *world) drawDemands(count int, mean, sigma float64) []float64 {
	out := make([]float64, count)
	for i := range out {
		out[i] = lognormal(w.demands, mean, sigma)
	}
	return out
}

func lognormal(rng *rand.Rand, mean, sigma float64) float64 {
	return mean * math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2)
}

// look is how often clients look whether they have waited for too long.
const look = 500 * time.Millisecond

// watch has the clients give up when they have waited for too long.
func (w *world) watch() {
	waiting := w.patient[:0]
	for _, s := range w.patient {
		if !s.settled && w.c.now-s.start >= w.sc.patience {
			w.giveUp(s)
		}
		if !s.settled {
			waiting = append(waiting, s)
		}
	}
	clear(w.patient[len(waiting):])
	w.patient = waiting
	w.c.after(look, w.watch)
}

// giveUp ends a search whose client has closed its connection, which cancels it on the
// engine. It counts for no statistics.
func (w *world) giveUp(s *search) {
	if s.settled {
		return
	}
	s.left = true
	w.measure.gaveUp++
	s.machine.Stop()
	for _, t := range s.tries {
		if !t.ended {
			t.ended, t.cancelled = true, true
			w.routers[s.sidecar].release(t)
		}
	}
	w.conclude(s, false, 0)
}
