package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
)

// bulks is a harness whose index "idx" has bulks written to one shard each.
type bulks struct {
	*harness
	books  *bulk.Books
	index  bulk.Index
	known  atomic.Bool // the index is
	queues atomic.Value
}

// startBulks starts as many nodes as the index has shards; change may be nil.
func startBulks(t testing.TB, nodes int, change func(*Options)) *bulks {
	t.Helper()
	b := &bulks{books: &bulk.Books{}, index: bulkIndexOf("idx", nodes)}
	b.known.Store(true)
	b.queues.Store("")
	b.harness = start(t, nodes, func(o *Options) {
		o.Bulk = Bulk{
			Patterns: []string{"idx*"}, Avoid: true, MaxSkew: 1.5, Books: b.books,
			Index: func(name string) (bulk.Index, bool) {
				index := b.index
				if name == "idx-refused" {
					index.Refused = bulk.ReasonPipeline
				}
				return index, b.known.Load()
			},
			Queues: func(node string) bool { return b.queues.Load() == node },
		}
		if change != nil {
			change(o)
		}
	})
	b.answer = stored
	return b
}

func bulkIndexOf(name string, shards int) bulk.Index {
	return bulk.Index{WriteIndex: name, Shards: shards, RoutingShards: shards, Values: bulk.Values(shards, shards)}
}

// stored is an answer to any bulk that says that everything was stored.
func stored(_ string, w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, itemsOf(5, 201))
}

// storedOrComplete is that answer to a bulk, and one in which no shard is missing to all else.
func storedOrComplete(node string, w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/_bulk") {
		stored(node, w, r)
		return
	}
	respond(http.StatusOK, complete)(node, w, r)
}

// itemsOf is the answer to a bulk with so many items, all of this status.
func itemsOf(items, status int) string {
	one := fmt.Sprintf(`{"index":{"_index":"idx","_id":"x","status":%d}}`, status)
	return `{"took":3,"errors":false,"items":[` + strings.Repeat(one+",", items-1) + one + `]}`
}

// five is a bulk of five documents.
const five = "{\"index\":{}}\n{\"a\":1}\n{\"create\":{}}\n{\"a\":2}\n{\"index\":{\"_index\":\"idx\"}}\n{\"a\":3}\n{\"index\":{}}\n{\"a\":4}\n{\"index\":{}}\n{\"a\":5}\n"

var routed = regexp.MustCompile(`"routing":"(\d+)",?`)

// written takes the routing out of a body as a node got it, and returns its values.
func written(body string) (plain string, values []string) {
	for _, found := range routed.FindAllStringSubmatch(body, -1) {
		values = append(values, found[1])
	}
	return routed.ReplaceAllString(body, ""), values
}

// shardOf returns the shard that all operations of a body were given, which is to be
// the one body with that plain text.
func (b *bulks) shardOf(plain string, r recorded) int {
	b.t.Helper()
	got, values := written(r.body)
	require.Equal(b.t, plain, got, "nothing else is changed")
	require.Len(b.t, values, strings.Count(plain, "\n")/2)
	for shard, value := range b.index.Values {
		if value == values[0] {
			for _, other := range values {
				require.Equal(b.t, value, other)
			}
			return shard
		}
	}
	require.Fail(b.t, "no value of the index", values[0])
	return 0
}

// standings returns what is in the books, once the accounts of all bulks are closed.
func (b *bulks) standings() []bulk.Standing {
	b.t.Helper()
	book := b.books.Look(b.index, 1, 1.5)
	var standings []bulk.Standing
	require.Eventually(b.t, func() bool {
		standings, _ = book.Preview(nil)
		outstanding := 0
		for _, s := range standings {
			outstanding += s.Outstanding
		}
		return outstanding == 0
	}, patience, time.Millisecond, "an account is open")
	require.Empty(b.t, silentOf(book.Slow(time.Now().Add(time.Hour))), "a bulk is on its way by the pace")
	return standings
}

// forgetPace has the books forget how long bulks took: on a busy machine a shard is slow by chance, and is avoided.
func (b *bulks) forgetPace() {
	b.t.Helper()
	b.standings() // none is under way
	b.books.Of(b.index, 1, 1.5, time.Now()).Pace = bulk.NewPace(b.index.Shards)
}

func silentOf(slow []bulk.Slowness) (shards []int) {
	for shard, why := range slow {
		if why == bulk.SlowSilent {
			shards = append(shards, shard)
		}
	}
	return shards
}

// documents returns how many documents are in the books.
func (b *bulks) documents() (sum int64) {
	b.t.Helper()
	for _, s := range b.standings() {
		sum += s.Documents
	}
	return sum
}

const patience = time.Minute

