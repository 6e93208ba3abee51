package proxy

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
)

func TestABusyClusterDoesNotHideSlowShards(t *testing.T) {
	queues := map[string]bool{}
	h, _ := startStore(t, func(b *Bulk) { b.Queues = func(node string) bool { return queues[node] } })
	v := h.proxy.view.Load()
	index, _ := v.snapshot.Lookup("idx")
	now := time.Now()
	book := h.proxy.o.Bulk.Books.Of(bulk.Index{WriteIndex: "idx", Shards: 3}, 1, 1.5, now)
	sick := func() (sick []int) {
		s := h.proxy.sickSlots(v, book, index, now)
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
	book := h.proxy.o.Bulk.Books.Of(bulk.Index{WriteIndex: "idx", Shards: 3}, 1, 1.5, now)
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
		shard, _ := h.proxy.pickSlot(v, book, index, now)
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

// A bulk that asks for a refresh waits for that, which may be a second or more: its shard is neither silent nor slow.
func TestABulkThatWaitsForARefreshTellsNothingOfItsShard(t *testing.T) {
	for _, c := range []struct {
		query string
		tells bool
	}{{"", true}, {"?refresh=false", true}, {"?refresh", false}, {"?refresh=true", false}, {"?refresh=wait_for", false}} {
		b := startBulks(t, 3, nil)
		book := b.books.Of(b.index, 1, 1.5, time.Now())
		silent := -1
		b.answer = func(node string, w http.ResponseWriter, r *http.Request) {
			silent = len(silentOf(book.Slow(time.Now().Add(time.Minute))))
			stored(node, w, r)
		}
		resp, _ := b.do("POST", "/idx/_bulk"+c.query, five)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.EqualValues(t, 5, b.documents())
		timed := slices.ContainsFunc(book.Times(), func(took time.Duration) bool { return took > 0 })
		require.Equal(t, c.tells, timed, c.query)
		require.Equal(t, c.tells, silent == 1, c.query)
	}
}

// Clients that give up on a shard do not make it look as if it answered.
func TestAShardThatClientsGiveUpOnStaysSilent(t *testing.T) {
	t.Parallel()
	b := startBulks(t, 3, nil)
	book, began := b.books.Of(b.index, 1, 1.5, time.Now()), time.Now().Add(-time.Minute)
	for shard := range 3 {
		book.Begin(shard, began) // others wait, too
	}
	ctx, leave := context.WithCancel(t.Context())
	b.answer = func(_ string, _ http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.front.URL+"/idx/_bulk", strings.NewReader(five))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	_, err = http.DefaultClient.Do(req)
	require.Error(t, err)
	require.Eventually(t, func() bool {
		standings, _ := book.Preview(nil)
		return !slices.ContainsFunc(standings, func(s bulk.Standing) bool { return s.Outstanding > 0 })
	}, patience, time.Millisecond)
	require.Len(t, silentOf(book.Slow(time.Now())), 3)
}

// A shard that has lost its primary copy takes no writes: nothing is sent there, however even the shards are to be. Once
// it is back it gets what it lacks, but not everything.
func TestAShardWithoutAPrimaryGetsNothing(t *testing.T) {
	b := startBulks(t, 3, nil)
	lose := func(lost bool, age time.Duration) {
		s := b.snapshot()
		s.PlacedAt = time.Now().Add(-age)
		idx, _ := s.Lookup("idx")
		if lost {
			idx.Shards[1].Copies[0] = cluster.Copy{Kind: 'p', State: cluster.Unassigned}
		}
		b.proxy.UseSnapshot(s)
	}
	lose(true, 0)
	for range 60 {
		b.do("POST", "/idx/_bulk", five)
		require.NotEqual(t, 1, b.shardOf(five, b.seen()[0]))
		b.forgetPace()
	}
	e := b.proxy.ExplainBulk("idx")
	require.Equal(t, []string{"no primary copy takes writes"}, e.Shards[1].Avoided)
	require.Zero(t, e.Shards[1].Chance)
	require.InDelta(t, 1, e.Shards[0].Level, 0.5, "the others are even among themselves")
	for _, lost := range []bool{true, false} { // an hour ago, or not any more
		lose(lost, time.Hour)
		chance := b.proxy.ExplainBulk("idx").Shards[1].Chance
		require.Greater(t, chance, 1./3)
		require.LessOrEqual(t, chance, 1.5/3+1e-9)
	}
}

// Nothing is written to search-only copies: what their nodes suffer from keeps no bulk from their shards.
func TestWritesDoNotWaitForSearchOnlyCopies(t *testing.T) {
	b := startBulks(t, 3, nil)
	b.queues.Store(id(1)) // it has copies of shards 0 and 1
	avoided := func(kind byte) (avoided []int) {
		s := b.snapshot()
		idx, _ := s.Lookup("idx")
		for _, shard := range idx.Shards {
			shard.Copies[1].Kind = kind
		}
		b.proxy.UseSnapshot(s)
		for _, shard := range b.proxy.ExplainBulk("idx").Shards {
			if len(shard.Avoided) > 0 {
				avoided = append(avoided, shard.Shard)
			}
		}
		return avoided
	}
	require.Equal(t, []int{0, 1}, avoided('r'))
	require.Equal(t, []int{1}, avoided('s'))
}

// A client that takes long to read its answer does not make a shard look as if it did not answer.
func TestAClientThatReadsSlowlyMakesNoShardSilent(t *testing.T) {
	b := startBulks(t, 3, nil)
	book, read := b.books.Of(b.index, 1, 1.5, time.Now()), make(chan struct{})
	end := sync.OnceFunc(func() { close(read) })
	t.Cleanup(end)
	b.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		stored("", w, r)
		_ = http.NewResponseController(w).Flush()
		<-read
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.front.URL+"/idx/_bulk", strings.NewReader(five))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	require.Empty(t, silentOf(book.Slow(time.Now().Add(time.Minute))))
	timed := slices.ContainsFunc(book.Times(), func(took time.Duration) bool { return took > 0 })
	require.True(t, timed)
	end()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}
