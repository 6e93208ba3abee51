package bulk

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxBooks bounds the indices that books are kept of.
const maxBooks = 2000

// Books are the books of all indices that bulks are written to. They outlive a change of
// the configuration. Safe for concurrent use; the zero value is ready.
type Books struct {
	// Ambiguous are the bulks of which nobody knows whether they were stored.
	Ambiguous Ambiguous

	mu      sync.Mutex
	byIndex map[string]*Book
}

// Book is what is kept of one index.
type Book struct {
	*Balance
	*Pace

	// Bulks counts those of which operations were written to one of the shards.
	Bulks atomic.Int64

	values int // shards
	usedAt time.Time
	counts counts
}

// counts are the engine's own.
type counts struct {
	mu   sync.Mutex
	at   time.Time
	base []int64 // what each shard had when the book was opened
}

// Of returns the book of an index, which it opens if there is none. An index that was
// deleted and made anew with another number of shards gets a new one.
func (b *Books) Of(x Index, maxSkew float64, now time.Time) *Book {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.byIndex[x.WriteIndex]
	if k == nil || k.values != x.Shards {
		if b.byIndex == nil {
			b.byIndex = make(map[string]*Book)
		}
		for k == nil && len(b.byIndex) >= maxBooks {
			b.dropOldest()
		}
		k = newBook(x, maxSkew)
		b.byIndex[x.WriteIndex] = k
	}
	k.usedAt = now
	k.SetMaxSkew(maxSkew)
	return k
}

// Look returns what [Books.Of] would, but opens no book: one that is empty is kept by the
// caller alone.
func (b *Books) Look(x Index, maxSkew float64) *Book {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.byIndex[x.WriteIndex]; k != nil && k.values == x.Shards {
		return k
	}
	return newBook(x, maxSkew)
}

func newBook(x Index, maxSkew float64) *Book {
	return &Book{Balance: NewBalance(x.Shards, maxSkew), Pace: NewPace(x.Shards), values: x.Shards}
}

// dropOldest closes the book that was not used for the longest time.
func (b *Books) dropOldest() {
	oldest := ""
	for name, k := range b.byIndex {
		if oldest == "" || k.usedAt.Before(b.byIndex[oldest].usedAt) {
			oldest = name
		}
	}
	delete(b.byIndex, oldest)
}

// Used returns the books that were used since then, by index.
func (b *Books) Used(since time.Time) map[string]*Book {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := make(map[string]*Book)
	for name, k := range b.byIndex {
		if k.usedAt.After(since) {
			used[name] = k
		}
	}
	return used
}

// Skews returns the skew of each index whose book was used since then, once it is
// settled.
func (b *Books) Skews(since time.Time) map[string]float64 {
	skews := make(map[string]float64)
	for name, k := range b.Used(since) {
		if k.Settled() {
			skews[name] = k.Skew()
		}
	}
	return skews
}

// Counted takes in how many documents each shard has by the engine's own count, as of
// the time it was asked. What the shards had before this process wrote is left out:
// evenness is that of what was written since. Counts that were taken in before are
// ignored.
func (k *Book) Counted(documents []int64, at time.Time) {
	k.counts.mu.Lock()
	defer k.counts.mu.Unlock()
	if !at.After(k.counts.at) || len(documents) != k.values {
		return
	}
	k.counts.at = at
	if k.counts.base == nil {
		k.counts.base = make([]int64, len(documents))
		for i, own := range k.Own() {
			k.counts.base[i] = max(documents[i]-own, 0)
		}
	}
	since := make([]int64, len(documents))
	for i, n := range documents {
		since[i] = n - k.counts.base[i]
	}
	k.Correct(since)
}
