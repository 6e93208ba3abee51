package e2e

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
	"sidestep/test/harness"
)

const (
	// wholeShards is how many shards the indices of bulks have.
	wholeShards = 6
	// writeQueue is how many writes of shards a node lets wait: few, so that a test can
	// have it reject some.
	writeQueue = "60"
	// slotSize is how many shards are in a slot of the indices with logical shards.
	slotSize = 2
	// wholeConfig opts in what is called whole-…, and slots-… to logical shards.
	wholeConfig = "bulk:\n  single_shard:\n    - index: \"whole-*\"\n  routing_size:\n    - {index: \"slots-*\", size: 2}\n"
	// breather is how long a client pauses after each bulk while a node starts, which needs
	// the CPU.
	breather = 50 * time.Millisecond
	// fewBulks is how many bulks a shard may have before it matters that it has more
	// than the others.
	fewBulks = 8
	maxSkew  = 1.5
)

// TestBulks writes bulks through a sidestep that keeps each on one shard, and reads from
// the engine what came of them.
func TestBulks(t *testing.T) {
	f := startBefore(t, shared.Cluster, wholeConfig)
	require.NoError(t, f.AwaitReady(t.Context()))
	t.Run("one index", func(t *testing.T) { testOneIndex(t, f) })
	t.Run("several indices", func(t *testing.T) { testSeveralIndices(t, f) })
	t.Run("all kinds of operations", func(t *testing.T) { testMixed(t, f) })
	t.Run("data stream", func(t *testing.T) { testDataStream(t, f) })
	t.Run("logical shards", func(t *testing.T) { testLogicalShards(t, f) })
	t.Run("rejections", func(t *testing.T) { testRejections(t, f) })
	t.Run("kill", func(t *testing.T) { testKill(t, f) })
}

// whole makes an index for bulks and waits until sidestep keeps those for it together.
// What was written meanwhile is in the ledger.
func whole(t *testing.T, f *harness.Front, l *ledger, index string) {
	t.Helper()
	create(t, index)
	planned(t, f, l, index)
}

// create makes an index for bulks, which is deleted when the test ends.
func create(t *testing.T, index string) {
	t.Helper()
	change(t, http.MethodPut, "/"+index, object{"settings": wholeSettings(), "mappings": wholeMappings()})
	t.Cleanup(func() { change(t, http.MethodDelete, "/"+index, nil) })
	require.NoError(t, shared.Cluster.WaitGreen(t.Context(), index))
}

func wholeSettings() object {
	return object{"index": object{"number_of_shards": wholeShards, "number_of_replicas": 1, "refresh_interval": "-1"}}
}

func wholeMappings() object {
	long := object{"type": "long"}
	return object{"dynamic": "strict", "properties": object{"n": long, "v": long, "text": object{"type": "keyword"}, "@timestamp": object{"type": "date"}}}
}

// planned writes to an index until sidestep has learned it.
func planned(t *testing.T, f *harness.Front, l *ledger, index string) {
	t.Helper()
	require.Eventually(t, func() bool {
		b := newBulk(index, l.add(""))
		require.NoError(t, b.send(t.Context(), client, f.URL))
		b.requireKept(t)
		return b.reason == "one_shard"
	}, patience, 50*time.Millisecond, "bulks on %s are not planned", index)
}

