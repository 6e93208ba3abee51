package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

func TestIndicesAreKnownWhereTheyAreNamed(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	cfg := config.Default()
	cfg.Upstream.URLs = []string{upstream.URL}
	cfg.Listen, cfg.Admin.Listen, cfg.Limits.DrainDelay = "127.0.0.1:0", "127.0.0.1:0", 0
	a, err := New(cfg, Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(t.Context())) })
	none := a.current.Load()
	require.Nil(t, none.indices)

	cfg.Bulk.SingleShard = []config.SingleShard{{Index: "logs-*"}}
	require.NoError(t, a.Reload(cfg))
	named := a.current.Load()
	require.NotSame(t, none, named)
	require.NotNil(t, named.indices)
	require.NoError(t, a.Reload(cfg))
	require.Same(t, named, a.current.Load(), "nothing has changed")

	cfg.Bulk.SingleShard = []config.SingleShard{}
	require.NoError(t, a.Reload(cfg))
	require.Nil(t, a.current.Load().indices)
}
