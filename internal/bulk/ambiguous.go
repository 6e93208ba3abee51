package bulk

import (
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// ambiguousAge is how long a bulk is remembered of which it is unknown whether it was
	// stored. maxAmbiguous bounds their number, maxNames that of the parts that they have; likewise of those that were answered.
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
	Places map[Part]Slot
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

// Ambiguous remembers bulks of which it is unknown whether they were stored, or whether
// their clients know, each until it is repeated once. It is safe for concurrent use; the
// zero value is ready.
type Ambiguous struct {
	mu       sync.Mutex
	going    map[Key]chan struct{} // in flight; closed when it has ended
	unknown  recall                // whether they were stored
	answered recall                // and it may turn out that nobody has read that; they push out no other
	last     uint64                // number of the last that was
}

// recall are the latest bulks of a kind.
type recall struct {
	bulks *simplelru.LRU[Key, *remembered]
	names int // of parts that they have
}

type remembered struct {
	Minted
	at     time.Time
	number uint64 // of one that was answered
	// unread reports whether the client is known not to have read its answer; nil if it got
	// none.
	unread func() bool
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
	a.remember(k, &remembered{Minted: m, at: now})
}

// Answered records that the answer to a bulk was written, but not yet whether its client
// has read it. If an equal bulk arrives meanwhile, unread is asked whether the client is
// known not to have read the answer: only then is it a repetition. settle ends that. It
// remembers the bulk if the answer was not read, and reports whether it did.
func (a *Ambiguous) Answered(k Key, m Minted, unread func() bool, now time.Time) (settle func(unread bool, now time.Time) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	number := a.last
	a.remember(k, &remembered{Minted: m, at: now, number: number, unread: unread})
	// A connection that is idle keeps this: it must not keep what the bulk was sent with.
	return func(unread bool, now time.Time) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		b := a.answered.get(k)
		if b == nil || b.number != number { // an equal one has come, or it was forgotten
			return false
		}
		a.answered.bulks.Remove(k)
		if !unread || now.Sub(b.at) > unreadAge {
			return false
		}
		a.remember(k, &remembered{Minted: b.Minted, at: now})
		return true
	}
}

// remember takes in a bulk, in place of an equal one. a.mu is held.
func (a *Ambiguous) remember(k Key, b *remembered) {
	a.remove(k)
	if b.unread != nil {
		a.answered.add(k, b, unreadAge)
	} else {
		a.unknown.add(k, b, ambiguousAge)
	}
}

// remove forgets a bulk, and returns it; nil if there is none. a.mu is held.
func (a *Ambiguous) remove(k Key) *remembered {
	for _, r := range []*recall{&a.unknown, &a.answered} {
		if b := r.get(k); b != nil {
			r.bulks.Remove(k)
			return b
		}
	}
	return nil
}

// get returns a bulk, nil if it is not there.
func (r *recall) get(k Key) *remembered {
	if r.bulks == nil {
		return nil
	}
	b, _ := r.bulks.Peek(k)
	return b
}

// add takes in a bulk that is not there, and forgets what is older than age, and the oldest where there are too many.
func (r *recall) add(k Key, b *remembered, age time.Duration) {
	if r.bulks == nil {
		r.bulks, _ = simplelru.NewLRU(maxAmbiguous, func(_ Key, b *remembered) { r.names -= len(b.Places) }) // the size is positive
	}
	r.bulks.Add(k, b)
	r.names += len(b.Places)
	for {
		_, oldest, _ := r.bulks.GetOldest()
		if r.names <= maxNames && b.at.Sub(oldest.at) <= age {
			return
		}
		r.bulks.RemoveOldest()
	}
}

// Take returns what such a bulk was sent with, and removes it.
func (a *Ambiguous) Take(k Key, now time.Time) (Minted, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.remove(k)
	if b == nil {
		return Minted{}, false
	}
	age := now.Sub(b.at)
	if age > ambiguousAge || b.unread != nil && (age > unreadAge || !b.unread()) {
		return Minted{}, false
	}
	return b.Minted, true
}