// send sends a bulk whose length is only told if it is positive.
func (b *bulks) send(body io.Reader, length int64, headers ...string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.front.URL+"/idx/_bulk", io.NopCloser(body))
	require.NoError(b.t, err)
	r.ContentLength = length
	r.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{ExpectContinueTimeout: patience}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return resp, string(text)
}

func TestABulkGoesToOneShard(t *testing.T) {
	b := startBulks(t, 3, nil)
	began := time.Now()
	require.False(t, b.proxy.o.Selector.NeedsPolls("a", began))
	for range 20 {
		resp, body := b.do("POST", "/idx/_bulk", five, explainHeader, "1")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, itemsOf(5, 201), body)
		require.Contains(t, resp.Header.Get(decisionHeader), "reason=one_shard")
		seen := b.seen()
		require.Len(t, seen, 1)
		shard := b.shardOf(five, seen[0])
		require.Equal(t, b.nodes[shard].URL, b.nodes[seen[0].node[0]-'a'].URL, "the node of the primary copy coordinates")
		b.forgetPace()
	}
	require.True(t, b.proxy.o.Selector.NeedsPolls("a", began), "shards are chosen by what polls tell")
	var documents int64
	for _, s := range b.standings() {
		require.Positive(t, s.Documents, "all shards get some")
		documents += s.Documents
	}
	require.EqualValues(t, 100, documents)
	m := b.proxy.metrics.bulk
	require.Equal(t, 20, tallied(m.bulks, bulkOneShard))
	require.Equal(t, 100, tallied(m.operations, operationPlanned))
	require.Equal(t, 100, tallied(m.items, itemOK))
	require.Equal(t, 20, tallied(m.choices, string(bulk.ChoiceEven)))
}

// What may not be given a routing goes on byte for byte, for a reason that is counted.
func TestBulksThatPass(t *testing.T) {
	withIDs := strings.ReplaceAll(five, "{}}", `{"_id":"1"}}`)
	withIDs = strings.ReplaceAll(withIDs, `"_index":"idx"`, `"_index":"idx","_id":"2"`)
	for name, c := range map[string]struct {
		uri, body string
		reason    bulk.Reason
		change    func(*bulks)
		headers   []string
	}{
		"compressed":        {reason: bulk.ReasonCompressed, headers: []string{"Content-Encoding", "gzip"}},
		"not JSON":          {reason: bulk.ReasonCompressed, headers: []string{"Content-Type", "application/cbor"}},
		"routing":           {uri: "/idx/_bulk?routing=x", reason: bulk.ReasonURLParameter},
		"pipeline":          {uri: "/idx/_bulk?refresh=true&pipeline=p", reason: bulk.ReasonURLParameter},
		"require_alias":     {uri: "/idx/_bulk?require_alias=true", reason: bulk.ReasonURLParameter},
		"a type":            {uri: "/idx/_doc/_bulk"},
		"another index":     {uri: "/other/_bulk", body: "{\"index\":{}}\n{}\n", reason: bulk.ReasonNotSelected},
		"no index":          {uri: "/_bulk", body: "{\"index\":{}}\n{}\n", reason: bulk.ReasonNoIndex},
		"ids":               {body: withIDs, reason: bulk.ReasonExplicitID},
		"not lines":         {body: "{\"index\":{}\n", reason: bulk.ReasonMalformed},
		"a refused index":   {uri: "/idx-refused/_bulk", body: "{\"index\":{}}\n{}\n", reason: bulk.ReasonPipeline},
		"an unknown index":  {reason: bulk.ReasonUnknown, change: func(b *bulks) { b.known.Store(false) }},
		"bulks observed":    {reason: bulk.ReasonObserve, change: func(b *bulks) { require.NoError(t, b.proxy.SetBulkMode(ModeObserve)) }},
		"all is observed":   {reason: bulk.ReasonObserve, change: func(b *bulks) { require.NoError(t, b.proxy.SetMode(ModeObserve)) }},
		"bulks are off":     {change: func(b *bulks) { require.NoError(t, b.proxy.SetBulkMode(ModeOff)) }},
		"everything is off": {change: func(b *bulks) { require.NoError(t, b.proxy.SetMode(ModeOff)) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBulks(t, 3, nil)
			if c.change != nil {
				c.change(b)
			}
			uri, body := c.uri, c.body
			if uri == "" {
				uri = "/idx/_bulk"
			}
			if body == "" {
				body = five
			}
			resp, answered := b.do("POST", uri, body, append(c.headers, explainHeader, "1")...)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, itemsOf(5, 201), answered)
			require.NotContains(t, resp.Header.Get(decisionHeader), reasonOneShard)
			seen := b.seen()
			require.Len(t, seen, 1)
			require.Equal(t, body, seen[0].body)
			require.Equal(t, uri, seen[0].uri)
			require.Zero(t, b.documents())
			m := b.proxy.metrics.bulk
			require.Zero(t, tallied(m.operations, operationPlanned))
			if c.reason == "" {
				require.Zero(t, tallied(m.bulks, bulkPassed), "nobody looks")
				return
			}
			require.Equal(t, 1, tallied(m.bulks, bulkPassed))
			require.Positive(t, tallied(m.operations, string(c.reason)))
		})
	}
}

