package proxy

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
)

// While probes are refused response times alone are proof. As soon as one is answered they are not: what was refused before
// says nothing of the other nodes.
func TestProbesThatAreAllowedAgainAreWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		rest   time.Duration
	}{
		"weights":       {http.StatusForbidden, strictWeights, askAgain},
		"not permitted": {http.StatusUnauthorized, `{}`, refusedFor},
	} {
		for _, allowed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				status, body := c.status, c.body
				p := newProbing(t, func(r *http.Request) (*http.Response, error) { return answers(status, body)(r) })
				s, v := p.o.Selector, p.view.Load()
				decide := func() {
					for i := range v.nodes { // the third one is far slower
						seen := map[string]selection.Seen{id(0): {Now: time.Millisecond}, id(1): {Now: time.Millisecond}, id(2): {Now: time.Minute}}
						s.ObservePoll(id(i), selection.Poll{State: selection.Fine, Coordinated: seen}, time.Now())
					}
					plan, _ := v.snapshot.Resolve("idx", "")
					s.Choose(&selection.Decision{}, selection.Request{Nodes: v.nodes, Shards: plan.Shards, Outliers: true}, time.Now())
				}
				for range 6 {
					for _, n := range v.nodes {
						s.Suspect(&selection.Decision{Nodes: []*selection.Node{n}}, time.Now())
					}
					for _, probe := range s.Probes(nil, time.Now()) {
						s.ObserveProbe(probe, p.probe(t.Context(), v, probe), time.Now())
					}
					time.Sleep(time.Second)
				}
				if allowed {
					status, body = http.StatusOK, good
					time.Sleep(c.rest)
					require.False(t, p.send(t, 1).Unfit, name)
				}
				decide()
				require.Equal(t, allowed, v.nodes[2].State() == selection.Fine, name)
			})
		}
	}
}
