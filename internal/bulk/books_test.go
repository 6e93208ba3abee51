package bulk

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func indexOf(name string, shards int) Index {
	return Index{WriteIndex: name, Shards: shards}
}

func TestABookIsKeptForAnIndex(t *testing.T) {
	var b Books
	k := b.Of(indexOf("a", 3), 1, 1.5, epoch)
	shard, _ := k.Pick(0, nil)
	k.Wrote(shard, 10, 1000)
	require.Same(t, k, b.Of(indexOf("a", 3), 1, 2, epoch))
	require.InDelta(t, 2, k.maxSkew, 0, "the bound may be another after a reload")
	b.Of(indexOf("b", 3), 1, 1.5, epoch).Wrote(1, 10, 1000)
	require.NotSame(t, k, b.Of(indexOf("a", 4), 1, 1.5, epoch), "an index of that name was made anew")

	anew := indexOf("b", 3)
	anew.UUID = "x"
	k = b.Of(anew, 1, 1.5, epoch)
	require.Equal(t, []int64{0, 0, 0}, k.Own(), "nor does one with as many shards have what that had")
	require.Same(t, k, b.Look(anew, 1, 1.5))
	k.Counted([]int64{9, 9, 9}, epoch.Add(-time.Second))
	k.Counted([]int64{0, 0, 0}, epoch.Add(time.Second))
	k.Counted([]int64{5, 0, 0}, epoch.Add(2*time.Second))
	require.InDelta(t, 3, k.Skew(), 1e-9, "counts of before are not taken for its own")

	stream := Index{WriteIndex: ".ds-1", Shards: 2}
	k = b.Of(stream, 1, 1.5, epoch)
	stream.WriteIndex = ".ds-2"
	require.NotSame(t, k, b.Of(stream, 1, 1.5, epoch), "each index behind a name has its own")
}

func TestToLookOpensNoBook(t *testing.T) {
	var b Books
	require.Equal(t, []int64{0, 0}, b.Look(indexOf("a", 2), 1, 1.5).Own())
	require.Empty(t, b.Skews(time.Time{}))
	k := b.Of(indexOf("a", 2), 1, 1.5, epoch)
	require.Same(t, k, b.Look(indexOf("a", 2), 1, 3))
	require.InDelta(t, 1.5, k.maxSkew, 0)
	require.NotSame(t, k, b.Look(indexOf("a", 3), 1, 1.5))
	require.Same(t, k, b.Look(indexOf("a", 2), 1, 1.5))
}

func TestTheOldestBookIsClosed(t *testing.T) {
	var b Books
	first := b.Of(indexOf("first", 1), 1, 1.5, epoch)
	for i := range maxBooks - 1 {
		b.Of(indexOf(fmt.Sprint(i), 1), 1, 1.5, epoch.Add(time.Duration(i+1)*time.Second))
	}
	require.Same(t, first, b.Of(indexOf("first", 1), 1, 1.5, epoch.Add(time.Hour)))
	b.Of(indexOf("another", 1), 1, 1.5, epoch.Add(time.Hour))
	require.Len(t, b.books, maxBooks)
	require.NotContains(t, b.books, bookKey{"0", 1})
	require.Same(t, first, b.Look(indexOf("first", 1), 1, 1.5))
}

func TestSkewsOfWhatIsInUse(t *testing.T) {
	var b Books
	k := b.Of(indexOf("a", 2), 1, 1.5, epoch)
	for range slack {
		require.Empty(t, b.Skews(time.Time{}), "few bulks say little")
		k.Wrote(0, 10, 0)
		k.Wrote(0, 10, 0)
		k.Wrote(0, 10, 0)
		k.Wrote(1, 10, 0)
		require.InDelta(t, 1.5, k.Skew(), 0)
		if k.Settled() {
			break
		}
	}
	b.Of(indexOf("old", 2), 1, 1.5, epoch.Add(-time.Hour))
	require.Equal(t, map[string]float64{"a": 1.5}, b.Skews(epoch.Add(-time.Minute)))
}

// An index that is as uneven as may be, before anything was written here, is even as far
// as this process can do anything about it.
func TestWhatWasThereBeforeIsNotCounted(t *testing.T) {
	var b Books
	k := b.Of(indexOf("a", 2), 1, 1.5, epoch)
	k.Wrote(0, 10, 1000) // and the engine has counted that already
	k.Counted([]int64{1_000_010, 5}, epoch.Add(time.Second))
	require.InDelta(t, 2, k.Skew(), 0.001)

	k.Counted([]int64{1_000_020, 25}, epoch.Add(time.Minute))
	require.InDelta(t, 1, k.Skew(), 0.001, "others wrote 10 and 20")
	k.Counted([]int64{1_000_020, 99}, epoch.Add(time.Minute))
	k.Counted([]int64{1_000_020, 99}, epoch)
	k.Counted([]int64{1_000_020, 99, 1}, epoch.Add(time.Hour))
	k.Counted(nil, epoch.Add(time.Hour))
	require.InDelta(t, 1, k.Skew(), 0.001, "the same counts, older ones, and those of another index")

	k.Counted([]int64{0, 0}, epoch.Add(2*time.Hour))
	require.Equal(t, []int64{10, 0}, k.Own(), "what was written here was")
}

func TestBooksAreSafeForConcurrentUse(t *testing.T) {
	var b Books
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 500 {
				k := b.Of(indexOf(fmt.Sprint(n%5), 1+n%3), 1, 1.5, epoch.Add(time.Duration(n)*time.Second))
				shard, _ := k.Pick(float64(i)/8, sickIf(1+n%3, func(int) bool { return n%2 == 0 }))
				k.Begin(shard, epoch)
				k.Counted(make([]int64, 1+n%3), epoch.Add(time.Duration(n)*time.Second))
				k.End(shard, n, time.Millisecond, epoch)
				k.Wrote(shard, n, 1)
				k.Preview(nil)
				b.Skews(time.Time{})
			}
		})
	}
	wg.Wait()
	for _, k := range b.books {
		standings, _ := k.Preview(nil)
		for _, s := range standings {
			require.Zero(t, s.Outstanding)
		}
	}
}