func TestModesOfBulks(t *testing.T) {
	p := start(t, 1, nil).proxy
	for _, c := range []struct{ own, all, want Mode }{
		{ModeRoute, ModeRoute, ModeRoute}, {ModeRoute, ModeObserve, ModeObserve}, {ModeRoute, ModeOff, ModeOff},
		{ModeObserve, ModeRoute, ModeObserve}, {ModeObserve, ModeObserve, ModeObserve}, {ModeObserve, ModeOff, ModeOff},
		{ModeOff, ModeRoute, ModeOff}, {ModeOff, ModeObserve, ModeOff}, {ModeOff, ModeOff, ModeOff},
	} {
		require.NoError(t, p.SetBulkMode(c.own))
		require.NoError(t, p.SetMode(c.all))
		require.Equal(t, c.want, p.BulkMode())
	}
	require.Error(t, p.SetBulkMode("on"))
}

// The first bulk is written as it came, while the index is looked up.
func TestTheFirstBulkPasses(t *testing.T) {
	b := startBulks(t, 3, nil)
	b.known.Store(false)
	b.do("POST", "/idx/_bulk", five)
	b.known.Store(true)
	b.do("POST", "/idx/_bulk", five)
	seen := b.seen()
	require.Equal(t, five, seen[0].body)
	b.shardOf(five, seen[1])
	require.EqualValues(t, 5, b.documents())
}

// A bulk for several indices has a shard of each; what passes goes with it.
func TestABulkForSeveralIndices(t *testing.T) {
	b := startBulks(t, 3, nil)
	body := "{\"index\":{\"_index\":\"idx\"}}\n{}\n{\"index\":{\"_index\":\"other\"}}\n{}\n{\"index\":{\"_index\":\"idx\"}}\n{}\n{\"delete\":{\"_index\":\"idx\",\"_id\":\"1\"}}\n"
	b.do("POST", "/_bulk", body)
	plain, values := written(b.seen()[0].body)
	require.Equal(t, body, plain)
	require.Len(t, values, 2)
	require.EqualValues(t, 2, b.documents())
	m := b.proxy.metrics.bulk
	require.Equal(t, 1, tallied(m.bulks, bulkMixed))
	require.Equal(t, 1, tallied(m.operations, string(bulk.ReasonNotSelected)))
	require.Equal(t, 1, tallied(m.operations, string(bulk.ReasonDelete)))
}

// gone makes a node one that does not answer its polls.
func (b *bulks) gone(node int) {
	b.selector.MarkUnreachable(b.proxy.view.Load().nodes[node], "refused", time.Now())
}

func TestAnotherNodeCoordinatesWhereThePrimarysIsGone(t *testing.T) {
	b := startBulks(t, 3, func(o *Options) { o.Bulk.Avoid = false })
	b.gone(1)
	there := 0
	for range 30 {
		b.do("POST", "/idx/_bulk", five)
		seen := b.seen()
		require.NotEqual(t, "b", seen[0].node)
		if b.shardOf(five, seen[0]) == 1 {
			there++
		}
	}
	require.Positive(t, there)
}

// sickness makes shard 1 sick in each way there is.
func TestSickShardsAreAvoided(t *testing.T) {
	for name, c := range map[string]struct {
		avoided []int // node i has copies of shards i-1 and i
		change  func(*bulks)
	}{
		"a node is gone":      {[]int{0, 1}, func(b *bulks) { b.gone(1) }},
		"its writes queue":    {[]int{1, 2}, func(b *bulks) { b.queues.Store(id(2)) }},
		"bulks take longer":   {[]int{1}, func(b *bulks) { b.paced(1, time.Second, time.Now()) }},
		"a bulk does not end": {[]int{1}, func(b *bulks) { b.books.Of(b.index, 1, 1.5, time.Now()).Begin(1, time.Now().Add(-time.Hour)) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBulks(t, 5, nil)
			c.change(b)
			e := b.proxy.ExplainBulk("idx")
			require.Equal(t, bulk.ChoiceAvoided, e.Choice)
			var avoided []int
			for _, s := range e.Shards {
				if len(s.Avoided) > 0 {
					avoided = append(avoided, s.Shard)
					require.Zero(t, s.Chance)
				}
			}
			require.Equal(t, c.avoided, avoided)
			for range 12 {
				b.do("POST", "/idx/_bulk", five)
				require.NotContains(t, c.avoided, b.shardOf(five, b.seen()[0]))
			}
			require.Equal(t, 12, tallied(b.proxy.metrics.bulk.choices, string(bulk.ChoiceAvoided)))
		})
	}
}

