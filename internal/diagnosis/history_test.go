package diagnosis

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func reading(id string, response float64) Reading {
	return Reading{ID: id, Name: "name-" + id, State: "fine", Response: response, Service: 2, Share: 0.5, Queue: math.NaN()}
}

func TestHistoryLinesUpWhatWasSeen(t *testing.T) {
	h := NewHistory()
	h.add([]Reading{reading("a", 4)}, epoch)
	h.Poll(cluster.NodeStats{Node: "a", Took: 3 * time.Millisecond, Queue: 7, Active: 1.5, Queries: 10, ServiceTime: 5 * time.Millisecond})
	h.Poll(cluster.NodeStats{Node: "a", Took: time.Millisecond, Queue: 2, Active: 0.5, Queries: 30, ServiceTime: time.Millisecond})
	h.Poll(cluster.NodeStats{Node: "b", Took: time.Second, Err: errors.New("silent"), State: cluster.PollUnresponsive})
	h.Poll(cluster.NodeStats{Node: "c", Took: time.Microsecond, Err: errors.New("refused"), State: cluster.PollUnreachable})
	h.Poll(cluster.NodeStats{Node: "b", Took: 2 * time.Millisecond, Coordinated: map[string]cluster.Seen{
		"a": {Now: 70 * time.Millisecond}, "b": {Now: 90 * time.Millisecond},
	}})
	h.Probe("b", 40*time.Millisecond)
	require.True(t, math.IsNaN(h.of("c").poll), "a connection that is refused is no answer")
	h.add([]Reading{reading("a", 5), reading("b", 6)}, epoch.Add(time.Second))
	h.add([]Reading{reading("b", 8)}, epoch.Add(2*time.Second))

	page, err := json.Marshal(h.Since(epoch))
	require.NoError(t, err)
	require.JSONEq(t, `{
		"interval_s": 1,
		"at": ["2026-03-01T12:00:00.000Z", "2026-03-01T12:00:01.000Z", "2026-03-01T12:00:02.000Z"],
		"nodes": [{
			"node_id": "b", "node": "name-b", "state": [null, "fine", "fine"],
			"response_ms": [null, 6, 8], "share": [null, 0.5, 0.5], "queue": [null, 0, null], "active": [null, 0, null],
			"service_ms": [null, 2, 2], "poll_ms": [null, 1000, null], "probe_ms": [null, 40, null], "seen_ms": [null, null, null]
		}, {
			"node_id": "a", "node": "name-a", "state": ["fine", "fine", null],
			"response_ms": [4, 5, null], "share": [0.5, 0.5, null], "queue": [null, 7, null], "active": [null, 0.5, null],
			"service_ms": [2, 2, null], "poll_ms": [null, 3, null], "probe_ms": [null, null, null], "seen_ms": [null, 70, null]
		}]
	}`, string(page))

	require.Len(t, h.Since(epoch.Add(time.Second)).At, 2)
	require.Empty(t, h.Since(epoch.Add(time.Minute)).At)
}

func TestHistoryForgets(t *testing.T) {
	h := NewHistory()
	for i := range 1200 {
		h.add([]Reading{reading("a", float64(i))}, epoch.Add(time.Duration(i)*time.Second))
	}
	all := h.Since(time.Time{})
	require.Len(t, all.At, 901)
	require.Equal(t, epoch.Add(299*time.Second), all.At[0].Time)
	require.InDelta(t, 1199, all.Nodes[0].Response[900], 0)
	require.Equal(t, 901, h.held)
}

// A thousand nodes are held in the memory of a hundred, more coarsely, and a cluster
// that shrinks gets its seconds back.
func TestHistoryOfManyNodesIsThinnedOut(t *testing.T) {
	h := NewHistory()
	many := make([]Reading, 1000)
	for i := range many {
		many[i] = reading(fmt.Sprint(i), 1)
	}
	now := epoch
	for range 2000 {
		h.add(many, now)
		now = now.Add(time.Second)
		require.LessOrEqual(t, h.held, maxSamples)
	}
	all := h.Since(time.Time{})
	require.InDelta(t, 16, all.Interval, 0)
	require.Len(t, all.Nodes, 1000)
	require.InDelta(t, Span.Seconds(), now.Sub(all.At[0].Time).Seconds(), 32)
	for range 2000 {
		h.add(many[:5], now)
		now = now.Add(time.Second)
	}
	all = h.Since(time.Time{})
	require.InDelta(t, 1, all.Interval, 0)
	require.Len(t, all.At, 901)
}

func TestSeriesAreReadAgain(t *testing.T) {
	before := NodeSeries{Response: Series{1.5, unknown, 0.001}, State: States{"fine", "", "slow"}}
	text, err := json.Marshal(before)
	require.NoError(t, err)
	require.Contains(t, string(text), `"response_ms":[1.5,null,0.001]`)
	require.Contains(t, string(text), `"state":["fine",null,"slow"]`)
	var after NodeSeries
	require.NoError(t, json.Unmarshal(text, &after))
	require.Equal(t, before.State, after.State)
	again, err := json.Marshal(after)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(again))
}

func TestTheMedianOfTheOthers(t *testing.T) {
	for n := range 7 {
		for range 50 {
			all := make([]float32, n)
			for i := range all {
				all[i] = float32(rand.IntN(4))
			}
			m := middleOf(slices.Clone(all))
			upper := func(values []float32) float32 {
				if len(values) == 0 {
					return unknown
				}
				return median(values)
			}
			require.Equal(t, fmt.Sprint(upper(slices.Clone(all))), fmt.Sprint(m.without(unknown)), all)
			for i, own := range all {
				require.Equal(t, fmt.Sprint(upper(slices.Delete(slices.Clone(all), i, i+1))), fmt.Sprint(m.without(own)), "%v but %v", all, own)
			}
		}
	}
}
