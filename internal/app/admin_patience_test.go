package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// A client of the admin listener that does not read its answers is dropped, and so is one that does not send what it
// announced. The stream of events, which has deadlines of its own, goes on.
func TestAdminClientsMustReadAndSend(t *testing.T) {
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Upstream.URLs = []string{"http://127.0.0.1:1"}
	a, err := New(cfg, Options{})
	require.NoError(t, err)
	require.Equal(t, adminPatience, a.admin.server.WriteTimeout)
	require.Equal(t, adminPatience, a.admin.server.ReadTimeout)
	a.admin.server.ReadTimeout, a.admin.server.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	require.NoError(t, a.Start(t.Context()))
	defer func() {
		a.SkipDrain()
		require.NoError(t, a.Stop(context.Background()))
	}()
	dial := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", a.AdminAddr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		return c
	}
	listens := dial()
	defer listens.Close()
	_, err = io.WriteString(listens, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	lines := bufio.NewScanner(listens)
	for events := 0; events < 3; {
		require.True(t, lines.Scan(), lines.Err())
		if strings.HasPrefix(lines.Text(), "event:") {
			events++
		}
	}
	stuck := dial()
	defer stuck.Close()
	for err == nil { // it is closed on the other side
		_, err = io.WriteString(stuck, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	for _, line := range []string{"PUT /-/routing", "GET /status"} {
		slow := dial()
		t.Cleanup(func() { _ = slow.Close() })
		_, err = io.WriteString(slow, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n{")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, slow)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, line)
	}
}
