package app_test

import (
	"io"
	"net"
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
		"nothing": "", "part of a line": "GET /idx HT", "part of the headers": "GET /idx HTTP/1.1\r\nHost: es\r\nX-A",
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
