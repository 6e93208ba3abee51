package app

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// Connections to a relay are used again, also after as many questions at once as a sidecar has: else each look-up of its
// targets would be a few TLS handshakes, times the sidecars.
func TestConnectionsToTheRelayAreKept(t *testing.T) {
	t.Parallel()
	const atOnce = 5 // a report, what is searched, and three look-ups
	var opened atomic.Int64
	arrived, release := make(chan struct{}), make(chan struct{})
	relay := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	relay.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	relay.Start()
	t.Cleanup(relay.Close)
	cfg := config.Default()
	cfg.Upstream.URLs, cfg.Cluster.Source.URL = []string{"http://127.0.0.1:9200"}, relay.URL+"/snapshot"
	require.NoError(t, cfg.Validate())
	o, err := relayOptions(needsOf(cfg), &rotation{logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(o.Client.CloseIdleConnections)
	for range 5 {
		var asked sync.WaitGroup
		for range atOnce {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, relay.URL, http.NoBody)
			require.NoError(t, err)
			asked.Go(func() {
				resp, err := o.Client.Do(r)
				if assert.NoError(t, err) {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		for range atOnce {
			<-arrived
		}
		for range atOnce {
			release <- struct{}{}
		}
		asked.Wait()
	}
	require.EqualValues(t, atOnce, opened.Load())
}