// sendBulks has so many clients send bulks, each one after the other, and returns them all.
func sendBulks(t *testing.T, f *harness.Front, clients, bulks int, next func(client int) *sentBulk) []*sentBulk {
	t.Helper()
	own := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer own.CloseIdleConnections()
	sent := make([][]*sentBulk, clients)
	failures := make([]error, clients)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for range bulks {
				b := next(c)
				sent[c] = append(sent[c], b)
				if failures[c] = b.send(t.Context(), own, f.URL); failures[c] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	return slices.Concat(sent...)
}

func testOneIndex(t *testing.T, f *harness.Front) {
	const index = "whole-one"
	l := &ledger{}
	whole(t, f, l, index)
	sent := sendBulks(t, f, 4, 40, func(int) *sentBulk {
		b := newBulk("")
		for range 50 {
			b.operations = append(b.operations, l.add(index))
		}
		return b
	})
	for _, b := range sent {
		require.Equal(t, "one_shard", b.reason)
		b.requireKept(t)
	}
	found := l.requireThere(t, f, index)
	requireTogether(t, sent, found)
	shards := make(map[int]int)
	for _, d := range found {
		shards[d.shard]++
	}
	t.Logf("%d bulks, %d documents, by shard: %v", len(sent), len(found), shards)
	require.Len(t, shards, wholeShards)
	requireEven(t, f, index, len(sent))
}

// A bulk for an index that is opted in and for one that is not.
func testSeveralIndices(t *testing.T, f *harness.Front) {
	const in, also, out = "whole-a", "whole-b", "loose"
	l := &ledger{}
	whole(t, f, l, in)
	whole(t, f, l, also)
	create(t, out)
	sent := sendBulks(t, f, 4, 15, func(int) *sentBulk {
		b := newBulk(out)
		for i := range 60 {
			b.operations = append(b.operations, l.add([]string{in, "", also}[i%3]))
		}
		return b
	})
	for _, b := range sent {
		require.Equal(t, "one_shard", b.reason)
		b.requireKept(t)
	}
	for _, index := range []string{in, also} {
		requireTogether(t, sent, l.requireThere(t, f, index))
	}
	for _, d := range l.requireThere(t, f, out) {
		require.Empty(t, d.routing, "documents of an index that was not opted in")
	}
}

// Operations of every kind in one bulk: those with an id are where readers look for
// them, the others are together.
func testMixed(t *testing.T, f *harness.Front) {
	const index = "whole-mixed"
	l := &ledger{}
	whole(t, f, l, index)
	writers := make([]*writer, 4)
	for i := range writers {
		writers[i] = &writer{l: l, prefix: "w" + strconv.Itoa(i) + "-", random: rand.New(rand.NewPCG(uint64(i), 2026))}
	}
	statuses := make(map[string]int)
	sent := sendBulks(t, f, len(writers), 25, func(client int) *sentBulk {
		b := newBulk(index)
		for range 40 {
			b.operations = append(b.operations, writers[client].next())
		}
		return b
	})
	for _, b := range sent {
		require.Equal(t, "one_shard", b.reason)
		b.requireKept(t)
		for _, o := range b.operations {
			statuses[o.verb+" "+strconv.Itoa(o.got.status)]++
		}
	}
	found := l.requireThere(t, f, index)
	requireTogether(t, sent, found)
	for _, d := range found {
		if o := d.operation; o.id != "" || o.routing != "" {
			require.Equal(t, o.routing, d.routing, "%+v", d)
		}
	}
	t.Logf("%d documents, items: %v", len(found), statuses)
}

func testDataStream(t *testing.T, f *harness.Front) {
	const stream = "whole-stream"
	if lacks(t, "data streams", search{path: "/_data_stream/*"}) {
		return
	}
	change(t, http.MethodPut, "/_index_template/"+stream, object{
		"index_patterns": []string{stream}, "data_stream": object{}, "priority": 500,
		"template": object{"settings": wholeSettings(), "mappings": wholeMappings()},
	})
	t.Cleanup(func() { change(t, http.MethodDelete, "/_index_template/"+stream, nil) })
	change(t, http.MethodPut, "/_data_stream/"+stream, nil)
	t.Cleanup(func() { change(t, http.MethodDelete, "/_data_stream/"+stream, nil) })
	require.NoError(t, shared.Cluster.WaitGreen(t.Context(), stream))
	l := &ledger{}
	sent := sendBulks(t, f, 4, 10, func(int) *sentBulk {
		b := newBulk(stream)
		for range 30 {
			o := l.add("")
			o.verb = "create"
			b.operations = append(b.operations, o)
		}
		return b
	})
	reasons := make(map[string]int)
	for _, b := range sent {
		b.requireKept(t)
		reasons[b.reason]++
	}
	t.Logf("reasons: %v", reasons)
	require.Zero(t, reasons["one_shard"], "a data stream refuses a routing")
	for _, d := range l.requireThere(t, f, stream) {
		require.Empty(t, d.routing)
	}
}

// More is written than the nodes let wait: some is rejected, and what is not is there.
func testRejections(t *testing.T, f *harness.Front) {
	const index = "whole-full"
	l := &ledger{}
	whole(t, f, l, index)
	sent := sendBulks(t, f, 150, 3, func(int) *sentBulk {
		b := newBulk(index)
		for i := range 40 {
			o := l.add("")
			if o.mayFail = true; i%4 == 0 { // these go to all shards
				o.id = "id-" + strconv.Itoa(o.n)
			}
			b.operations = append(b.operations, o)
		}
		return b
	})
	statuses, items, partly := make(map[int]int), make(map[int]int), 0
	for _, b := range sent {
		b.requireKept(t)
		statuses[b.status]++
		here := make(map[int]bool)
		for _, o := range b.operations {
			items[o.got.status]++
			here[o.got.status] = true
		}
		if len(here) > 1 {
			partly++
		}
	}
	t.Logf("bulks by status: %v, items by status: %v, bulks that were rejected in part: %d", statuses, items, partly)
	require.Positive(t, items[http.StatusTooManyRequests], "nothing was rejected")
	require.Positive(t, items[http.StatusCreated])
	for status := range statuses {
		require.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, status)
	}
	for status := range items {
		require.Contains(t, []int{0, http.StatusCreated, http.StatusTooManyRequests}, status)
	}
	requireTogether(t, sent, l.requireThere(t, f, index))
}

