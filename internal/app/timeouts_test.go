package app_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

const headerTimeout = 50 * time.Millisecond

func brief(cfg *config.Config) { cfg.Limits.ReadHeaderTimeout = headerTimeout }

// Who does not finish the head of a request is cut off.
func TestHeadMustComeInTime(t *testing.T) {
	w := startWire(t, brief)
	for name, head := range map[string]string{
		"part of a line": "GET /idx HT", "part of the headers": "GET /idx HTTP/1.1\r\nHost: es\r\nX-A",
		"part of the preface of HTTP/2": preface[:20],
	} {
		t.Run(name, func(t *testing.T) {
			c := w.dial()
			c.send(head)
			got, err := c.read("GET")
			if err == nil { // some are told
				require.Regexp(t, `^HTTP/1\.1 4\d\d `, got)
				_, err = c.read("GET")
			}
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		})
	}
	require.Empty(t, w.requests)
}

// Neither an idle connection nor a slow body or answer has such a limit.
func TestNothingElseMustComeInTime(t *testing.T) {
	w := startWire(t, brief)
	slowly := func(c net.Conn) {
		for i := range len(okAnswer) {
			time.Sleep(headerTimeout / 10)
			_, _ = io.WriteString(c, okAnswer[i:i+1])
		}
	}
	c := w.dial()
	for _, answer := range []func(net.Conn){nil, slowly} {
		w.upstreamDoes(okAnswer, nil, answer)
		c.send("POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 4\r\n\r\na")
		for _, part := range []string{"b", "c", "d"} {
			time.Sleep(headerTimeout)
			c.send(part)
		}
		got, err := c.read("POST")
		require.NoError(t, err)
		require.Equal(t, okAnswer, got)
		require.Equal(t, "abcd", parse(t, <-w.requests).body)
		time.Sleep(3 * headerTimeout) // idle
	}
	client := h2Client(t, nil)
	for range 2 {
		w.upstreamDoes(okAnswer, nil, slowly)
		got, err := ask(t, client, "GET "+w.sidestep.dataURL("/idx"), "")
		require.NoError(t, err)
		require.Equal(t, "ok", got.body)
		time.Sleep(3 * headerTimeout)
	}
}

// A connection may be opened long before its first request: the engines wait for
// ever. What has begun must come in time, also after a handshake.
func TestUnusedConnectionsStay(t *testing.T) {
	trusted := newAuthority(t)
	plain := func(w *wire) net.Conn { return w.dial() }
	secure := func(w *wire) net.Conn {
		for end := time.Now().Add(patience); ; { // a busy machine may take longer for a handshake than it may take
			c := tls.Client(w.dial(), &tls.Config{RootCAs: trusted.pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
			err := c.HandshakeContext(t.Context())
			if err == nil {
				return c
			}
			require.True(t, time.Now().Before(end), err)
		}
	}
	for name, open := range map[string]func(*wire) net.Conn{"plain": plain, "TLS": secure} {
		t.Run(name, func(t *testing.T) {
			w := startWire(t, func(cfg *config.Config) {
				brief(cfg)
				if name == "TLS" {
					cfg.ListenTLS.CertFile, cfg.ListenTLS.KeyFile = trusted.files(t.TempDir(), "data")
				}
			})
			unused, slow := open(w), open(w)
			time.Sleep(5 * headerTimeout)
			_, err := io.WriteString(unused, "POST /idx/_search HTTP/1.1\r\nHost: es\r\nContent-Length: 2\r\n\r\n{}")
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(unused), nil)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode)

			_, err = io.WriteString(slow, "POST /idx/_search HT")
			require.NoError(t, err)
			require.NoError(t, slow.SetReadDeadline(time.Now().Add(patience)))
			rest, err := io.ReadAll(slow)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Regexp(t, `^(HTTP/1\.1 4\d\d |$)`, string(rest), "some are told")
		})
	}
	t.Run("TLS without a handshake", func(t *testing.T) {
		w := startWire(t, func(cfg *config.Config) {
			brief(cfg)
			cfg.ListenTLS.CertFile, cfg.ListenTLS.KeyFile = trusted.files(t.TempDir(), "data")
		})
		c := w.dial()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

// A connection on which another protocol is spoken has no such limit, either, and each side ends its own part.
func TestAnUpgradedConnectionHasNoLimit(t *testing.T) {
	const timeout = 300 * time.Millisecond
	w := startWire(t, func(cfg *config.Config) { cfg.Limits.ReadHeaderTimeout = timeout })
	w.upstreamDoes("", nil, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nhello ")
		_, _ = io.Copy(c, c)
		_, _ = io.WriteString(c, "good bye")
	})
	c := w.dial()
	c.send("GET /idx HTTP/1.1\r\nHost: es\r\n")
	time.Sleep(timeout / 10)
	c.send("Connection: Upgrade\r\nUpgrade: other\r\n\r\n") // what is read second has a deadline
	response, err := http.ReadResponse(c.r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	for range 3 {
		time.Sleep(timeout)
		c.send("there ")
	}
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(c.r)
	require.NoError(t, err)
	require.Equal(t, "hello there there there good bye", string(got))
}
