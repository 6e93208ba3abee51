package app

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
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

// What the engine says of a name that is no index is about the indices behind it.
func TestAliasesAndDataStreamsAreLeftAlone(t *testing.T) {
	const body = `{"metadata":{"indices":{".ds-stream-000001":{"routing_num_shards":1024,"state":"open","aliases":["alias"]}}}}`
	for name, why := range map[string]bulk.Reason{"stream": bulk.ReasonNoCustomRouting, "alias": bulk.ReasonAlias} {
		index, err := parseIndex(name, []byte(body), nil)
		require.NoError(t, err)
		require.Equal(t, bulk.Index{Refused: why, RefusedRouted: why}, index)
	}
}

// What was written by slots can only be found while its size is known.
func TestAReloadKeepsSlotsThatWereWrittenTo(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	cfg := config.Default()
	cfg.Upstream.URLs = []string{upstream.URL}
	cfg.Listen, cfg.Admin.Listen, cfg.Limits.DrainDelay = "127.0.0.1:0", "127.0.0.1:0", 0
	cfg.Bulk.RoutingSize = []config.RoutingSize{{Index: "orders-*", Size: 2}}
	a, err := New(cfg, Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(t.Context())) })
	require.NotNil(t, a.current.Load().indices)
	sized := func(entries ...config.RoutingSize) config.Config {
		next := cfg
		next.Bulk.RoutingSize = entries
		return next
	}
	require.NoError(t, a.Reload(sized()), "nothing was written")
	require.NoError(t, a.Reload(cfg))
	a.books.KeepSize("orders-1", 2)
	for _, entries := range [][]config.RoutingSize{{}, {{Index: "orders-*", Size: 3}}, {{Index: "others", Size: 2}}} {
		require.ErrorContains(t, a.Reload(sized(entries...)), `documents of index "orders-1" were written with size 2`)
	}
	off := false
	require.NoError(t, a.Reload(sized(config.RoutingSize{Index: "orders-*", Size: 2, Writes: &off})))
	require.NoError(t, a.Reload(sized(config.RoutingSize{Index: "orders-1", Size: 2})))

	store := a.current.Load().store
	store.Discovered(cluster.Identity{ClusterUUID: "u"}, nil, nil)
	require.Error(t, a.Reload(sized()), "it is not known where any copy is")
	store.PlacedAll(time.Now(), &cluster.Placement{ClusterUUID: "u", Version: 1})
	require.NoError(t, a.Reload(sized()), "it was deleted")
}

// An index that only bulks name is in use: its placement is read when it moves, or shards in trouble would be looked for
// where they were.
func TestAnIndexThatBulksNameIsInUse(t *testing.T) {
	c, err := simcluster.Start(simcluster.Options{Nodes: 3, Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 3}}})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	cfg := config.Default()
	cfg.Upstream.URLs = c.URLs()
	cfg.Listen, cfg.Admin.Listen, cfg.Limits.DrainDelay = "127.0.0.1:0", "127.0.0.1:0", 0
	cfg.Bulk.SingleShard = []config.SingleShard{{Index: "logs"}}
	a, err := New(cfg, Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) }) // the last answer may just end
	// Of an index of which no copy is known nothing can be read: a bulk may be planned before.
	require.Eventually(t, func() bool { return a.Ready() == nil }, 30*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool {
		resp, err := http.Post("http://"+a.DataAddr().String()+"/logs/_bulk", "application/x-ndjson", strings.NewReader("{\"index\":{}}\n{}\n")) //nolint:noctx // a test
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return len(a.books.Used(time.Time{})) > 0
	}, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, []string{"logs"}, a.current.Load().store.NamesInUse())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
