package app_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// One bound holds for the bodies of all requests, also of those that came before a reload, of whatever kind that is.
func TestBodiesOfBeforeAReloadCount(t *testing.T) {
	t.Parallel()
	cfg := settings(newUpstream(t).URL)
	cfg.Limits.HeldBody, cfg.Limits.HeldBodies = 64*config.KiB, 64*config.KiB
	s := startReady(t, cfg, nil)
	early, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.dataURL(""), "http://"))
	require.NoError(t, err)
	defer func() { _ = early.Close() }()
	_, err = io.WriteString(early, "POST /logs/_search HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 65500\r\n\r\n"+strings.Repeat(" ", 65_000))
	require.NoError(t, err)
	full := func() bool { // whatever of those before is still held is little
		reason, got := s.post("/logs/_search", `{"size":1}`+strings.Repeat(" ", 1000))
		require.Equal(t, http.StatusOK, got.status, got.body)
		return reason == "held_bodies_full"
	}
	s.eventually(full, "the early body is held")
	cfg.Limits.BodyTimeout++
	require.NoError(t, s.Reload(cfg))
	require.True(t, full(), "the cluster is polled as before")
	cfg.Routing.Clients++
	require.NoError(t, s.Reload(cfg))
	require.True(t, full(), "it is polled anew")

	require.NoError(t, early.Close())
	s.eventually(func() bool { return !full() }, "it is held no more")
	require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search")).status)
}
