package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
)

func TestPurposeOfEveryQuestion(t *testing.T) {
	for _, engine := range []cluster.Engine{
		{Distribution: cluster.Elasticsearch, Major: 8, Minor: 19},
		{Distribution: cluster.OpenSearch, Major: 3, Minor: 6},
	} {
		for _, q := range poll.Questions(engine, "products") {
			want := forDiscovery
			switch q.Kind {
			case "stats":
				want = forStatistics
			case "version", "routing_table":
				want = forPlacement
			case "search_shards", "metadata", "aliases":
				want = forTargets
			}
			path, _, _ := strings.Cut(q.Path, "?")
			require.Equal(t, want, purposeOf("/"+path), "%s: %s", q.Kind, q.Path)
		}
	}
}
