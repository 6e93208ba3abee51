package proxy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

func TestExplainSaysWhatKeepsANodeOut(t *testing.T) {
	h := start(t, 3, nil)
	h.measured(1)
	e := h.explain(Question{Target: "idx"})
	require.Equal(t, es.Search, e.Operation)
	require.Contains(t, e.Summary, "3 of 3 nodes with a copy are listed, as such requests always are. No node is left out.")
	require.Contains(t, e.Decision.Candidates[0].Why, "response time 500.0 ms")
	require.Contains(t, e.Summary, "It would be sent to "+e.Coordinator)
	require.Equal(t, selection.Bound{Out: 0, AtMost: 1, Nodes: 3}, e.KeptOut)
	require.InDelta(t, 25, *e.Decision.Limit, 1)
	require.Equal(t, selection.NotExcluded, e.Shards[0].Copies[0].Excluded)
	require.Equal(t, selection.OverLimit, e.Shards[0].Copies[1].Excluded)
	text, err := json.Marshal(e)
	require.NoError(t, err)
	require.Contains(t, string(text), `"excluded":"over_limit"`)
}

func TestExplainSaysWhatWouldMakeANodeStandOut(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
	h.slow()
	e := h.explain(Question{Target: "idx"})
	require.False(t, e.Steered)
	require.Equal(t, "no_outlier", e.Reason)
	require.Contains(t, e.Summary, "no node stands out. A node is suspect from 25.0 ms on (3 × the median of 5.0 ms + 10 ms")
}

// Each operation is explained as it would be done.
func TestExplainOperations(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.Off = []string{"count"} })
	h.slow(1)
	for _, c := range []struct {
		q                  Question
		reason, preference string
		shards             int
	}{
		{Question{Operation: es.SearchTemplate, Target: "idx"}, "ranked", "preference=_only_nodes:id-a,id-c", 3},
		{Question{Operation: es.AsyncSearch, Target: "idx"}, "ranked", "preference=_prefer_nodes:id-a,id-c", 3},
		{Question{Operation: es.PIT, Target: "idx"}, "ranked", "preference=_prefer_nodes:id-a,id-c", 3},
		{Question{Operation: es.MSearch, Target: "idx"}, "ranked", "preference=_prefer_nodes:id-a,id-c", 3},
		{Question{Operation: es.MSearchTemplate, Target: "idx"}, "ranked", "preference=_prefer_nodes:id-a,id-c", 3},
		{Question{Operation: es.Count, Target: "idx"}, "operation_off", "", 3},
		{Question{Operation: es.Get, Target: "lone", ID: "7"}, "no_choice", "", 1},
		{Question{Operation: es.Get, Target: "seg", ID: "7"}, "segment_replication", "", 0},
		{Question{Operation: es.Get, Target: "id,x", ID: "7"}, "not_one_index", "", 0},
		{Question{Target: "there:idx"}, "remote_target", "", 0},
		{Question{Target: "idx", Preference: "_local"}, "client_preference", "", 0},
		{Question{Target: "idx", Preference: "kim"}, "client_preference", "", 0},
		{Question{}, "ranked", "preference=_only_nodes:id-a,id-c", 3},
		{Question{Target: "logs-*"}, "ranked", "preference=_only_nodes:id-a,id-c", 3},
	} {
		e := h.explain(c.q)
		require.Equal(t, []any{c.reason, c.preference}, []any{e.Reason, e.Preference}, "%+v", c.q)
		require.Len(t, e.Shards, c.shards, "%+v", c.q)
		require.Equal(t, c.preference != "", e.Steered, "%+v", c.q)
		require.Equal(t, c.preference != "" || c.reason == "no_choice", len(e.Nodes) > 0, "%+v", c.q)
		require.NotContains(t, e.Summary, "The reason is", "%+v", c.q)
		require.NotEmpty(t, e.Summary, "%+v", c.q)
	}
	for _, op := range []es.Operation{es.Get, es.Explain, es.TermVectors} {
		e := h.explain(Question{Operation: op, Target: "alias", ID: "a/b c"})
		require.Len(t, e.Shards, 1)
		require.Len(t, e.Nodes, 1)
		require.Equal(t, "preference=_prefer_nodes:"+"id-"+e.Nodes[0], e.Preference)
	}

	_, err := h.proxy.Explain(Question{Operation: es.MGet, Target: "idx"})
	require.EqualError(t, err, `unknown operation "mget", valid are async_search, count, explain, get, msearch, msearch_template, pit, search, search_template, termvectors`)
	_, err = h.proxy.Explain(Question{Operation: es.Get, Target: "idx"})
	require.EqualError(t, err, "operation get needs the id of a document")
	_, err = h.proxy.Explain(Question{Target: "idx", ID: "7"})
	require.EqualError(t, err, "operation search takes no id: get, explain and termvectors do")
}

// A string of the client's own sticks as it would in a search.
func TestExplainAffinity(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.Affinity = Affinity{Strings: true} })
	h.slow(1)
	e := h.explain(Question{Target: "idx", Preference: "kim"})
	require.Equal(t, "affinity", e.Reason)
	require.Contains(t, e.Summary, "sticks to")
}

