package leg

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const switches = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello "

// A node that switches protocols has the connection speak that in both directions. It is not used again.
func TestSwitchingProtocols(t *testing.T) {
	eachKind(t, func(t *testing.T, secure *tls.Config) {
		n := start(t, secure, func(p *peer) {
			_, _ = p.request()
			p.say(switches)
			_, _ = io.Copy(p, p.r)
			p.say(" good bye")
		})
		p := n.pool(nil)
		m := get()
		m.Upgrade = true
		resp, err := p.Do(m)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		c := resp.Body.(interface {
			io.ReadWriteCloser
			CloseWrite() error
		})
		_, err = io.WriteString(c, "there")
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "hello there good bye", string(got))
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		require.Zero(t, p.kept())
		n.closed()
	})
}

// It ends when the message is aborted.
func TestAbortAfterSwitchingProtocols(t *testing.T) {
	n := start(t, nil, func(p *peer) {
		_, _ = p.request()
		p.say(switches)
		p.gone()
	})
	m, abort := abortable(get())
	m.Upgrade = true
	resp, err := n.pool(nil).Do(m)
	require.NoError(t, err)
	abort()
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
	require.NoError(t, resp.Body.Close())
	n.closed()
}
