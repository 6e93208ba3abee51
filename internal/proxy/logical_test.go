package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
	"sidestep/internal/es"
)

// slots is a harness whose index "idx" has six shards in slots of two; "other" has none.
type slots struct {
	*bulks
	engine es.Routing
	// Where documents are, by client's routing: the numbers of their shards.
	stored map[string][]int
}

func startSlots(t *testing.T, change func(*Options)) *slots {
	t.Helper()
	s := &slots{stored: map[string][]int{}, engine: es.Routing{Shards: 6, RoutingShards: 768, PartitionSize: 1}}
	s.bulks = startBulks(t, 6, func(o *Options) {
		o.Bulk.Patterns = nil
		o.Bulk.Logical = []LogicalShards{{Pattern: "idx*", Size: 2, Writes: true}}
		o.Bulk.IndicesOf = func(target string) ([]string, bool) {
			switch target {
			case "idx", "other":
				return []string{target}, true
			case "none":
				return nil, true
			case "alias", "", "idx*":
				return []string{"idx", "other"}, true
			}
			return nil, false
		}
		if change != nil {
			change(o)
		}
	})
	s.answer = storedOrComplete
	s.index = bulk.Index{WriteIndex: "idx", Shards: 6, RoutingShards: 768, Values: bulk.Values(6, 768)}
	return s
}

var routingOf = regexp.MustCompile(`"routing":"([^"]*)"`)

// write writes a document with each routing in one bulk, and notes where they are.
func (s *slots) write(routings ...string) (shards []int) {
	s.t.Helper()
	var body strings.Builder
	for _, routing := range routings {
		fmt.Fprintf(&body, "{\"index\":{\"routing\":%q}}\n{}\n", routing)
	}
	resp, _ := s.do("POST", "/idx/_bulk", body.String())
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	seen := s.seen()
	require.Len(s.t, seen, 1)
	for i, found := range routingOf.FindAllStringSubmatch(seen[0].body, -1) {
		shard := s.engine.Shard("", found[1])
		s.stored[routings[i]] = append(s.stored[routings[i]], shard)
		shards = append(shards, shard)
	}
	return shards
}

// visits returns the shards that routing values lead to; all if there are none.
func (s *slots) visits(routing string) (shards []int) {
	if routing == "" {
		return []int{0, 1, 2, 3, 4, 5}
	}
	for value := range strings.SplitSeq(routing, ",") {
		shards = append(shards, s.engine.Shard("", value))
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

func routingIn(uri string) string {
	_, query, _ := strings.Cut(uri, "?")
	values, _ := url.ParseQuery(query)
	return values.Get("routing")
}

// requireFound requires that a read by routing that arrives so visits three shards, those
// of all documents with it.
func (s *slots) requireFound(routing, sent string) {
	s.t.Helper()
	visited := s.visits(sent)
	require.Len(s.t, visited, 3, sent)
	for _, shard := range s.stored[routing] {
		require.Contains(s.t, visited, shard, "routing %s arrived as %s", routing, sent)
	}
	require.True(s.t, strings.HasPrefix(sent, routing+","), "the client's own comes first")
}

// Documents of one bulk are in one slot, and whoever reads by routing finds those of all
// bulks, however it is read, and whatever the modes are.
func TestReadsByRoutingFindAllSlots(t *testing.T) {
	s := startSlots(t, nil)
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf("customer-%d", i))
	}
	used := map[int]bool{}
	for range 30 {
		shards := s.write(all...)
		slot := shards[0] / 2
		used[slot] = true
		for _, shard := range shards {
			require.Equal(t, slot, shard/2)
		}
	}
	require.Len(t, used, 3, "the slots take turns")
	require.Eventually(t, func() bool { return tallied(s.proxy.metrics.bulk.bulks, bulkOneSlot) == 30 }, patience, time.Millisecond)
	for _, mode := range Modes() {
		require.NoError(t, s.proxy.SetMode(mode))
		for _, routing := range all {
			for _, request := range []string{
				"GET /idx/_search", "POST /idx/_count", "POST /idx/_delete_by_query", "POST /idx/_update_by_query", "POST /idx/_pit",
				"POST /idx/_async_search", "GET /idx/_search/template", "GET /idx/_search_shards", "GET /idx*/_search", "GET /_search", "GET /alias/_search",
			} {
				method, path, _ := strings.Cut(request, " ")
				s.do(method, path+"?size=1&routing="+routing, "")
				sent := s.seen()[0]
				require.True(t, strings.HasPrefix(sent.uri, path+"?size=1&routing="))
				s.requireFound(routing, routingIn(sent.uri))
			}
			for _, path := range []string{"/idx/_msearch", "/idx/_doc/_msearch", "/idx/_doc/_msearch/template", "/idx/_fleet/_fleet_msearch"} {
				s.do("POST", path+"?routing="+routing, "{}\n{}\n\n{}\n{\"index\":\"alias\",\"routing\":\""+routing+"\"}\n{}\n{\"index\":\"other\"}\n{}\n", "Content-Type", "application/x-ndjson")
				found := routingOf.FindAllStringSubmatch(s.seen()[0].body, -1)
				require.Len(t, found, 3, path)
				for _, header := range found {
					s.requireFound(routing, header[1])
				}
			}
		}
	}
	require.Positive(t, tallied(s.proxy.metrics.routed, string(routedWidened)))
}

