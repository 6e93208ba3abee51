package bulk

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// maxBooks bounds the number of books.
const maxBooks = 2000

// Books are the books of all indices that bulks are written to. They outlive a change of
// the configuration. They are safe for concurrent use; the zero value is ready.
type Books struct {
	// Ambiguous are the bulks of which it is unknown whether they were stored, or whether their clients know.
	Ambiguous Ambiguous

	mu    sync.Mutex
	books map[bookKey]*Book
	sizes map[string]int
}

// bookKey is the key of a book: of the slots of an index, of so many shards each.
type bookKey struct {
	index string
	size  int
}

// Book is the state of the slots of one index, which are its parts.
type Book struct {
	*Balance
	*Pace

	// Bulks counts those with operations written to one of the parts.
	Bulks atomic.Int64

	uuid   string // of the index
	shards int    // of the index
	size   int    // of each part, in shards
	usedAt time.Time
	counts counts
}

// counts are the engine's own.
type counts struct {
	mu   sync.Mutex
	at   time.Time
	base []int64 // what each part had when the book was opened
}

// Sizes returns the indices that were written to by slots, with the size of the slots.
func (b *Books) Sizes() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.sizes)
}

// KeepSize records that operations with a routing are written to slots of so many shards: see
// [Books.Sizes].
func (b *Books) KeepSize(index string, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes == nil {
		b.sizes = make(map[string]int)
	}
	b.sizes[index] = size
}

// Of returns the book of the slots of an index, of size shards each (see [Logical]), and
// creates it if there is none. An index that was deleted and created again gets a new one.
func (b *Books) Of(x Index, size int, maxSkew float64, now time.Time) *Book {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.books == nil {
		b.books = make(map[bookKey]*Book)
	}
	key := bookKey{x.WriteIndex, size}
	k := b.books[key]
	if k == nil || !k.is(x) {
		for k == nil && len(b.books) >= maxBooks {
			b.dropOldest()
		}
		k = newBook(x, size, maxSkew)
		k.counts.at = now // those from before may be of the index that had its name
		b.books[key] = k
	}
	k.usedAt = now
	k.SetMaxSkew(maxSkew)
	return k
}

// Look returns what [Books.Of] would, but keeps no new book.
func (b *Books) Look(x Index, size int, maxSkew float64) *Book {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.books[bookKey{x.WriteIndex, size}]; k != nil && k.is(x) {
		return k
	}
	return newBook(x, size, maxSkew)
}

func newBook(x Index, size int, maxSkew float64) *Book {
	parts := x.Shards / size
	return &Book{Balance: NewBalance(parts, maxSkew), Pace: NewPace(parts), uuid: x.UUID, shards: x.Shards, size: size}
}

// is reports whether the book is that of the index, and not of one that had its name before.
func (k *Book) is(x Index) bool { return k.uuid == x.UUID && k.shards == x.Shards }

// Size returns the number of shards in each part of the book.
func (k *Book) Size() int { return k.size }

// Parts returns the number of parts.
func (k *Book) Parts() int { return k.shards / k.size }

// dropOldest removes the book that was not used for the longest time.
func (b *Books) dropOldest() {
	var oldest bookKey
	for key, k := range b.books {
		if oldest.index == "" || k.usedAt.Before(b.books[oldest].usedAt) {
			oldest = key
		}
	}
	delete(b.books, oldest)
}

// IndexBook is a book with the name of its index.
type IndexBook struct {
	Index string
	*Book
}

// Used returns the books used since a time. An index may have several: one for each size of
// its slots.
func (b *Books) Used(since time.Time) []IndexBook {
	b.mu.Lock()
	defer b.mu.Unlock()
	var used []IndexBook
	for key, k := range b.books {
		if k.usedAt.After(since) {
			used = append(used, IndexBook{key.index, k})
		}
	}
	return used
}

// Skews returns the skew of each index whose book was used since a time, if it is
// settled.
func (b *Books) Skews(since time.Time) map[string]float64 {
	skews := make(map[string]float64)
	for _, k := range b.Used(since) {
		if k.Settled() {
			skews[k.Index] = max(skews[k.Index], k.Skew())
		}
	}
	return skews
}

// Counted sets how many documents each shard has by the engine's own count, as of the
// time of the request. What the shards had before this process wrote does not count:
// evenness is that of what was written since. Counts that were set before are ignored.
func (k *Book) Counted(byShard []int64, at time.Time) {
	k.counts.mu.Lock()
	defer k.counts.mu.Unlock()
	if !at.After(k.counts.at) || len(byShard) != k.shards {
		return
	}
	k.counts.at = at
	documents := make([]int64, k.Parts())
	for shard, n := range byShard {
		documents[shard/k.size] += n
	}
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
