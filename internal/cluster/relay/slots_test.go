package relay

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// While the cluster does not answer look-ups, reports are told all the same: else a whole fleet would begin to poll a cluster in
// trouble.
func TestLookUpsThatWaitKeepNoReaderFromReports(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	targets := make([]string, 3*lookUpsAtOnce)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})}
		for i := range targets {
			targets[i] = fmt.Sprintf("alias-%d", i)
		}
	})
	f.On(func(_ *clustertest.Node, _ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/_search_shards") {
			return false
		}
		clustertest.Hang(r)
		return true
	})
	w := start(t, f, nil)
	w.Eventually("the relay is ready", func() bool { return w.Ready() == nil })
	w.server.readers = make(chan struct{}, 1)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{}, len(targets))
	for _, target := range targets {
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/snapshot/target?version=1&about=shards&expression="+target, http.NoBody)
			w.server.ServeHTTP(httptest.NewRecorder(), r)
			done <- struct{}{}
		}()
	}
	w.Eventually("all ask", func() bool { return len(w.server.askers) == len(targets) })
	recorder := httptest.NewRecorder()
	w.server.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/snapshot?version=1", http.NoBody))
	require.Equal(t, http.StatusOK, recorder.Code, recorder.Body)
	leave()
	for range targets {
		<-done // though look-ups hang
	}
	require.Empty(t, w.server.askers)
}
