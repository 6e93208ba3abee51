package main

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// A bounded run on a real cluster: SIDESTEP_ENGINE chooses opensearch (default) or
// elasticsearch, SIDESTEP_DIFFERENTIAL how many requests.
func TestSameAnswers(t *testing.T) {
	count := uint64(1500)
	if text := os.Getenv("SIDESTEP_DIFFERENTIAL"); text != "" {
		var err error
		count, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*harness.Patience)
	defer cancel()
	s, err := openStage(ctx, os.Getenv("SIDESTEP_ENGINE"), os.Getenv("SIDESTEP_ENGINE_VERSION"), t.Logf)
	t.Cleanup(func() { require.NoError(t, s.close(t.Failed())) })
	require.NoError(t, err)
	tally, err := s.compareAll(ctx, 1, count, t.Logf)
	require.NoError(t, err)
	require.NoError(t, tally.err())

	// It must have compared something: most requests are answered well, and most of
	// the searches that could be steered are.
	search := tally.operations["search"]
	require.Greater(t, search.halves[0].steerable, search.requests/4)
	require.Greater(t, search.halves[0].steered, search.halves[0].steerable/3, "%v", search.halves[0].reasons)
	require.Less(t, tally.varied, tally.requests/20, "the engine's own answers vary too often to compare")
	t.Logf("%d requests, %d varied, searches steered: %s (%s)", tally.requests, tally.varied, search.halves[0].share(), search.halves[0].why())

	bulks, err := s.writeBulks(ctx, 1, 200, t.Logf)
	require.NoError(t, err)
	t.Log(bulks)
	require.NoError(t, bulks.err())
	require.Greater(t, bulks.planned, 300.0)
	require.Greater(t, bulks.reasons["one_shard"], bulks.bulks/4)
	require.Greater(t, bulks.documents, 500)
}
