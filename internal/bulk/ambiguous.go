package bulk

import (
	"strconv"
	"sync"
	"time"
)

const (
	// ambiguousAge is for how long a bulk is remembered of which nobody knows whether it
	// was stored, and maxAmbiguous how many are.
	ambiguousAge = 10 * time.Minute
	maxAmbiguous = 10_000
	// unreadAge is for how long after an answer the end of its connection tells whether
	// it was read: what is reset later was idle.
	unreadAge = 10 * time.Second
)

// Key identifies the body of a bulk, together with who sent it and to where.
type Key [32]byte

// Minted is what a bulk was sent with, so that it can be sent again the same: with it
// every document has the same id and belongs to the same shard.
type Minted struct {
	// Prefix is of the ids; the rest is the number of the operation.
	Prefix string
	// Routings are the routing values by index.
	Routings map[string]string
}

// IDs returns a function that makes the ids of one reading of the bulk, in the order of
// its operations.
func (m *Minted) IDs() func() string {
	next := int64(0)
	return func() string {
		next++
		return m.Prefix + strconv.FormatInt(next, 36)
	}
}

// Ambiguous remembers bulks of which nobody knows whether they were stored: each is
// matched once. Safe for concurrent use; the zero value is ready.
type Ambiguous struct {
	mu    sync.Mutex
	going map[Key]chan struct{} // under way; closed when it is over
	bulks map[Key]remembered
	order []ordered // by time
	// answered are bulks whose answer was written, until their connections tell whether
	// it was read: one for each connection at most.
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

// Enter notes that such a bulk is under way until [Ambiguous.Leave]. If one is already it
// returns a channel that is closed when that is over: only then it is known whether this
// one is the same again, sent by a client that waits no longer, or one that only looks
// the same.
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

// Remember notes that a bulk may have been stored.
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
	a.bulks[k] = remembered{m, now}
	a.order = append(a.order, ordered{k, now})
}

// Answered notes that the answer to a bulk was written, but not yet whether its client has
// read it. If an equal bulk comes meanwhile, unread is asked whether the client is known
// not to have: only then it is the same again. settle ends that; it remembers the bulk if
// the answer was not read, and reports whether it did.
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
		if a.answered[k] != w { // an equal one came
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

// Take returns what such a bulk was sent with, and forgets it.
func (a *Ambiguous) Take(k Key, now time.Time) (Minted, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(now, maxAmbiguous)
	b, ok := a.bulks[k]
	delete(a.bulks, k)
	if w := a.answered[k]; w != nil {
		delete(a.answered, k)
		if !ok && w.holds(w.unread(), now) {
			return w.Minted, true
		}
	}
	return b.Minted, ok
}

// forget drops what is too old, and the oldest of more than most.
func (a *Ambiguous) forget(now time.Time, most int) {
	for len(a.order) > 0 && (len(a.order) > most || now.Sub(a.order[0].at) > ambiguousAge) {
		first := a.order[0]
		a.order = a.order[1:]
		if b, ok := a.bulks[first.key]; ok && b.at.Equal(first.at) {
			delete(a.bulks, first.key)
		}
	}
}
