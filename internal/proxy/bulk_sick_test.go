package proxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
)

func TestABusyClusterDoesNotHideSlowShards(t *testing.T) {
	queues := map[string]bool{}
	h, _ := startStore(t, func(b *Bulk) { b.Queues = func(node string) bool { return queues[node] } })
	v := h.proxy.view.Load()
	index, _ := v.snapshot.Lookup("idx")
	now := time.Now()
	book := h.proxy.o.Bulk.Books.Of(bulk.Index{WriteIndex: "idx", Shards: 3}, 1.5, now)
	sick := func() (sick []int) {
		s := h.proxy.sickShards(v, book, index, now)
		for shard := range 3 {
			if s.is(shard) {
				sick = append(sick, shard)
			}
		}
		return sick
	}
	require.Empty(t, sick())
	queues["id-b"] = true // it has copies of shards 0 and 1
	require.Equal(t, []int{0, 1}, sick())
	queues["id-a"], queues["id-c"] = true, true
	require.Empty(t, sick(), "that all queue tells nothing")
	for range 5 {
		for shard, took := range []time.Duration{time.Second, 10 * time.Millisecond, 10 * time.Millisecond} {
			book.Begin(shard, now)
			book.End(shard, 100, took, now)
		}
	}
	require.Equal(t, []int{0}, sick(), "its bulks take long, however busy the others are")
}

// A shard that is due to be tried gets one of the bulks that come at once.
func TestClientsTryASlowShardWithOneBulk(t *testing.T) {
	h, _ := startStore(t, func(*Bulk) {})
	v := h.proxy.view.Load()
	index, _ := v.snapshot.Lookup("idx")
	now := time.Now()
	book := h.proxy.o.Bulk.Books.Of(bulk.Index{WriteIndex: "idx", Shards: 3}, 1.5, now)
	for range 5 {
		for shard, took := range []time.Duration{time.Second, 10 * time.Millisecond, 10 * time.Millisecond} {
			book.Begin(shard, now)
			book.End(shard, 100, took, now)
		}
	}
	require.NotNil(t, book.Slow(now))
	now = now.Add(time.Hour)
	require.Nil(t, book.Slow(now))
	tried := 0
	for range 100 {
		shard, _ := h.proxy.pickShard(v, book, index, now)
		if shard == 0 {
			tried++
		}
		book.Wrote(shard, 0, 0)
	}
	require.Equal(t, 1, tried)
	standings, _ := book.Preview(nil)
	for _, s := range standings {
		require.Zero(t, s.Outstanding)
	}
}
