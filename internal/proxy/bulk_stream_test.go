package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
)

// A bulk that is longer than the nodes take is refused by its length, before it has come.
func TestABulkThatIsTooLongIsRefusedByItsLength(t *testing.T) {
	b, body := startBulks(t, 3, func(o *Options) { o.MaxHeldBody = 64 }), strings.Repeat(five, 2*bulkPrefix/len(five))
	s := b.snapshot()
	for _, n := range s.Nodes {
		n.MaxBody = int64(len(body)) - 1
	}
	b.proxy.UseSnapshot(s)
	var length atomic.Int64
	b.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		length.Store(r.ContentLength)
		respond(http.StatusRequestEntityTooLarge, "")(node, w, r)
	}
	resp, _ := b.send(strings.NewReader(body), int64(len(body)))
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	require.EqualValues(t, len(body), length.Load())
	require.Equal(t, body, b.seen()[0].body)
	require.Equal(t, 1, tallied(b.proxy.metrics.bulk.operations, string(bulk.ReasonTooLong)))
	require.Equal(t, 1, tallied(b.proxy.metrics.bulk.bulks, bulkPassed))
}

// However a body comes, and if it may be held or not.
func TestBulksThatStream(t *testing.T) {
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "{\"index\":{}}\n{\"number\":%d}\n", i)
	}
	for name, c := range map[string]struct {
		body                string
		chunked, idempotent bool
		headers             []string
		most, room          int64 // of one body that is held, and of all; 0: 32 KiB, and more than enough
	}{
		"held, chunked":                     {body: five, chunked: true},
		"long":                              {body: long.String()},
		"long, chunked":                     {body: long.String(), chunked: true},
		"waits to be asked":                 {body: five, headers: []string{"Expect", "100-continue"}},
		"long, waits":                       {body: long.String(), headers: []string{"Expect", "100-continue"}},
		"long, chunked, waits":              {body: long.String(), chunked: true, headers: []string{"Expect", "100-continue"}},
		"long, chunked, not to be repeated": {body: long.String(), chunked: true, idempotent: true},
		"hardly any is held":                {body: long.String(), chunked: true, idempotent: true, most: 100},
		"there is no memory":                {body: long.String()[:20<<10], chunked: true, idempotent: true, room: 600},
		"there is some memory":              {body: long.String()[:20<<10], idempotent: true, room: 8 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			c.body = c.body[:strings.LastIndexByte(c.body, '\n')+1]
			if strings.HasSuffix(c.body, "{\"index\":{}}\n") {
				c.body += "{}\n"
			}
			b := startBulks(t, 3, func(o *Options) {
				o.MaxHeldBody, o.MaxHeldBodies, o.Bulk.Idempotent = cmp.Or(c.most, 32<<10), cmp.Or(c.room, o.MaxHeldBodies), c.idempotent
			})
			length := int64(len(c.body))
			if c.chunked {
				length = -1
			}
			var held atomic.Int64
			b.answer = func(node string, w http.ResponseWriter, r *http.Request) {
				held.Store(b.proxy.o.Held.Load())
				stored(node, w, r)
			}
			resp, _ := b.send(strings.NewReader(c.body), length, c.headers...)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			if name == "long, chunked, not to be repeated" {
				require.GreaterOrEqual(t, held.Load(), int64(32<<10), "what was read to hold it is in memory still")
			}
			seen := b.seen()
			require.Len(t, seen, 1)
			shard := b.shardOf(c.body, seen[0])
			if name != "long, waits" { // of that nothing is read before it is sent
				require.Equal(t, string(rune('a'+shard)), seen[0].node)
			}
			require.EqualValues(t, strings.Count(c.body, "\n")/2, b.standings()[shard].Documents)
			require.Equal(t, 1, tallied(b.proxy.metrics.bulk.bulks, bulkOneShard))
			require.Equal(t, 5, tallied(b.proxy.metrics.bulk.items, itemOK))
			require.Eventually(t, func() bool { return b.proxy.o.Held.Load() == 0 }, patience, time.Millisecond)
		})
	}
}
