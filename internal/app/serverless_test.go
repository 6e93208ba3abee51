package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
)

// Elasticsearch serverless shows no shards: everything passes as it came, is
// answered as directly, and the reason is counted.
func TestServerlessPasses(t *testing.T) {
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 2, Engine: simcluster.Elasticsearch, Serverless: true, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	cfg := settings(c.URLs()[0])
	cfg.Upstream.Discovery = "sniff"
	cfg.Routing.When = "always"
	s := startReady(t, cfg, nil)

	for path, reason := range map[string]string{
		"/logs/_search?size=1":       "unsupported_index",
		"/lo*/_search":               "unsupported_index",
		"/_search":                   "unsupported_index",
		"/logs/_count":               "unsupported_index",
		"/logs/_search?preference=s": "unsupported_index",
		"/_cat/shards":               "not_steerable",
		"/_nodes/http":               "not_steerable",
	} {
		got := s.get(s.dataURL(path), "X-Sidestep-Explain", "1")
		want := s.get(c.URLs()[0] + path)
		require.Equal(t, want.status, got.status, path)
		require.Contains(t, got.header.Get("X-Sidestep-Decision"), "reason="+reason+";", path)
		if want.status != http.StatusOK {
			require.Equal(t, http.StatusGone, want.status, path)
			require.Equal(t, want.body, got.body)
		}
	}
	require.Contains(t, s.log.String(), "no_shards_api")
	require.Equal(t, http.StatusOK, s.get(s.adminURL("/-/ready")).status)
}
