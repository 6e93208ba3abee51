package app

import (
	"time"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/config"
	"sidestep/internal/proxy"
)

// newIndices returns what is to be known of the indices whose bulks go to one shard; nil
// if the configuration names none.
func newIndices(b config.Bulk, c *cluster.Cluster) *cluster.Indices[bulk.Index] {
	if len(b.SingleShard) == 0 {
		return nil
	}
	return cluster.NewIndices(c, cluster.IndicesOptions[bulk.Index]{Parse: parseIndex, Count: countedIndex})
}

// parseIndex reads what the engine says of a name.
func parseIndex(name string, body []byte) (bulk.Index, error) {
	indices, err := bulk.ParseIndices(body)
	if err != nil {
		return bulk.Index{}, err
	}
	if index, ok := indices[name]; ok {
		return index, nil
	}
	// The indices behind another name: a data stream of OpenSearch, which refuses a
	// routing.
	return bulk.Index{Name: name, Refused: bulk.ReasonNoCustomRouting}, nil
}

// countedIndex returns the index whose documents are counted.
func countedIndex(i bulk.Index) string {
	if i.Refused != "" {
		return ""
	}
	return i.WriteIndex
}

// bulkOptions returns what the data plane is told of bulks.
func (p *pipeline) bulkOptions(b config.Bulk, books *bulk.Books) proxy.Bulk {
	o := proxy.Bulk{
		Mode: proxy.Mode(b.Mode), Patterns: b.Patterns(), Avoid: b.Avoid, Idempotent: b.Idempotent, RetryRejected: b.RetryRejected, MaxSkew: b.MaxSkew,
		Queues: p.cluster.WritesQueue, Books: books,
	}
	if p.indices == nil {
		return o
	}
	o.Index = p.indices.Lookup
	o.Counts = func(name string) ([]int64, time.Time, bool) {
		counts, ok := p.indices.Counts(name)
		return counts.Operations, counts.At, ok && counts.Operations != nil
	}
	return o
}

// BulkMode returns the mode of bulks in force.
func (a *App) BulkMode() proxy.Mode { return a.current.Load().proxy.BulkMode() }

// SetBulkMode switches the mode of bulks. It holds until it is switched again or a reload
// brings a configuration whose bulk.mode is another than before.
func (a *App) SetBulkMode(mode proxy.Mode) error {
	a.modeMu.Lock()
	defer a.modeMu.Unlock()
	return a.current.Load().proxy.SetBulkMode(mode)
}
