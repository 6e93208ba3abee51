package relay

import (
	"net/http"
	"strings"
	"testing"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// What stands in for a relay may answer all with 200, as a proxy with a page of its own does. That must not end the process.
func TestUsesAreAnsweredWithAPage(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})} })
	relay := start(t, f, nil)
	at := newAddress(t)
	at.use(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, usesPage) {
			relay.server.ServeHTTP(w, r)
		}
	}))
	w, _ := follow(t, f, at, nil)
	w.Resolves("a", "", []string{"n1"})
	w.Options().Source.Use(t.Context(), []string{"a"})
	w.Eventually("it is counted as a failure", func() bool { return w.Metric("sidestep_cluster_polls_total", "relay", "failed") > 0 })
}