func TestWhatIsNotWidened(t *testing.T) {
	s := startSlots(t, nil)
	for _, request := range []string{
		"GET /other/_search?routing=x", "GET /far:idx/_search?routing=x", "GET /idx/_search", "GET /idx/_search?routing=",
		"GET /idx/_doc/1?routing=x", "POST /idx/_update/1?routing=x", "DELETE /idx/_doc/1?routing=x", "POST /idx/_doc?routing=x", "PUT /idx/_doc/_count?routing=x",
	} {
		method, uri, _ := strings.Cut(request, " ")
		s.do(method, uri, "")
		sent := s.seen()[0].uri
		require.True(t, sent == uri || strings.HasPrefix(sent, uri+"&preference=") || strings.HasPrefix(sent, uri+"?preference="), sent)
	}
	require.Equal(t, 4, tallied(s.proxy.metrics.routed, string(routedByID)))
	require.Zero(t, tallied(s.proxy.metrics.routed, string(routedWidened)))
}

// Where it is not known which shards a routing stands for, all are visited.
func TestRoutingsThatAreDropped(t *testing.T) {
	for name, c := range map[string]struct {
		uri    string
		result routedResult
		change func(*slots)
	}{
		"an unknown target": {"/unknown/_search?routing=x&size=1", routedUnknown, nil},
		"an unknown index":  {"/idx/_search?routing=x&size=1", routedUnknown, func(s *slots) { s.known.Store(false) }},
		"given twice":       {"/idx/_search?routing=x&routing=y", routedDoubtful, nil},
		"hidden indices":    {"/idx*/_search?routing=x&expand_wildcards=all", routedDoubtful, nil},
		"what is not there": {"/none/_search?routing=x", routedDoubtful, nil},
		"a day of its own":  {"/%3Cidx-%7Bnow%7D%3E/_search?routing=x", routedDoubtful, nil},
		"a long routing":    {"/idx/_search?routing=" + strings.Repeat("a", 4097), routedTooLong, nil},
		"an alias by now":   {"/idx/_search?routing=x", routedUnknown, func(s *slots) { s.index = bulk.Index{Refused: bulk.ReasonAlias, RefusedRouted: bulk.ReasonAlias} }},
		"resized":           {"/idx/_search?routing=x", routedResized, func(s *slots) { s.index.Resized = true }},
		"a long line":       {"/idx/_search?routing=x&q=" + strings.Repeat("a", 4054), routedTooLong, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSlots(t, nil)
			s.proxy.unknownUntil.Store(new(time.Now().Add(time.Hour)))
			if c.change != nil {
				c.change(s)
			}
			resp, body := s.do("GET", c.uri, "")
			require.Equal(t, http.StatusOK, resp.StatusCode, body)
			sent := s.seen()[0].uri
			require.NotContains(t, sent, "routing=")
			require.Equal(t, 1, tallied(s.proxy.metrics.routed, string(c.result)))
			if c.result != routedTooLong && c.result != routedDoubtful {
				s.do("POST", "/_msearch", "{\"index\":\""+strings.Split(c.uri, "/")[1]+"\",\"routing\":\"x\"}\n{}\n", "Content-Type", "application/x-ndjson")
				require.Contains(t, s.seen()[0].body, `"routing":null`)
			}
		})
	}
}

