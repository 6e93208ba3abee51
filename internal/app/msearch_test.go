package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// multiSearch sends a multi-search of these lines and returns the status of each
// item, the nodes that served it, and the decision.
func (s *sidestep) multiSearch(lines ...string) (items []servedItem, decision string) {
	s.t.Helper()
	got, err := ask(s.t, s.client, "POST "+s.dataURL("/_msearch"), strings.Join(lines, "\n")+"\n",
		"Content-Type", "application/x-ndjson", "X-Sidestep-Explain", "1")
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	var answer struct {
		Responses []struct {
			Status int `json:"status"`
			Shards struct {
				Failed int `json:"failed"`
			} `json:"_shards"`
			Hits struct {
				Hits []struct {
					Node string `json:"_node"`
				} `json:"hits"`
			} `json:"hits"`
		} `json:"responses"`
	}
	require.NoError(s.t, json.Unmarshal([]byte(got.body), &answer), got.body)
	for _, r := range answer.Responses {
		item := servedItem{status: r.Status, failed: r.Shards.Failed}
		for _, hit := range r.Hits.Hits {
			item.nodes = append(item.nodes, hit.Node)
		}
		items = append(items, item)
	}
	return items, got.header.Get("X-Sidestep-Decision")
}

// servedItem is what became of one item.
type servedItem struct {
	status, failed int
	nodes          []string // ids, one for each hit
}

func always(cfg *config.Config) { cfg.Routing.When = "always" }

const explained = `{"explain":true,"size":3}`

// Each item is served by the nodes listed for it, strings keep to their copies, and
// what must not be steered is as the client wants it.
func TestMultiSearchItemsAreServedWhereTheyShould(t *testing.T) {
	c, s := inFrontOfFour(t, always)
	names := map[string]string{}
	for _, n := range c.Nodes() {
		names[n.ID()] = n.Name()
	}
	third := c.Nodes()[2]
	require.Eventually(t, func() bool {
		_, decision := s.multiSearch(`{"index":"items"}`, explained)
		return strings.Contains(decision, "reason=ranked;")
	}, patience, 20*time.Millisecond, "there are no statistics")
	homes := map[string]int{}
	for range 10 {
		lone, decision := s.multiSearch(`{"index":"one"}`, explained)
		require.Contains(t, decision, "nodes="+names[lone[0].nodes[0]]+";", "an item of one shard is served by the one node listed")
		items, _ := s.multiSearch(
			`{"index":"one"}`, explained,
			`{"index":["two"]}`, explained,
			`{"index":"one","preference":"_only_nodes:`+third.ID()+`"}`, explained,
			`{"index":"nowhere"}`, explained,
			`{"index":"two","preference":"user 7"}`, explained,
			`{"index":"items"}`, explained,
		)
		require.Len(t, items, 6)
		for i, item := range items {
			require.Equal(t, i == 3, item.status == http.StatusNotFound, "item %d: %+v", i, item)
			require.Zero(t, item.failed)
		}
		require.Equal(t, []string{third.ID(), third.ID(), third.ID()}, items[2].nodes)
		homes[items[4].nodes[0]]++
	}
	alone := s.servedBy("/two/_search?explain&preference=user%207")
	require.Equal(t, map[string]int{alone["[two][0]"]: 10}, homes, "a string leads searches and items to the same copy")
}

// Killing nodes costs no item its answer: the engine itself falls back, and a
// request that is cut off is sent again.
func TestMultiSearchSurvivesADyingNode(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFour(t, always)
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			for i := range 30 {
				if client == 0 && i == 10 {
					c.Nodes()[1].Kill()
				}
				items, decision := s.multiSearch(`{"index":"one"}`, explained, `{"index":"items"}`, explained, `{"index":"two"}`, explained)
				for j, item := range items {
					if item.status != http.StatusOK || item.failed > 0 {
						t.Errorf("item %d: %+v, %s", j, item, decision)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestMultiSearchOnAClusterThatForbidsPreferences(t *testing.T) {
	c, s := inFrontOfFour(t, always)
	c.SetStrictWeights(true)
	for i := range 3 {
		items, decision := s.multiSearch(`{"index":"one"}`, explained, `{"index":"items"}`, explained)
		require.Contains(t, decision, fmt.Sprintf("reason=preference_forbidden; nodes=; attempts=%d;", max(1, 2-i)))
		for _, item := range items {
			require.Equal(t, http.StatusOK, item.status, decision)
		}
	}
}
