package bulk

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// ambiguousAge is how long a bulk is remembered of which it is unknown whether it was
	// stored. maxAmbiguous bounds their number, maxNames that of the parts that they have.
	ambiguousAge = 10 * time.Minute
	maxAmbiguous = 10_000
	maxNames     = 20 * maxAmbiguous
	// unreadAge is how long after an answer a reset of its connection means that the
	// answer was not read. After that the connection was idle.
	unreadAge = 10 * time.Second
)

// Key identifies a bulk: its body, its client and its URL.
type Key [32]byte

// Minted is what a bulk was sent with. With it a repetition gives every document the same
// id and shard.
type Minted struct {
	// Prefix is the first part of the ids; the rest is the number of the operation.
	Prefix string
	// Places are where its parts went.
	Places map[Part]Destination
	// Crashed says that an operation ended with an internal error when it was sent again.
	Crashed bool
}

// IDs returns a function that returns the ids of one pass over the bulk, in the order of
// its operations.
func (m *Minted) IDs() func() string {
	next := int64(0)
	return func() string {
		next++
		return m.Prefix + strconv.FormatInt(next, 36)
	}
}

// Ambiguous remembers bulks of which it is unknown whether they were stored, each until
// it is repeated once. It is safe for concurrent use; the zero value is ready.
type Ambiguous struct {
	mu    sync.Mutex
	going map[Key]chan struct{} // in flight; closed when it has ended
	bulks map[Key]remembered
	names int       // of parts that bulks have
	order []ordered // by time
	// answered are bulks whose answer was written, until their connections show whether
	// it was read: at most one a connection.
	answered map[Key]*answered
}

type remembered struct {
	Minted
	at time.Time
}

type ordered struct {
	key Key
	at  time.Time
}

type answered struct {
	remembered
	unread func() bool
}

// holds reports whether the bulk is to be remembered, as its client is known not to have
// read the answer.
func (w *answered) holds(unread bool, now time.Time) bool {
	return unread && now.Sub(w.at) <= unreadAge
}

// Enter records that a bulk is in flight, until [Ambiguous.Leave]. If an equal one is in
// flight already, it returns a channel that is closed when that has ended. Only then is
// it known whether this one is a repetition, by a client that no longer waits, or a new
// bulk with the same content.
func (a *Ambiguous) Enter(k Key) (wait <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if over, ok := a.going[k]; ok {
		return over
	}
	if a.going == nil {
		a.going = make(map[Key]chan struct{})
	}
	a.going[k] = make(chan struct{})
	return nil
}

// Leave ends what Enter began.
func (a *Ambiguous) Leave(k Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.going[k])
	delete(a.going, k)
}

// Remember records that a bulk may have been stored.
func (a *Ambiguous) Remember(k Key, m Minted, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remember(k, m, now)
}

// remember is Remember. a.mu is held.
func (a *Ambiguous) remember(k Key, m Minted, now time.Time) {
	a.forget(now, maxAmbiguous-1)
	if a.bulks == nil {
		a.bulks = make(map[Key]remembered)
	}
	a.drop(k)
	a.bulks[k] = remembered{m, now}
	a.names += len(m.Places)
	a.order = append(a.order, ordered{k, now})
}

// Answered records that the answer to a bulk was written, but not yet whether its client
// has read it. If an equal bulk arrives meanwhile, unread is asked whether the client is
// known not to have read the answer: only then is it a repetition. settle ends that. It
// remembers the bulk if the answer was not read, and reports whether it did.
func (a *Ambiguous) Answered(k Key, m Minted, unread func() bool, now time.Time) (settle func(unread bool, now time.Time) bool) {
	w := &answered{remembered{m, now}, unread}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered == nil {
		a.answered = make(map[Key]*answered)
	}
	a.answered[k] = w
	return func(unread bool, now time.Time) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.answered[k] != w { // an equal one has replaced it
			return false
		}
		delete(a.answered, k)
		if !w.holds(unread, now) {
			return false
		}
		a.remember(k, m, now)
		return true
	}
}

// Take returns what such a bulk was sent with, and removes it.
func (a *Ambiguous) Take(k Key, now time.Time) (Minted, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(now, maxAmbiguous)
	b, ok := a.drop(k)
	if w := a.answered[k]; w != nil {
		delete(a.answered, k)
		if !ok && w.holds(w.unread(), now) {
			return w.Minted, true
		}
	}
	return b.Minted, ok
}

// forget removes what is too old, and the oldest beyond most.
func (a *Ambiguous) forget(now time.Time, most int) {
	if len(a.order) >= 2*maxAmbiguous {
		a.order = slices.DeleteFunc(a.order, func(o ordered) bool { return !a.holds(o) })
	}
	for len(a.order) > 0 {
		first := a.order[0]
		holds := a.holds(first)
		if holds && len(a.bulks) <= most && a.names <= maxNames && now.Sub(first.at) <= ambiguousAge {
			return
		}
		a.order = a.order[1:]
		if holds {
			a.drop(first.key)
		}
	}
}

// drop removes a bulk, and returns it.
func (a *Ambiguous) drop(k Key) (remembered, bool) {
	b, ok := a.bulks[k]
	a.names -= len(b.Places)
	delete(a.bulks, k)
	return b, ok
}

// holds reports whether the bulk is remembered since then: it was not taken meanwhile, nor remembered again.
func (a *Ambiguous) holds(o ordered) bool {
	b, ok := a.bulks[o.key]
	return ok && b.at.Equal(o.at)
}