// paced tells the books of bulks that took 10 ms on all shards but one.
func (b *bulks) paced(slow int, took time.Duration, now time.Time) {
	book := b.books.Of(b.index, 1, 1.5, now)
	for range 4 {
		for shard := range b.index.Shards {
			d := 10 * time.Millisecond
			if shard == slow {
				d = took
			}
			book.Begin(shard, now)
			book.End(shard, 100, d, now)
		}
	}
}

func TestASlowShardThatWasTriedWithSuccessIsWell(t *testing.T) {
	b := startBulks(t, 3, nil)
	b.paced(1, time.Minute, time.Now().Add(-time.Hour))
	for range 40 {
		b.do("POST", "/idx/_bulk", five)
	}
	require.Positive(t, b.standings()[1].Documents)
	require.Less(t, b.books.Look(b.index, 1, 1.5).Times()[1], time.Minute/200, "a bulk went there and told")
}

// Evenness is bounded: at last the sick shard gets what it lacks.
func TestTheBoundComesFirst(t *testing.T) {
	b := startBulks(t, 3, nil)
	b.gone(1)
	for range 60 {
		b.do("POST", "/idx/_bulk", five)
	}
	require.Positive(t, tallied(b.proxy.metrics.bulk.choices, string(bulk.ChoiceBound)))
	for _, s := range b.standings() {
		require.Positive(t, s.Documents)
		require.LessOrEqual(t, s.Documents, int64(150))
	}
}

// TestItemsAreCountedHoweverTheyCome holds the count against a reading of the whole
// answer, whatever the parts that it comes in.
func TestItemsAreCountedHoweverTheyCome(t *testing.T) {
	for seed := range uint64(300) {
		g := newGenerated(seed)
		text := g.answer()
		want := itemCount{}
		for _, item := range g.read(t, text) {
			switch {
			case item/100 == 2:
				want.ok++
			case item == http.StatusTooManyRequests:
				want.rejected++
			default:
				want.other++
			}
		}
		for _, longest := range []int{1, 2, 7, 23, 24, 25, 49, 300, len(text)} {
			var got itemCount
			for rest := text; len(rest) > 0; {
				n := min(1+g.rng.IntN(longest), len(rest))
				got.scan(bytes.Clone(rest[:n]))
				rest = rest[n:]
			}
			got.end()
			require.Equal(t, []int{want.ok, want.rejected, want.other}, []int{got.ok, got.rejected, got.other}, "parts of %d bytes of %s", longest, text)
		}
	}
}

// Only the answer to a bulk that was taken has items.
func TestARefusedBulkHasNoItems(t *testing.T) {
	b := startBulks(t, 3, nil)
	b.answer = respond(http.StatusBadRequest, `{"error":{"type":"x"},"status":400}`)
	resp, _ := b.do("POST", "/idx/_bulk", five)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Zero(t, b.documents())
	m := b.proxy.metrics.bulk
	require.Zero(t, tallied(m.items, itemOK)+tallied(m.items, itemFailed)+tallied(m.items, itemRejected))
}

// What is rejected is no document of the shard.
func TestOnlyWhatIsStoredIsInTheBooks(t *testing.T) {
	b := startBulks(t, 3, nil)
	items := strings.Replace(itemsOf(5, 201), "201", "429", 2)
	items = strings.Replace(items, "201", "400", 1)
	b.answer = respond(http.StatusOK, items)
	b.do("POST", "/idx/_bulk", five)
	require.EqualValues(t, 2, b.documents())
	m := b.proxy.metrics.bulk
	require.Equal(t, []int{2, 2, 1}, []int{tallied(m.items, itemOK), tallied(m.items, itemRejected), tallied(m.items, itemFailed)})
}

// Nothing of a bulk is placed once its accounts are closed, although the leg may
// still read its body.
func TestABodyIsNotReadAfterTheEnd(t *testing.T) {
	b := startBulks(t, 3, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.front.URL+"/idx/_bulk", strings.NewReader(five))
	require.NoError(t, err)
	x := newExchange(b.proxy, nil, r)
	x.Path = "/idx/_bulk"
	r.Header.Set("Content-Type", "application/json")
	require.True(t, x.planBulk())
	x.bulk.finish(time.Now())
	_, err = x.bulk.Read(make([]byte, 100))
	require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
	require.Zero(t, b.documents())
	x.release()
}