// A node is killed while bulks are written, and comes back. It costs nobody who searches an answer.
func testKill(t *testing.T, f *harness.Front) {
	const index = "whole-killed"
	l := &ledger{}
	whole(t, f, l, index)
	victim := holder(t, index)
	ended := make(chan struct{}, 100_000)
	enough := make(chan struct{})
	next := func(int) *sentBulk {
		select {
		case <-enough:
			return nil
		default:
		}
		b := newBulk(index)
		b.ended = ended
		for i := range 20 {
			o := l.add("")
			if o.mayFail = true; i%10 == 0 {
				o.id = "id-" + strconv.Itoa(o.n)
			}
			b.operations = append(b.operations, o)
		}
		return b
	}
	var all sync.WaitGroup
	var pause atomic.Int64
	const clients = 6
	sent := make([][]*sentBulk, clients)
	for c := range clients {
		all.Go(func() {
			for b := next(c); b != nil; b = next(c) {
				_ = b.send(t.Context(), client, f.URL) // whatever comes, it is in the books
				sent[c] = append(sent[c], b)
				_ = harness.Pause(t.Context(), time.Duration(pause.Load()))
			}
		})
	}
	finish := sync.OnceFunc(func() { close(enough); all.Wait() })
	t.Cleanup(finish)
	await := func(bulks int) {
		for range bulks {
			<-ended
		}
	}
	await(120)
	searches, stop := keepSearching(t, f.URL, 1)
	require.NoError(t, victim.Kill())
	killed := time.Now()
	await(250)
	pause.Store(int64(breather))
	restart, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	require.NoError(t, victim.Restart(restart))
	await(100)
	finish()
	require.NoError(t, shared.Cluster.WaitGreen(restart, ""))
	t.Logf("%s was back with all copies after %.0f s", victim.Name, time.Since(killed).Seconds())
	allFine(t)
	stop()
	require.Empty(t, searches.failed)
	l.requireSurvived(t, f, index, slices.Concat(sent...))
}

