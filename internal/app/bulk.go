package app

import (
	"sidestep/internal/cluster"
	"sidestep/internal/config"
)

// newIndices returns what is to be known of the indices whose bulks go to one shard; nil
// if the configuration names none.
func newIndices(b config.Bulk, c *cluster.Cluster) *cluster.Indices[[]byte] {
	if len(b.SingleShard) == 0 {
		return nil
	}
	return cluster.NewIndices(c, cluster.IndicesOptions[[]byte]{
		Parse: func(_ string, body []byte) ([]byte, error) { return body, nil },
	})
}
