package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Segments says of what the indices for [Node.CreateSegments] are made.
type Segments struct {
	Name string
	// Indices is how many there are, of one shard each: the engines merge the shards of
	// an index one after the other, and indices at the same time.
	Indices int
	// Each has Segments segments of Docs documents of about 1 KB.
	Segments, Docs int
	Seed           uint64
}

// names are the names of the indices.
func (s Segments) names() []string {
	names := make([]string, max(1, s.Indices))
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", s.Name, i+1)
	}
	return names
}

// CreateSegments creates indices that stand on this node alone, in many segments that
// the engine leaves alone until it is told to merge them. Merging is costly: the
// documents are sorted and well compressed, so that nothing can be copied as it is. No
// client searches them. Those of the same names are deleted before.
func (n *Node) CreateSegments(ctx context.Context, s Segments) error {
	if err := n.deleteSegments(ctx, s); err != nil {
		return err
	}
	for _, name := range s.names() {
		if err := n.createSegments(ctx, name, s); err != nil {
			return fmt.Errorf("make index %s: %w", name, err)
		}
	}
	return nil
}

func (n *Node) deleteSegments(ctx context.Context, s Segments) error {
	path := "/" + strings.Join(s.names(), ",") + "?ignore_unavailable=true"
	return n.Do(ctx, http.MethodDelete, path, nil, nil)
}

func (n *Node) createSegments(ctx context.Context, name string, s Segments) error {
	text := map[string]any{"type": "text"}
	keyword := map[string]any{"type": "keyword"}
	definition := map[string]any{
		"settings": map[string]any{"index": map[string]any{
			"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1",
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
	path := "/" + url.PathEscape(name)
	if err := n.Do(ctx, http.MethodPut, path+"?wait_for_active_shards=all", definition, nil); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(s.Seed, 2))
	for range s.Segments {
		if err := n.Do(ctx, http.MethodPost, path+"/_bulk?refresh=true&filter_path=errors", s.batch(random), nil); err != nil {
			return err
		}
	}
	return n.Do(ctx, http.MethodPost, path+"/_flush", nil, nil)
}

// batch returns the documents of one segment.
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

// ForceMerge has the indices merged to one segment each, all at once. The function it
// returns ends the merges, by deleting the indices, and waits for that.
func (n *Node) ForceMerge(ctx context.Context, s Segments) (end func(context.Context) error) {
	merging, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, name := range s.names() {
		wg.Go(func() {
			// It is cut off, or fails because the index is deleted.
			_ = n.Do(merging, http.MethodPost, "/"+url.PathEscape(name)+"/_forcemerge?max_num_segments=1", nil, nil)
		})
	}
	return func(ctx context.Context) error {
		defer wg.Wait()
		defer cancel()
		if err := n.deleteSegments(ctx, s); err != nil {
			return fmt.Errorf("end the merges: %w", err)
		}
		return nil
	}
}
