package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
)

// Segments says of what an index for [Node.CreateSegments] is made.
type Segments struct {
	Name   string
	Shards int
	// Each shard gets Segments segments; together they have Segments × Docs documents
	// of about 1 KB.
	Segments, Docs int
	Seed           uint64
}

// CreateSegments creates an index all of which stands on this node alone, in many
// segments that the engine leaves alone until it is told to merge them. Merging is
// costly: the documents are sorted and well compressed, so that nothing can be
// copied as it is. No client searches it.
func (n *Node) CreateSegments(ctx context.Context, s Segments) error {
	text := map[string]any{"type": "text"}
	keyword := map[string]any{"type": "keyword"}
	definition := map[string]any{
		"settings": map[string]any{"index": map[string]any{
			"number_of_shards": s.Shards, "number_of_replicas": 0, "refresh_interval": "-1",
			"routing.allocation.require._name": n.Name,
			"codec":                            "best_compression",
			"sort.field":                       "key", "sort.order": "asc",
			// No merge but the one that is asked for.
			"merge.policy.segments_per_tier": 1000, "merge.policy.max_merge_at_once": 100,
		}},
		"mappings": map[string]any{"properties": map[string]any{
			"key": map[string]any{"type": "long"}, "body": text, "first": keyword, "second": keyword,
		}},
	}
	path := "/" + url.PathEscape(s.Name)
	if err := n.Do(ctx, http.MethodPut, path+"?wait_for_active_shards=all", definition, nil); err != nil {
		return fmt.Errorf("create index %s: %w", s.Name, err)
	}
	random := rand.New(rand.NewPCG(s.Seed, 2))
	for range s.Segments {
		if err := n.Do(ctx, http.MethodPost, path+"/_bulk?refresh=true&filter_path=errors", s.batch(random), nil); err != nil {
			return fmt.Errorf("fill index %s: %w", s.Name, err)
		}
	}
	if err := n.Do(ctx, http.MethodPost, path+"/_flush", nil, nil); err != nil {
		return fmt.Errorf("fill index %s: %w", s.Name, err)
	}
	return nil
}

// batch returns the documents of one segment of each shard.
func (s Segments) batch(random *rand.Rand) []byte {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for range s.Docs {
		var body bytes.Buffer
		for range 100 {
			fmt.Fprintf(&body, "w%x ", random.IntN(50_000))
		}
		lines.WriteString("{\"index\":{}}\n")
		// Neither a map nor numbers can fail.
		_ = encoder.Encode(map[string]any{
			"key": random.Int64(), "body": body.String(),
			"first": fmt.Sprintf("%016x", random.Uint64()), "second": fmt.Sprintf("%016x", random.Uint64()),
		})
	}
	return lines.Bytes()
}

// ForceMerge has the index merged to one segment a shard. The function it returns
// ends the merge, by deleting the index, and waits for that.
func (n *Node) ForceMerge(ctx context.Context, index string) (end func(context.Context) error) {
	path := "/" + url.PathEscape(index)
	merging, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		// It is cut off, or fails because the index is deleted.
		_ = n.Do(merging, http.MethodPost, path+"/_forcemerge?max_num_segments=1", nil, nil)
	})
	return func(ctx context.Context) error {
		defer wg.Wait()
		defer cancel()
		if err := n.Do(ctx, http.MethodDelete, path, nil, nil); err != nil {
			return fmt.Errorf("end the merge: %w", err)
		}
		return nil
	}
}
