package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFloodAsksOneNodeOnly(t *testing.T) {
	var waiting, most atomic.Int64
	var count atomic.Int64
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), waiting.Add(1)))
		defer waiting.Add(-1)
		time.Sleep(10 * time.Millisecond)
		if r.URL.Query().Get("preference") != "_shards:0,3|_only_nodes:the-id" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if count.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer node.Close()
	n := &Node{Name: "node-1", ID: "the-id", DirectURL: node.URL}
	came, end := n.Flood(t.Context(), Flood{Index: "products", Shards: "0,3", Waiting: 5, Body: "{}"})
	require.Eventually(t, func() bool { return came.Answered.Load() > 10 && came.Rejected.Load() > 10 }, time.Minute, time.Millisecond)
	require.NoError(t, end(t.Context()))
	require.LessOrEqual(t, most.Load(), int64(5))
	require.Eventually(t, func() bool { // the last searches may come to the node when their client has left
		before := count.Load()
		time.Sleep(50 * time.Millisecond)
		return waiting.Load() == 0 && count.Load() == before
	}, time.Minute, time.Millisecond, "it goes on")

	came, end = n.Flood(t.Context(), Flood{Index: "products", Shards: "1", Waiting: 1})
	require.Eventually(t, func() bool { return came.failure.Load() != nil }, time.Minute, time.Millisecond)
	require.ErrorContains(t, end(t.Context()), "flood node-1: status 400")
}

func TestForceMergeEndsWithItsIndex(t *testing.T) {
	merging, deleted := make(chan struct{}), make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.RequestURI() {
		case "POST /old-1/_forcemerge?max_num_segments=1":
			close(merging)
			<-deleted
		case "DELETE /old-1?ignore_unavailable=true":
			close(deleted)
		}
	}))
	defer node.Close()
	end := (&Node{DirectURL: node.URL}).ForceMerge(t.Context(), Segments{Name: "old"})
	<-merging
	require.NoError(t, end(context.WithoutCancel(t.Context())))
	<-deleted
}

func TestSegmentsAreWholeBatches(t *testing.T) {
	s := Segments{Docs: 3, Seed: 1}
	lines := json.NewDecoder(bytes.NewReader(s.batch(rand.New(rand.NewPCG(1, 2)))))
	for range 3 {
		var action, document map[string]any
		require.NoError(t, lines.Decode(&action))
		require.NoError(t, lines.Decode(&document))
		require.Contains(t, action, "index")
		require.Greater(t, len(document["body"].(string)), 500)
	}
	require.ErrorIs(t, lines.Decode(new(any)), io.EOF)
}
