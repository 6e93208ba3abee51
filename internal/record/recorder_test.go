package record

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
	"sidestep/internal/selection/account"
)

type undecided struct{}

func (undecided) Account() *account.Account { return nil }

// Each kind has room of its own: none pushes out another.
func TestKindsDoNotDisplaceEachOther(t *testing.T) {
	r := NewRecorder()
	r.Use(Rules{Slow: time.Second, Keep: 1})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/logs/_doc", http.NoBody)
	began := time.Now()
	take := func(took time.Duration, change func(*Trail)) {
		var trail Trail
		trail.Reset(began)
		change(&trail)
		r.Take(&trail, request, began.Add(took), undecided{})
	}
	kinds := [][]string{{keptHedge}, {keptFailover}, {keptFailed}, {keptSlow, keptFailed}}
	for range 3 {
		take(time.Second, func(t *Trail) { t.Failed = true })
		take(0, func(t *Trail) { t.Failed = true })
		take(0, func(t *Trail) { t.Attempts = append(t.Attempts, Attempt{Kind: First}, Attempt{Kind: Failover}) })
		take(0, func(t *Trail) { t.Attempts = append(t.Attempts, Attempt{Kind: First}, Attempt{Kind: Hedge}) })
		take(0, func(t *Trail) { t.Attempts = append(t.Attempts, Attempt{Kind: First}) })
	}
	var kept [][]string
	for _, one := range r.Last(10) {
		kept = append(kept, one.Kept)
	}
	require.ElementsMatch(t, kinds, kept)
	take(0, func(t *Trail) {
		t.Attempts = append(t.Attempts, Attempt{Kind: First}, Attempt{Kind: Hedge}, Attempt{Kind: Failover})
	})
	kept = nil
	for _, one := range r.Last(10) {
		kept = append(kept, one.Kept)
	}
	kinds[1] = []string{keptFailover, keptHedge}
	require.ElementsMatch(t, kinds, kept, "it failed over, too")
}

// Records outlive a reload as far as there is room for them then.
func TestTheNewestAreKept(t *testing.T) {
	r := NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/logs/_search", http.NoBody)
	began, taken := time.Now(), 0
	keep := func(room, more int, want ...float64) {
		t.Helper()
		r.Use(Rules{Slow: time.Second, Keep: room})
		for range more {
			taken++
			var trail Trail
			trail.Reset(began)
			r.Take(&trail, request, began.Add(time.Duration(taken)*time.Second), undecided{})
		}
		got := []float64{}
		for _, one := range r.Last(10) {
			got = append(got, one.Duration/1000)
		}
		require.Equal(t, want, got)
	}
	keep(3, 5, 5, 4, 3)
	keep(2, 0, 5, 4)
	keep(4, 3, 8, 7, 6, 5)
	keep(4, 0, 8, 7, 6, 5)
	require.Len(t, r.Last(1), 1)
	keep(0, 1, []float64{}...)
}

// A field that is absent in /slow is absent in a line, too.
func TestALineHasTheFieldsOfItsRecord(t *testing.T) {
	var trail Trail
	trail.Reset(time.Now())
	trail.Attempts = append(trail.Attempts, Attempt{Kind: First, Node: selection.NewNode(selection.NodeInfo{Name: "node-1"})})
	trail.Answered = 0
	rec := trail.record(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/logs/_search", http.NoBody), time.Now())
	text, err := json.Marshal(rec)
	require.NoError(t, err)
	var shown map[string]any
	require.NoError(t, json.Unmarshal(text, &shown))
	var logged []string
	for _, a := range rec.Attrs() {
		logged = append(logged, a.Key)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(shown)), logged)
	require.NotContains(t, logged, "nodes", "the engine chose")
}

// The span of an attempt lasts until its answer has ended, however that was.
func TestAnAttemptEndsWithItsAnswer(t *testing.T) {
	var trail Trail
	began := time.Now()
	trail.Reset(began)
	trail.Answered = trail.Sent(Attempt{}, began)
	trail.Ended(trail.Answered, Answered, http.StatusOK, nil, began.Add(time.Second))
	trail.CutOff(io.ErrUnexpectedEOF)
	trail.Finished(began.Add(5 * time.Second))
	require.Equal(t, 5*time.Second, trail.Attempts[0].End)
	require.Equal(t, time.Second, trail.Attempts[0].Head)
}