// A read waits for what is being looked up.
func TestAReadWaitsForItsIndices(t *testing.T) {
	s := startSlots(t, nil)
	s.known.Store(false)
	time.AfterFunc(20*time.Millisecond, func() { s.known.Store(true) })
	s.do("GET", "/idx/_search?routing=x", "")
	s.requireFound("x", routingIn(s.seen()[0].uri))
}

// A multi-search that streams is widened, too.
func TestLongMultiSearches(t *testing.T) {
	s := startSlots(t, func(o *Options) { o.MaxHeldBody = 4 << 10 })
	s.write("x")
	one := "{\"index\":\"idx\",\"routing\":\"x\"}\n{\"query\":{\"match\":{\"a\":\"" + strings.Repeat("b", 1000) + "\"}}}\n"
	for _, headers := range [][]string{{"Content-Type", "application/x-ndjson"}, {"Content-Type", "application/x-ndjson", "Expect", "100-continue"}} {
		resp, _ := s.do("POST", "/_msearch", strings.Repeat(one, 50), headers...)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		found := routingOf.FindAllStringSubmatch(s.seen()[0].body, -1)
		require.Len(t, found, 50)
		for _, header := range found {
			s.requireFound("x", header[1])
		}
	}
}

// Switched off, operations stay as the client wrote them; reads find what is there.
func TestSlotsSwitchedOff(t *testing.T) {
	for name, off := range map[string]func(*slots){
		"bulks are off":     func(s *slots) { require.NoError(t, s.proxy.SetBulkMode(ModeOff)) },
		"bulks are counted": func(s *slots) { require.NoError(t, s.proxy.SetBulkMode(ModeObserve)) },
		"writes: false":     func(s *slots) { s.proxy.o.Bulk.Logical = []LogicalShards{{Pattern: "idx*", Size: 2}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := startSlots(t, nil)
			for range 5 {
				s.write("x", "y")
			}
			off(s)
			require.Equal(t, []int{s.engine.Shard("", "x"), s.engine.Shard("", "y")}, s.write("x", "y"))
			s.do("GET", "/idx/_search?routing=x", "")
			s.requireFound("x", routingIn(s.seen()[0].uri))
		})
	}
}

// Operations of indices that allow no slots stay, for a reason that is counted.
func TestBulksWithoutSlots(t *testing.T) {
	for name, c := range map[string]struct {
		reason bulk.Reason
		change func(*slots)
	}{
		"undivided": {bulk.ReasonUndivided, func(s *slots) { s.proxy.o.Bulk.Logical[0].Size = 4 }},
		"join":      {bulk.ReasonJoinField, func(s *slots) { s.index.RefusedRouted = bulk.ReasonJoinField }},
		"alias":     {bulk.ReasonRoutedAlias, func(s *slots) { s.index.RefusedRouted = bulk.ReasonRoutedAlias }},
		"unknown":   {bulk.ReasonUnknown, func(s *slots) { s.known.Store(false) }},
		"remade":    {bulk.ReasonUnknown, func(s *slots) { s.index = bulkIndexOf("idx", 12) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSlots(t, nil)
			c.change(s)
			require.Equal(t, []int{s.engine.Shard("", "x")}, s.write("x"))
			require.Eventually(t, func() bool { return tallied(s.proxy.metrics.bulk.operations, string(c.reason)) == 1 }, patience, time.Millisecond)
			require.Empty(t, s.books.Sizes())
		})
	}
}

// A slot with a shard in trouble is avoided.
func TestSickSlotsAreAvoided(t *testing.T) {
	s := startSlots(t, nil)
	s.gone(2) // node 2 has copies of shards 1 and 2
	for range 4 {
		for _, shard := range s.write("x", "y", "z") {
			require.Equal(t, 2, shard/2)
		}
	}
	require.Equal(t, map[string]int{"idx": 2}, s.books.Sizes())
}

// A bulk that is repeated goes to the slot that it had, with the same ids.
func TestASlotIsKeptWhenABulkIsRepeated(t *testing.T) {
	s := startSlots(t, func(o *Options) { o.Bulk.Idempotent = true })
	var broken atomic.Bool
	s.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		if broken.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		respond(http.StatusOK, itemsOf(1, 201))(node, w, r)
	}
	resp, _ := s.do("POST", "/idx/_bulk", "{\"index\":{\"routing\":\"x\"}}\n{}\n")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	seen := s.seen()
	require.Len(t, seen, 2)
	require.Equal(t, strings.Replace(seen[0].body, "index", "create", 1), seen[1].body)
	require.Contains(t, seen[1].body, `"_id":"`)
}