// requireSurvived requires that most bulks were answered, though a node was killed, and that what was acknowledged is there.
func (l *ledger) requireSurvived(t *testing.T, f *harness.Front, index string, bulks []*sentBulk) {
	t.Helper()
	statuses, items := make(map[int]int), make(map[int]int)
	for _, b := range bulks {
		b.requireKept(t)
		statuses[b.status]++
		for _, o := range b.operations {
			items[o.got.status]++
		}
	}
	t.Logf("%d bulks by status: %v, items by status: %v", len(bulks), statuses, items)
	require.LessOrEqual(t, len(bulks)-statuses[http.StatusOK], len(bulks)/10, "bulks that were not answered")
	requireTogether(t, bulks, l.requireThere(t, f, index))
	requireEven(t, f, index, len(bulks))
}

// holder returns a node that has a primary copy of the index; not the first, which tests
// ask.
func holder(t *testing.T, index string) *harness.Node {
	t.Helper()
	var rows []struct{ Kind, Node string }
	require.NoError(t, shared.Cluster.Do(t.Context(), http.MethodGet, "/_cat/shards/"+index+"?format=json&h=kind:prirep,node", nil, &rows))
	for _, row := range rows {
		if n := shared.Cluster.NodeByName(row.Node); n != nil && n != shared.Cluster.Nodes[0] {
			return n
		}
	}
	require.Fail(t, "no node to kill")
	return nil
}

// requireTogether requires that the documents of a bulk that were given a routing are all
// on the shard that this routing means.
func requireTogether(t *testing.T, sent []*sentBulk, found []stored) {
	t.Helper()
	values := bulk.Values(wholeShards, layout(t, found[0].index).RoutingShards)
	bulks := make(map[*sentBulk]map[string]int)
	for _, d := range found {
		o := d.operation
		if o.id != "" || o.routing != "" || o.bulk.reason != "one_shard" {
			continue
		}
		require.Equal(t, values[d.shard], d.routing, "%+v", d)
		if bulks[o.bulk] == nil {
			bulks[o.bulk] = make(map[string]int)
		}
		bulks[o.bulk][d.routing]++
	}
	require.NotEmpty(t, bulks)
	for _, b := range sent {
		require.LessOrEqual(t, len(bulks[b]), 1, "the documents of a bulk are on several shards")
	}
}

// requireEven requires that the fullest shard has no more than it may.
func requireEven(t *testing.T, f *harness.Front, index string, bulks int) {
	t.Helper()
	skew := sumOf(t, f, "sidestep_bulk_skew", map[string]string{"index": index})
	t.Logf("skew %.2f after %d bulks", skew, bulks)
	require.GreaterOrEqual(t, skew, 1.0)
	require.LessOrEqual(t, skew, maxSkew+float64(fewBulks*wholeShards)/float64(bulks))
}

// primaries returns how many documents each primary copy has.
func primaries(t *testing.T, index string) map[int]int {
	t.Helper()
	type copyOfShard struct{ Shard, Prirep, Docs string }
	var rows []copyOfShard
	// A node that is back a moment ago may not tell of its copies yet.
	require.Eventually(t, func() bool {
		rows = nil
		if shared.Cluster.Do(t.Context(), http.MethodGet, "/_cat/shards/"+index+"?format=json&h=shard,prirep,docs", nil, &rows) != nil {
			return false
		}
		rows = slices.DeleteFunc(rows, func(row copyOfShard) bool { return row.Prirep != "p" })
		return !slices.ContainsFunc(rows, func(row copyOfShard) bool { return row.Docs == "" })
	}, patience, 100*time.Millisecond, "all primary copies tell of their documents")
	counts := make(map[int]int)
	for _, row := range rows {
		shard, err := strconv.Atoi(row.Shard)
		require.NoError(t, err)
		if counts[shard], err = strconv.Atoi(row.Docs); err != nil || counts[shard] == 0 {
			delete(counts, shard)
		}
	}
	return counts
}
