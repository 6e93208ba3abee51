package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is sent is what was drawn, byte for byte, but for the placeholders.
func TestConverse(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, r.Method+" "+r.RequestURI+" "+string(body)+" "+r.Header.Get("X-Sidestep-Explain"))
		w.Header().Set("X-Sidestep-Decision", "mode=route; reason=ranked; nodes=a")
		_, _ = io.WriteString(w, `{"_scroll_id":"s1","pit_id":"p1","_index":"mine-s0-3"}`)
	}))
	defer server.Close()
	client := &http.Transport{DisableCompression: true}
	defer client.CloseIdleConnections()
	s := side{name: "s0", base: server.URL, explain: true, ids: []string{"A", "B", "C"}, client: client}
	answers := s.converse(t.Context(), conversation{writes: true, steps: []request{
		{method: "GET", uri: "//a/%2F/../b?x=%zz;y&&z"},
		{method: "POST", uri: "/mine-@side@-3/_search?", body: "@node1@ @scroll@ @pit@ \xff"},
	}})
	require.Equal(t, []string{"GET //a/%2F/../b?x=%zz;y&&z  1", "POST /mine-s0-3/_search? A s1 p1 \xff 1"}, seen)
	require.Equal(t, `{"_scroll_id":"s1","pit_id":"p1","_index":"mine-@side@-3"}`, string(answers[1].body))
	require.Equal(t, "ranked", reasonOf(answers[1].decision))
	require.NotContains(t, answers[1].header, "X-Sidestep-Decision")
}

func TestTally(t *testing.T) {
	tally := newTally()
	steered := answer{status: 200, decision: "mode=route; reason=ranked; nodes=a"}
	passed := answer{status: 200, decision: "mode=route; reason=pit; nodes="}
	one := func(number uint64, operation string, a answer, how string) {
		tally.add(verdict{conversation: conversation{number: number, steps: []request{{operation: operation}}},
			direct: []answer{{status: a.status}}, through: []answer{a}, how: how})
	}
	one(0, "search", steered, "")
	one(2, "search", passed, "")
	one(1, "search", passed, "body")
	one(4, "search", answer{status: 404}, "")
	one(6, "cat", passed, "")
	require.Equal(t, 5, tally.requests)
	require.EqualError(t, tally.err(), "1 of 5 requests are answered differently")
	search := tally.operations["search"]
	require.Equal(t, half{steerable: 2, steered: 1, reasons: map[string]int{"pit": 1}}, search.halves[0], "an error cannot be steered")
	require.Equal(t, "50.0 % of 2", search.halves[0].share())
	require.Equal(t, "0.0 % of 1", search.halves[1].share())
	require.Zero(t, tally.operations["cat"].halves[0].steerable)
}
