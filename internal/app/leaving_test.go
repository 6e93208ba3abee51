package app

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/rawsocket"
)

// connOf is the key of the connection in the context of its requests.
type connOf struct{}

// watchedClient is a connection to a server whose connections are patient, and what its
// handler does with each request. told says that the system tells when the client leaves; else
// the server watches, as on systems where that cannot be had.
func watchedClient(t *testing.T, told bool, handle http.HandlerFunc) (net.Conn, *bufio.Reader) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: handle, ReadHeaderTimeout: time.Minute, ConnState: settleLast, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(withConnection(ctx, c), connOf{}, c)
	}}
	var hangups *rawsocket.Hangups // nil: the server watches
	if told {
		hangups, err = rawsocket.NewHangups()
		require.True(t, err == nil || errors.Is(err, errors.ErrUnsupported), err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(&patientListener{Listener: l, hangups: hangups, stopping: t.Context()})
	}()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = server.Close()
		<-served
		_ = hangups.Close()
	})
	return conn, bufio.NewReader(conn)
}

const (
	getRequest  = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	postRequest = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
)

func TestARequestEndsWhenItsClientLeaves(t *testing.T) {
	for name, told := range map[string]bool{"told by the system": true, "watched by the server": false} {
		for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
			t.Run(name+" after "+wait.String(), func(t *testing.T) { requestEnds(t, told, wait) })
		}
	}
}

// requestEnds lets clients leave in several ways after they have waited.
func requestEnds(t *testing.T, told bool, wait time.Duration) {
	t.Helper()
	for name, leave := range map[string]func(*net.TCPConn) error{
		"closes":    (*net.TCPConn).Close,
		"half":      (*net.TCPConn).CloseWrite,
		"resets it": func(c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() },
	} {
		for _, request := range []string{getRequest, postRequest} {
			t.Run(name+" after "+request[:4], func(t *testing.T) {
				begun, ended := make(chan struct{}), make(chan error)
				conn, _ := watchedClient(t, told, func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					close(begun)
					<-r.Context().Done()
					ended <- context.Cause(r.Context())
				})
				_, err := io.WriteString(conn, request)
				require.NoError(t, err)
				<-begun
				time.Sleep(wait)
				require.NoError(t, leave(conn.(*net.TCPConn)))
				require.ErrorIs(t, <-ended, context.Canceled)
			})
		}
	}
}

// The client has left before its second request is read: that request ends, too, once nothing is
// left to be read.
func TestARequestEndsWhoseClientLeftBefore(t *testing.T) {
	begun, ended, first := make(chan struct{}), make(chan error), make(chan struct{})
	served := 0
	conn, _ := watchedClient(t, true, func(_ http.ResponseWriter, r *http.Request) {
		if served++; served == 1 {
			close(begun)
			<-first
			return
		}
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	})
	_, err := io.WriteString(conn, getRequest)
	require.NoError(t, err)
	<-begun
	_, err = io.WriteString(conn, getRequest)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	close(first)
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Watching ends when the request is answered. What the client sent meanwhile is the next
// request.
func TestWatchingTakesNothingFromAConnection(t *testing.T) {
	conn, reader := watchedClient(t, true, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			time.Sleep(50 * time.Millisecond)
		}
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusGone)
		}
	})
	for _, sent := range [][]string{
		{getRequest}, {postRequest}, {postRequest}, {getRequest, postRequest}, {postRequest, getRequest}, {postRequest, postRequest}, {getRequest},
	} {
		_, err := io.WriteString(conn, strings.Join(sent, ""))
		require.NoError(t, err)
		for range sent {
			resp, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
		}
	}
	// A request that comes while the connection is watched ends the watching.
	_, err := io.WriteString(conn, postRequest)
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	_, err = io.WriteString(conn, getRequest)
	require.NoError(t, err)
	for range 2 {
		resp, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
}

// A client that has left is found out when it is looked for, before it is watched.
func TestAClientThatHasLeftIsFoundWhenLookedFor(t *testing.T) {
	type look func() bool
	begun, end := make(chan look), make(chan struct{})
	serve := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		c := patientOf(r.Context().Value(connOf{}).(net.Conn))
		begun <- func() bool { return c.Left() || r.Context().Err() != nil }
		<-end
	}
	for _, request := range []string{getRequest, postRequest} {
		conn, reader := watchedClient(t, true, serve)
		for range 2 {
			_, err := io.WriteString(conn, request)
			require.NoError(t, err)
			left := <-begun
			require.False(t, left())
			end <- struct{}{}
			resp, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		_, err := io.WriteString(conn, request)
		require.NoError(t, err)
		left := <-begun
		require.NoError(t, conn.Close())
		require.Eventually(t, left, time.Minute, time.Millisecond)
		end <- struct{}{}
	}
}

// A connection that was upgraded belongs to its handler: a client that closes its side of it
// goes on reading.
func TestAnUpgradedConnectionIsNotWatched(t *testing.T) {
	hijacked := make(chan struct{})
	conn, reader := watchedClient(t, true, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		close(hijacked)
		if err != nil {
			return
		}
		var sent strings.Builder
		_, _ = io.Copy(&sent, c)
		time.Sleep(50 * time.Millisecond)
		if r.Context().Err() == nil {
			_, _ = io.WriteString(c, sent.String())
		}
		_ = c.Close()
	})
	_, err := io.WriteString(conn, getRequest)
	require.NoError(t, err)
	<-hijacked // what comes before is in the server's buffer
	_, err = io.WriteString(conn, "the client's part")
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, "the client's part", string(got))
}

// With TLS the last read of the handshake may bring the first request: no read of its own tells of it. A stop must not
// close its connection.
func TestARequestThatComesWithTheHandshakeHasBegun(t *testing.T) {
	kept := false
	c := &patientConn{secure: true, keep: func() bool { kept = true; return true }}
	require.NoError(t, c.SetReadDeadline(time.Time{}), "the server clears it after the handshake")
	settleLast(c, http.StateActive)
	require.True(t, kept)
}
