package record

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
}
