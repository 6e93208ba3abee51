package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/record"
)

const upgrading = "GET /idx HTTP/1.1\r\nHost: es\r\nConnection: Upgrade, X-Mine\r\nUpgrade: other\r\nX-Mine: 1\r\n\r\n"

// switching has the nodes speak another protocol: they say hello, repeat what they hear to its end, and say good bye.
func switching(h *harness) {
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		c, r, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\nX-Node: 1\r\n\r\nhello ")
		_, _ = io.Copy(c, r)
		_, _ = io.WriteString(c, " good bye")
	}
}

// A node that switches protocols gets what the client sends from then on, and the client what the node sends, each to its
// end, and what comes together with the heads, too.
func TestAnUpgrade(t *testing.T) {
	h, l := recording(t, 2, record.Rules{}, nil)
	h.proxy.o.WriteTimeout = 50 * time.Millisecond // of answers
	switching(h)
	c := h.dial()
	_, err := io.WriteString(c, upgrading+"early ")
	require.NoError(t, err)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	require.Equal(t, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"other"}, "X-Node": {"1"}}, resp.Header)
	time.Sleep(100 * time.Millisecond)
	_, err = io.WriteString(c, "late")
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "hello early late good bye", string(got))
	one := l.one(t)
	require.Equal(t, "ok", one.Outcome)
	require.Equal(t, http.StatusSwitchingProtocols, one.Status)
	seen := h.seen()[0].header
	require.Equal(t, []string{"Upgrade"}, seen["Connection"])
	require.Equal(t, []string{"other"}, seen["Upgrade"])
	require.Empty(t, seen["X-Mine"])
}

// The connection to a client ends with that to its node, and the other way round.
func TestAnUpgradeThatBreaksOff(t *testing.T) {
	h, l := recording(t, 1, record.Rules{}, nil)
	switching(h)
	c := h.dial()
	_, err := io.WriteString(c, upgrading)
	require.NoError(t, err)
	_, err = http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).SetLinger(0))
	require.NoError(t, c.Close())
	require.Equal(t, "ok", l.one(t).Outcome)

	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nhello")
			_ = c.(*net.TCPConn).SetLinger(0)
			time.Sleep(50 * time.Millisecond)
			_ = c.Close()
		}
	}
	c = h.dial()
	_, err = io.WriteString(c, upgrading)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, c)
	require.NoError(t, err)
}

// A node that switches protocols unasked is not understood.
func TestAnUpgradeUnasked(t *testing.T) {
	h := start(t, 1, nil)
	switching(h)
	resp, _ := h.do("POST", "/idx", "{}")
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
}