func TestExplainTellsOfSlots(t *testing.T) {
	s := startSlots(t, nil)
	s.write("x", "y")
	e := s.proxy.ExplainBulk("idx")
	require.NotNil(t, e.Routed)
	require.True(t, e.Routed.Planned)
	require.Len(t, e.Routed.Slots, 3)
	require.Equal(t, "a", e.Routed.Slots[0].Through)
	require.Contains(t, e.Summary, "one of 3 slots of 2 shards")
	require.Nil(t, s.proxy.ExplainBulk("other").Routed)
	search := s.explain(Question{Target: "idx", Routing: "x"})
	require.Len(t, s.visits(search.SentRouting), 3)
	require.Contains(t, search.Summary, "logical shards")
	require.Empty(t, s.explain(Question{Target: "other", Routing: "x"}).SentRouting)
}

// A target that is too long to be looked up is not waited for.
func TestATargetThatCannotBeLookedUpIsNotWaitedFor(t *testing.T) {
	s := startSlots(t, nil)
	long := strings.Repeat("a,", 3000) + "idx"
	s.do("POST", "/_msearch", fmt.Sprintf("{\"index\":%q,\"routing\":\"x\"}\n{}\n", long), "Content-Type", ndjson)
	require.Contains(t, s.seen()[0].body, `"routing":null`)
	require.Nil(t, s.proxy.unknownUntil.Load(), "whoever has waited in vain says so: other reads are waited for as before")
}

// Of slots of one shard there is one account, whether operations have a routing or not.
func TestSlotsOfOneShardAreShards(t *testing.T) {
	s := startSlots(t, func(o *Options) {
		o.Bulk.Patterns, o.Bulk.Logical[0].Size = []string{"idx"}, 1
	})
	s.do("POST", "/idx/_bulk", five)
	s.do("POST", "/idx/_bulk", "{\"index\":{\"routing\":\"x\"}}\n{}\n")
	require.EqualValues(t, 6, s.documents())
	require.Len(t, s.proxy.BulkIndices(), 1)
	require.EqualValues(t, 2, s.proxy.BulkIndices()[0].Bulks)
	e := s.proxy.ExplainBulk("idx")
	require.Len(t, e.Routed.Slots, 6)
	for i, shard := range e.Shards {
		require.Equal(t, shard.Documents, e.Routed.Slots[i].Documents)
	}
	require.Equal(t, map[string]int{"idx": 1}, s.books.Sizes())
}

// Why operations with a routing stay is told as it is counted.
func TestExplainTellsWhyRoutingsStay(t *testing.T) {
	own, undivided := string(bulk.ReasonOwnRouting), string(bulk.ReasonUndivided)
	for mode, want := range map[Mode][4]string{
		ModeRoute:   {reasonOneSlot, own, undivided, own},
		ModeObserve: {string(bulk.ReasonObserve), own, undivided, own},
		ModeOff:     {reasonOff, reasonOff, reasonOff, reasonOff},
	} {
		for i, entry := range []LogicalShards{{Size: 2, Writes: true}, {Size: 2}, {Size: 4, Writes: true}, {Size: 4}} {
			s := startSlots(t, func(o *Options) {
				entry.Pattern = "idx"
				o.Bulk.Mode, o.Bulk.Logical = mode, []LogicalShards{entry}
			})
			e := s.proxy.ExplainBulk("idx")
			require.Equal(t, want[i], e.Routed.Reason, "%s %v", mode, entry)
			require.Equal(t, want[i] == reasonOneSlot, e.Routed.Planned)
			require.Equal(t, i == 0, len(e.Routed.Slots) > 0)
			s.write("x")
			counted := want[i]
			switch counted {
			case reasonOff:
				continue // it is not read
			case reasonOneSlot:
				counted = operationPlanned
			}
			require.Eventually(t, func() bool { return tallied(s.proxy.metrics.bulk.operations, counted) == 1 }, patience, time.Millisecond)
		}
	}
}