// In every mode the decision is told, and whether it is acted upon.
func TestExplainModes(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	for _, mode := range []Mode{ModeObserve, ModeOff} {
		require.NoError(t, h.proxy.SetMode(mode))
		e := h.explain(Question{Target: "idx"})
		require.False(t, e.Steered)
		require.Equal(t, "ranked", e.Reason)
		require.Contains(t, e.Summary, "The mode is "+string(mode)+", so it passes as the client wrote it all the same.")
	}
	require.NoError(t, h.proxy.SetMode(ModeRoute))
	h.proxy.suspend()
	e := h.explain(Question{Target: "idx"})
	require.Equal(t, []any{false, "preference_forbidden", ""}, []any{e.Steered, e.Reason, e.Preference})
	require.Contains(t, e.Summary, "strict weighted routing")
}

// Copies that do not serve are shown with why.
func TestExplainShowsCopiesThatDoNotServe(t *testing.T) {
	h := start(t, 3, nil)
	nodes := h.proxy.view.Load().snapshot.Nodes
	shard := func(copies ...cluster.Copy) []cluster.Shard {
		return []cluster.Shard{{Copies: copies}}
	}
	use := func(shards []cluster.Shard) []IdleCopy {
		h.proxy.UseSnapshot(cluster.NewSnapshot(cluster.Contents{
			Nodes: nodes, PlacedAt: time.Now(), Indices: []cluster.Index{{Name: "moving", Shards: shards}},
		}))
		e := h.explain(Question{Target: "moving"})
		require.Len(t, e.Shards, 1)
		return e.Shards[0].NotServing
	}
	started := cluster.Copy{Node: "id-a", Kind: 'p', State: cluster.Started}
	require.Empty(t, use(shard(started)))
	idle := use(shard(started, cluster.Copy{Node: "id-b", Kind: 'r', State: cluster.Initializing}, cluster.Copy{Kind: 'r', State: cluster.Unassigned}))
	require.Equal(t, []IdleCopy{
		{Node: "b", NodeID: "id-b", State: "INITIALIZING", Why: "a copy serves only while it is STARTED or RELOCATING"},
		{State: "UNASSIGNED", Why: "a copy serves only while it is STARTED or RELOCATING"},
	}, idle)
	idle = use(shard(started, cluster.Copy{Node: "id-b", Kind: 's', State: cluster.Started}))
	require.Equal(t, []IdleCopy{{Node: "a", NodeID: "id-a", State: "STARTED", Why: "the index has search-only copies: the engine searches these alone"}}, idle)
	idle = use(shard(started, cluster.Copy{Node: "id-new", Kind: 'r', State: cluster.Started}))
	require.Equal(t, []IdleCopy{{NodeID: "id-new", State: "STARTED", Why: "its node is not known yet"}}, idle)
}

// While everything fails searches pass, and an operator is told so.
func TestExplainSaysThatEverythingFails(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	for h.proxy.searchBudget.Allows() {
		h.proxy.searchBudget.Failed()
	}
	e := h.explain(Question{Target: "idx"})
	require.False(t, e.Steered)
	require.Equal(t, reasonFailing, e.Reason)
	require.Empty(t, e.Preference)
	require.Contains(t, e.Summary, "until one succeeds")
	require.True(t, h.explain(Question{Operation: es.PIT, Target: "idx"}).Steered, "it is repeated in no case")
}

// Every reason to pass that can be explained has words.
func TestEveryReasonToPassHasWords(t *testing.T) {
	for _, r := range []es.PassReason{
		es.PassNotSteerable, es.PassClientPreference, es.PassRemoteTarget, es.PassPIT, es.PassUnreadableBody, es.PassAmbiguousQuery,
		es.PassTypedPath, es.PassIndicesOptions, es.PassUnreadableHeader, es.PassUnverifiable,
	} {
		require.NotEmpty(t, passTexts[string(r)], r)
	}
	for _, m := range cluster.Misses() {
		require.NotEmpty(t, passTexts[string(m)], m)
	}
	for _, r := range []string{reasonOperationOff, reasonStale, reasonForbidden, reasonFailing} {
		require.NotEmpty(t, passTexts[r], r)
	}
	for _, r := range selection.Reasons() {
		require.Empty(t, passTexts[string(r)], "its words are the selection's")
	}
}

// Under static discovery requests go to the addresses given, whichever node is behind them.
func TestExplainNamesNoCoordinatorWithoutAddress(t *testing.T) {
	h := start(t, 2, nil)
	require.Equal(t, []string{"a", "b"}, h.explain(Question{Target: "idx"}).Coordinators)
	h.useAddressesGiven()
	e := h.explain(Question{Target: "idx"})
	require.NotEmpty(t, e.Shards)
	require.Equal(t, Through{Why: viaAddresses}, e.Through)
	require.NotContains(t, e.Summary, "It would be sent to")
}
