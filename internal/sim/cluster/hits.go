package simcluster

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// searchAnswer is the body of a search response.
type searchAnswer struct {
	ScrollID string      `json:"_scroll_id,omitempty"`
	PIT      string      `json:"pit_id,omitempty"`
	Took     int64       `json:"took"`
	TimedOut bool        `json:"timed_out"`
	Shards   shardCounts `json:"_shards"`
	Hits     hitList     `json:"hits"`
	Status   int         `json:"status,omitempty"` // in a multi search
}

type shardCounts struct {
	Total      int   `json:"total"`
	Successful int   `json:"successful"`
	Skipped    int   `json:"skipped"`
	Failed     int   `json:"failed"`
	Failures   []any `json:"failures,omitempty"`
}

type hitList struct {
	Total    hitTotal `json:"total"`
	MaxScore *float64 `json:"max_score"`
	Hits     []hit    `json:"hits"`
}

type hitTotal struct {
	Value    int    `json:"value"`
	Relation string `json:"relation"`
}

type hit struct {
	// Shard and Node, the id of the node that served, are there if the search asks
	// for explanations.
	Shard  string         `json:"_shard,omitempty"`
	Node   string         `json:"_node,omitempty"`
	Index  string         `json:"_index"`
	ID     string         `json:"_id"`
	Score  float64        `json:"_score"`
	Source map[string]any `json:"_source"`
}

// shardsOf counts the shards of res. OpenSearch does not count those as failed that had no copy to ask.
func (n *Node) shardsOf(res *searchResult) shardCounts {
	c := shardCounts{Total: len(res.plan), Successful: len(res.plan) - len(res.failures)}
	for _, f := range res.failures {
		if n.cluster.opts.Engine == OpenSearch && f.err.Type == noShardAvailable {
			continue
		}
		c.Failed++
		c.Failures = append(c.Failures, f.object())
	}
	return c
}

// docsIn is how many documents a shard holds: document i is in shard i modulo the
// number of shards.
func docsIn(spec IndexSpec, shard int) int {
	return (spec.Docs - shard + spec.Shards - 1) / spec.Shards
}

// answered visits the shards of res.plan that answered and whose index still
// exists.
func (n *Node) answered(res *searchResult, visit func(i int, spec IndexSpec)) {
	s := n.cluster.state.Load()
	for i, a := range res.plan {
		if ix := s.index(a.ref.Index); ix != nil && res.served[i] != "" {
			visit(i, ix.Spec)
		}
	}
}

func (n *Node) total(res *searchResult) int {
	total := 0
	n.answered(res, func(i int, spec IndexSpec) { total += docsIn(spec, res.plan[i].ref.Number) })
	return total
}

// hits builds the response: the documents of the shards that answered, by number
// and index, whichever copies they were read from.
func (n *Node) hits(res *searchResult, s searchRequest) *searchAnswer {
	out := &searchAnswer{Took: res.took.Milliseconds(), Shards: n.shardsOf(res)}
	type doc struct {
		number int
		shard  int // its position in res.plan
	}
	index := func(d doc) string { return res.plan[d.shard].ref.Index }
	want := max(s.from+s.size, 0)
	var docs []doc
	n.answered(res, func(i int, spec IndexSpec) {
		for number := res.plan[i].ref.Number; number < spec.Docs && number/spec.Shards < want; number += spec.Shards {
			docs = append(docs, doc{number, i})
		}
	})
	slices.SortFunc(docs, func(a, b doc) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(index(a), index(b)))
	})
	docs = docs[min(max(s.from, 0), len(docs)):min(want, len(docs))]

	out.Hits = hitList{Total: hitTotal{n.total(res), "eq"}, Hits: make([]hit, 0, len(docs))}
	for _, d := range docs {
		h := hit{Index: index(d), ID: strconv.Itoa(d.number), Score: 1, Source: map[string]any{"n": d.number}}
		if s.explain {
			h.Shard, h.Node = res.plan[d.shard].ref.String(), res.served[d.shard]
		}
		out.Hits.Hits = append(out.Hits.Hits, h)
	}
	if len(docs) > 0 {
		score := 1.0
		out.Hits.MaxScore = &score
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
