package proxy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
	"sidestep/internal/selection"
)

// What is explained is what is done.
func TestExplainBulk(t *testing.T) {
	b := startBulks(t, 3, nil)
	e := b.proxy.ExplainBulk("idx")
	require.True(t, e.Planned)
	require.True(t, e.Selected)
	require.Equal(t, reasonOneShard, e.Reason)
	require.Equal(t, bulk.ChoiceEven, e.Choice)
	require.Len(t, e.Shards, 3)
	require.InDelta(t, 1.0/3, e.Shards[2].Chance, 0.001)
	require.Equal(t, []BulkCopy{
		{Node: "c", NodeID: "id-c", Primary: true, State: "STARTED"}, {Node: "a", NodeID: "id-a", State: "STARTED"},
	}, e.Shards[2].Copies)
	require.Contains(t, e.Summary, "Any shard may be chosen")
	require.Empty(t, b.books.Skews(time.Time{}), "to ask opens no books")

	b.do("POST", "/idx/_bulk", five)
	shard := b.shardOf(five, b.seen()[0])
	b.documents()
	e = b.proxy.ExplainBulk("idx")
	require.EqualValues(t, 5, e.Shards[shard].Documents)
	require.InDelta(t, 3, e.Skew, 0.001)
	require.Positive(t, *e.Shards[shard].PerDocument)
	for range 30 {
		b.do("POST", "/idx/_bulk", five)
		b.forgetPace()
	}
	index, skew := b.proxy.BulkSkew()
	require.Equal(t, "idx", index)
	require.InDelta(t, 1.25, skew, 0.25)

	b.queues.Store("id-a")
	b.gone(1)
	e = b.proxy.ExplainBulk("idx")
	require.Equal(t, bulk.ChoiceAvoided, e.Choice)
	require.Equal(t, loadTroubles, e.Ignored)
	require.Equal(t, []string{"b is unreachable"}, e.Shards[0].Avoided)
	require.Equal(t, troubleWrites, e.Shards[2].Copies[1].Trouble)
	require.Empty(t, e.Shards[2].Avoided)
	require.Contains(t, e.Summary, "avoided: 0, 1. Busy nodes and overloaded write pools")
	require.Equal(t, selection.Unreachable.String(), e.Shards[1].Copies[0].Trouble)

	b.gone(2)
	e = b.proxy.ExplainBulk("idx")
	require.Equal(t, bulk.ChoiceEven, e.Choice)
	require.Contains(t, e.Summary, "Nodes in trouble do not count")

	for name, want := range map[string]string{"other": "does not name", "idx-refused": "has a pipeline"} {
		e = b.proxy.ExplainBulk(name)
		require.False(t, e.Planned)
		require.Equal(t, name != "other", e.Selected)
		require.Contains(t, e.Summary, want)
		require.Empty(t, e.Shards)
	}
	require.NoError(t, b.proxy.SetBulkMode(ModeObserve))
	e = b.proxy.ExplainBulk("idx")
	require.False(t, e.Planned)
	require.Equal(t, "observe", e.Reason)
	require.NotEmpty(t, e.Shards, "what would be done is told all the same")
	require.NoError(t, b.proxy.SetBulkMode(ModeOff))
	require.Equal(t, reasonOff, b.proxy.ExplainBulk("idx").Reason)
	b.known.Store(false)
	require.NoError(t, b.proxy.SetBulkMode(ModeRoute))
	require.Contains(t, b.proxy.ExplainBulk("idx").Summary, "Ask again")
}

// A bulk goes through the node that is told for its shard; through any where none is told.
func TestExplainSaysThroughWhichNodeABulkGoes(t *testing.T) {
	b := startBulks(t, 3, nil)
	through := func(want ...string) {
		t.Helper()
		e := b.proxy.ExplainBulk("idx")
		require.Contains(t, e.Summary, "through the first node with a primary copy of its shards that is neither in trouble nor about to leave, or, if there is none, through one of all nodes, in turn.")
		for shard, s := range e.Shards {
			require.Equal(t, want[shard], s.Through)
		}
		for range 20 {
			b.do("POST", "/idx/_bulk", five)
			seen := b.seen()[0]
			if told := e.Shards[b.shardOf(five, seen)].Through; told != "" {
				require.Equal(t, told, seen.node)
			}
			b.forgetPace()
		}
	}
	through("a", "b", "c")
	require.NoError(t, b.proxy.Drain("b", time.Hour))
	through("a", "", "c")
	require.True(t, b.proxy.ExplainBulk("idx").Shards[1].Copies[0].Leaving)
	b.queues.Store("id-a")
	through("", "", "c")

	require.NoError(t, b.proxy.SetBulkMode(ModeObserve))
	e := b.proxy.ExplainBulk("idx")
	require.Contains(t, e.Summary, "It would be sent through one of all nodes, in turn.")
	require.Empty(t, e.Shards[2].Through)
	b.useAddressesGiven()
	require.Contains(t, b.proxy.ExplainBulk("idx").Summary, "One of the addresses of upstream.urls gets it")
}

// TestEveryReasonOfAnIndexHasWords: what an explanation says is complete.
func TestEveryReasonOfAnIndexHasWords(t *testing.T) {
	ofOperations := []bulk.Reason{
		bulk.ReasonExplicitID, bulk.ReasonOwnRouting, bulk.ReasonUpdate, bulk.ReasonDelete, bulk.ReasonOtherField, bulk.ReasonNoIndex,
		bulk.ReasonMalformed, bulk.ReasonManyIndices, bulk.ReasonTooLong, bulk.ReasonCompressed, bulk.ReasonURLParameter,
	}
	for _, r := range bulk.Reasons() {
		found := bulkTexts[string(r)] != ""
		for _, one := range ofOperations {
			found = found || one == r
		}
		require.True(t, found, r)
	}
	text, err := json.Marshal(BulkExplanation{})
	require.NoError(t, err)
	require.Contains(t, string(text), `"planned":false`)
}
