package app

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster/poll"
	"sidestep/internal/config"
	"sidestep/internal/es"
	"sidestep/internal/proxy"
)

// newIndices returns the reader of indices whose bulks go to one shard or that have
// logical shards; nil if the configuration names none.
func newIndices(n needs, p *poll.Poller) *poll.Indices[bulk.Index] {
	if !n.indices {
		return nil
	}
	return poll.NewIndices(p, poll.IndicesOptions[bulk.Index]{Parse: parseIndex, Aliases: n.aliases})
}

// parseIndex parses the engine's metadata of a name.
func parseIndex(name string, body, aliases []byte) (bulk.Index, error) {
	indices, err := bulk.ParseIndices(body)
	if err != nil {
		return bulk.Index{}, err
	}
	if index, ok := indices[name]; ok {
		if aliases != nil && bulk.HasRoutedAlias(name, aliases) {
			index.RefusedRouted = cmp.Or(index.RefusedRouted, bulk.ReasonRoutedAlias)
		}
		return index, nil
	}
	// The indices behind another name: a data stream, or an alias of some, which Elasticsearch keeps elsewhere.
	return bulk.Index{Refused: bulk.ReasonNoCustomRouting, RefusedRouted: bulk.ReasonNoCustomRouting}, nil
}

// bulkOptions returns the data plane's options of bulks.
func (p *pipeline) bulkOptions(b config.Bulk, books *bulk.Books) proxy.Bulk {
	o := proxy.Bulk{
		Mode: proxy.Mode(b.Mode), Patterns: b.Patterns(), Avoid: b.Avoid, Idempotent: b.Idempotent, RetryRejected: b.RetryRejected, MaxSkew: b.MaxSkew,
		Queues: p.poller.WritesQueue, Books: books,
	}
	if p.indices == nil {
		return o
	}
	for _, r := range b.RoutingSize {
		o.Logical = append(o.Logical, proxy.LogicalShards{Pattern: r.Index, Size: r.Size, Writes: r.Write()})
	}
	o.Index, o.IndicesOf = p.indices.Lookup, p.store.IndicesOf
	o.Counts = func(name string) ([]int64, time.Time, bool) {
		counts, ok := p.indices.Counts(name)
		return counts.Operations, counts.At, ok
	}
	return o
}

// keepSlots returns a problem for each index that this process has written to by slots
// and whose slots cfg changes or removes, as reads by routing would miss documents. An
// index that was deleted is no problem.
func (a *App) keepSlots(cfg config.Bulk) []*config.Problem {
	snapshot := a.current.Load().store.Snapshot()
	sizes := a.books.Sizes()
	var problems []*config.Problem
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		at := slices.IndexFunc(cfg.RoutingSize, func(r config.RoutingSize) bool { return es.Matches(r.Index, name) })
		if at >= 0 && cfg.RoutingSize[at].Size == sizes[name] {
			continue
		}
		if snapshot != nil && snapshot.HasPlacement() {
			if _, there := snapshot.Lookup(name); !there {
				continue
			}
		}
		problems = append(problems, &config.Problem{Path: "bulk.routing_size", Message: fmt.Sprintf(
			"documents of index %q were written with size %d, and searches by routing need that to find them: keep it while the index lives, with writes: false if no more are to be written so", name, sizes[name])})
	}
	return problems
}
