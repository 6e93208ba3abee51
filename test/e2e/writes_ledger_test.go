package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// operation is one of a bulk, with what must come of it and what did.
type operation struct {
	verb, index, id, routing string
	// n is the number of its document, unlike that of any other. v is a value of it, or
	// the one it is updated to; now is the value after updates.
	n, v, now int
	// wrong has a document that the engine refuses.
	wrong bool
	// want is the status of its item. With mayFail the engine may refuse it.
	want    int
	mayFail bool
	// gone: the document was replaced or deleted later.
	gone bool
	bulk *sentBulk
	got  item
}

// item is what an answer says of an operation; zero if there was no answer.
type item struct {
	verb, id, index string
	status          int
}

// lines are the operation's lines in a bulk.
func (o *operation) lines() string {
	metadata := object{}
	for key, value := range map[string]string{"_index": o.index, "_id": o.id, "routing": o.routing} {
		if value != "" {
			metadata[key] = value
		}
	}
	text := encode(object{o.verb: metadata}) + "\n"
	switch {
	case o.wrong:
		return text + `{"n":"not a number"}` + "\n"
	case o.verb == "update":
		return text + encode(object{"doc": object{"v": o.v}}) + "\n"
	case o.verb == "delete":
		return text
	default:
		// Of sizes that differ.
		return text + encode(object{"n": o.n, "v": o.v, "text": strings.Repeat("x", o.n%300), "@timestamp": 1_700_000_000_000 + o.n}) + "\n"
	}
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of maps of strings and numbers
	}
	return string(text)
}

// sentBulk is a bulk and the answer to it.
type sentBulk struct {
	index      string // of the request line
	operations []*operation
	ended      chan<- struct{} // told when it has ended; may be nil

	status int // 0 if there was no answer
	body   []byte
	reason string // that sidestep gives
	items  []item
}

