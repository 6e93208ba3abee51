package app_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

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
		got, err := ask(t, s.client, "POST "+s.dataURL("/logs/_search"), `{"size":1}`+strings.Repeat(" ", 1000), "X-Sidestep-Explain", "1")
		return assertServed(t, got, err) && strings.Contains(got.header.Get("X-Sidestep-Decision"), "held_bodies_full")
	}
	require.Eventually(t, full, patience, time.Millisecond)
	cfg.Limits.BodyTimeout++
	require.NoError(t, s.Reload(cfg))
	require.True(t, full(), "the cluster is polled as before")
	cfg.Routing.Clients++
	require.NoError(t, s.Reload(cfg))
	require.True(t, full(), "it is polled anew")

	require.NoError(t, early.Close())
	require.Eventually(t, func() bool { return !full() }, patience, time.Millisecond)
	require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search")).status)
}