// send sends the bulk and takes in the answer.
func (b *sentBulk) send(ctx context.Context, client *http.Client, base string) error {
	if b.ended != nil {
		defer func() { b.ended <- struct{}{} }()
	}
	var body strings.Builder
	for _, o := range b.operations {
		o.bulk = b
		body.WriteString(o.lines())
	}
	path := "/_bulk"
	if b.index != "" {
		path = "/" + b.index + path
	}
	a, err := sendBy(ctx, client, base, search{
		path: path, query: "timeout=30s", body: body.String(),
		headers: map[string]string{"Content-Type": "application/x-ndjson"},
	})
	if err != nil {
		return err
	}
	b.status, b.body, b.reason = a.status, a.body, a.decision.Reason
	if b.status != http.StatusOK {
		return nil
	}
	var answer struct {
		Items []map[string]struct {
			ID     string `json:"_id"`
			Index  string `json:"_index"`
			Status int    `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal(a.body, &answer); err != nil {
		return fmt.Errorf("answer of _bulk: %w", err)
	}
	for _, kinds := range answer.Items {
		for verb, i := range kinds {
			b.items = append(b.items, item{verb, i.ID, i.Index, i.Status})
		}
	}
	for i, o := range b.operations[:min(len(b.operations), len(b.items))] {
		o.got = b.items[i]
	}
	return nil
}

// requireKept requires that the answer has an item for each operation, in their order,
// with what must come of it.
func (b *sentBulk) requireKept(t *testing.T) {
	t.Helper()
	if b.status != http.StatusOK {
		for _, o := range b.operations {
			require.True(t, o.mayFail, "status %d: %.500s", b.status, b.body)
		}
		return
	}
	require.Len(t, b.items, len(b.operations), "%.500s", b.body)
	for i, o := range b.operations {
		index := o.index
		if index == "" {
			index = b.index
		}
		require.Equal(t, o.verb, o.got.verb, "item %d", i)
		if !strings.HasPrefix(o.got.index, ".ds-"+index) {
			require.Equal(t, index, o.got.index, "item %d", i)
		}
		if o.id != "" {
			require.Equal(t, o.id, o.got.id, "item %d", i)
		}
		if !o.mayFail {
			require.Equal(t, o.want, o.got.status, "item %d: %s\n%.500s", i, o.lines(), b.body)
		}
		if o.got.status < http.StatusMultipleChoices {
			require.NotEmpty(t, o.got.id, "item %d", i)
		}
	}
}

// ledger has all operations that were sent.
type ledger struct {
	mu         sync.Mutex
	operations []*operation
}

// add returns an operation that adds a document.
func (l *ledger) add(index string) *operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.operations) + 1
	verb := "index"
	if n%3 == 0 {
		verb = "create"
	}
	o := &operation{verb: verb, index: index, n: n, v: n * 7 % 1000, now: n * 7 % 1000, want: http.StatusCreated}
	l.operations = append(l.operations, o)
	return o
}

// newBulk returns a bulk.
func newBulk(index string, operations ...*operation) *sentBulk {
	return &sentBulk{index: index, operations: operations}
}

// stored is a document that the engine has.
type stored struct {
	shard              int
	id, index, routing string
	n, v               int
	operation          *operation
}

// requireThere requires that the index has each document that was acknowledged, once and
// as it was written, and none that was refused. It returns the documents.
func (l *ledger) requireThere(t *testing.T, f *harness.Front, index string) []stored {
	t.Helper()
	change(t, http.MethodPost, "/"+index+"/_refresh", nil)
	found, sum := contents(t, index)
	times := make(map[int]int)
	for i := range found {
		d := &found[i]
		require.Positive(t, d.n)
		require.LessOrEqual(t, d.n, len(l.operations))
		times[d.n]++
		require.Equal(t, 1, times[d.n], "a document is there twice: %+v", d)
		d.operation = l.operations[d.n-1]
		require.Equal(t, d.operation.now, d.v, "%+v", d.operation)
		sum -= d.v
		if d.operation.got.status != 0 {
			require.Equal(t, item{d.operation.verb, d.id, d.index, d.operation.got.status}, d.operation.got)
		}
	}
	require.Zero(t, sum, "sum of the documents, less that of those found")
	var ids []string
	acknowledged, unknown := 0, 0
	for _, o := range l.operations {
		target := o.index
		if target == "" && o.bulk != nil {
			target = o.bulk.index
		}
		status := o.got.status
		if o.bulk != nil && o.bulk.status != http.StatusOK {
			status = o.bulk.status
		}
		switch {
		case target != index:
		case status >= 200 && status < 300 && !o.gone:
			acknowledged++
			ids = append(ids, o.got.id)
			require.Equal(t, 1, times[o.n], "acknowledged, and not there: %+v", o)
		case o.mayFail && status == http.StatusConflict:
			// Ids are used once: the engine repeated what a node that died had stored.
			unknown++
		case o.gone, status >= 400 && status < 500:
			require.Zero(t, times[o.n], "refused, and there: %+v", o)
		default:
			unknown++
		}
	}
	requireFound(t, f, index, ids)
	t.Logf("%s: %d documents, %d acknowledged, of %d it is not known", index, len(found), acknowledged, unknown)
	return found
}

// contents reads all documents of an index, and the sum of their values by the engine.
func contents(t *testing.T, index string) (found []stored, sum int) {
	t.Helper()
	counts := make(map[int]int)
	for shard := range wholeShards {
		for last, more := 0, true; more; {
			page, total := shardPage(t, index, shard, last)
			for _, d := range page {
				found = append(found, d)
				counts[shard]++
				last = d.n
			}
			if more = len(page) == pageSize; !more {
				sum += total
			}
		}
	}
	require.NotEmpty(t, found)
	require.Equal(t, primaries(t, index), counts, "documents by shard")
	return found, sum
}

const pageSize = 10_000

// shardPage reads a page of the documents of a shard, ordered by number, and the sum of
// the values of all.
func shardPage(t *testing.T, index string, shard, after int) (page []stored, sum int) {
	t.Helper()
	var answer struct {
		Hits struct {
			Hits []struct {
				ID      string             `json:"_id"`
				Index   string             `json:"_index"`
				Routing string             `json:"_routing"`
				Source  struct{ N, V int } `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
		Aggregations struct {
			Sum struct{ Value float64 } `json:"sum"`
		} `json:"aggregations"`
	}
	a := directly(t, search{target: index, query: "preference=_shards:" + strconv.Itoa(shard), body: encode(object{
		"size": pageSize, "sort": []string{"n"}, "search_after": []int{after}, "_source": []string{"n", "v"},
		"aggs": object{"sum": object{"sum": object{"field": "v"}}},
	})})
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	require.NoError(t, json.Unmarshal(a.body, &answer))
	for _, h := range answer.Hits.Hits {
		page = append(page, stored{shard: shard, id: h.ID, index: h.Index, routing: h.Routing, n: h.Source.N, v: h.Source.V})
	}
	return page, int(answer.Aggregations.Sum.Value)
}

// requireFound requires that a search through sidestep finds all these ids.
func requireFound(t *testing.T, f *harness.Front, index string, ids []string) {
	t.Helper()
	const page = 1000
	for from := 0; from < len(ids); from += page {
		some := ids[from:min(from+page, len(ids))]
		a := sendTo(t, f.URL, search{target: index, body: encode(object{"query": object{"ids": object{"values": some}}, "track_total_hits": true, "size": 0})})
		require.Equal(t, len(some), a.results(t).Hits.Total.Value)
	}
}

// writer makes operations of all kinds. Those on documents that it has written before are
// of ids of its own, so that what comes of them is known.
type writer struct {
	l      *ledger
	prefix string
	random *rand.Rand
	live   []*operation // that have an id
	ids    int
}

func (w *writer) next() *operation {
	o := w.l.add("")
	w.random.Shuffle(len(w.live), func(i, j int) { w.live[i], w.live[j] = w.live[j], w.live[i] })
	lot := w.random.IntN(20)
	switch {
	case lot < 8:
		return o
	case lot == 8:
		o.wrong, o.want = true, http.StatusBadRequest
		return o
	case lot < 11: // own routing, no id
		o.routing = "r" + strconv.Itoa(w.random.IntN(5))
		return o
	case lot < 15 || len(w.live) == 0:
		w.ids++
		o.id = w.prefix + strconv.Itoa(w.ids)
		if lot%2 == 0 {
			o.routing = "r" + strconv.Itoa(w.random.IntN(5))
		}
		w.live = append(w.live, o)
		return o
	}
	w.again(o, lot)
	return o
}

// again makes an operation one on a document that is there, or on one that is not.
func (w *writer) again(o *operation, lot int) {
	last := len(w.live) - 1
	target := w.live[last]
	o.id, o.routing = target.id, target.routing
	switch lot {
	case 15:
		o.verb, o.want = "create", http.StatusConflict
	case 16:
		o.verb, o.want = "index", http.StatusOK
		target.gone, w.live[last] = true, o
	case 17:
		o.verb, o.want, o.gone = "update", http.StatusOK, true
		o.v = target.now + 1
		target.now = o.v
	case 18:
		o.verb, o.want, o.gone = "delete", http.StatusOK, true
		target.gone, w.live = true, w.live[:last]
	default:
		o.verb, o.want, o.gone = []string{"update", "delete"}[w.random.IntN(2)], http.StatusNotFound, true
		o.id = w.prefix + "missing"
	}
}
