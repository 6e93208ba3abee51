package app_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"sidestep/internal/app"
	"sidestep/internal/testkit"
)

// connection is a client's, which nothing repeats requests on.
type connection struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func connect(t *testing.T, s *sidestep) *connection {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.DataAddr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return &connection{conn, t, bufio.NewReader(conn)}
}

// ask makes a request that must be answered, and returns whether the answer closes
// the connection.
func (c *connection) ask() (closes bool) {
	c.t.Helper()
	c.send("/logs/_count")
	return c.answered()
}

func (c *connection) send(path string) {
	c.t.Helper()
	_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(c.t, err)
}

// answered reads an answer, see ask.
func (c *connection) answered() (closes bool) {
	c.t.Helper()
	response, err := http.ReadResponse(c.reader, nil)
	require.NoError(c.t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusOK, response.StatusCode)
	return response.Close
}

// ended waits until sidestep closes the connection.
func (c *connection) ended() {
	c.t.Helper()
	_, err := c.reader.ReadByte()
	require.ErrorIs(c.t, err, io.EOF)
}

// stopping begins a stop and returns where its end is told.
func stopping(t *testing.T, s *sidestep) <-chan error {
	t.Helper()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	require.Eventually(t, func() bool { return s.Ready() != nil }, patience, time.Millisecond)
	return stopped
}

func TestDrain(t *testing.T) {
	u := newUpstream(t)
	u.holding = make(chan struct{})
	cfg := settings(u.URL)
	cfg.Limits.DrainDelay = time.Hour // until it is skipped
	s := startReady(t, cfg, nil)
	old, idle, busy := connect(t, s), connect(t, s), connect(t, s)
	require.False(t, old.ask())
	require.False(t, idle.ask())
	busy.send("/held")
	<-u.arrived

	stopped := stopping(t, s)
	require.Equal(t, http.StatusServiceUnavailable, s.get(s.adminURL("/-/ready")).status)
	require.Equal(t, http.StatusServiceUnavailable, s.get(s.adminURL("/-/serving")).status)
	require.Equal(t, http.StatusOK, s.get(s.adminURL("/-/healthy")).status)
	require.True(t, old.ask(), "an answer closes its connection")
	old.ended()
	close(u.holding)
	require.True(t, busy.answered(), "also that to a request of before")
	require.True(t, connect(t, s).ask(), "new connections are taken")
	require.EqualError(t, s.Reload(cfg), "sidestep is stopping", "at once")
	select {
	case err := <-stopped:
		require.Fail(t, "stopped within the delay", err)
	default:
	}

	require.True(t, s.SkipDrain())
	require.False(t, s.SkipDrain(), "once")
	require.NoError(t, <-stopped)
	idle.ended()
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.DataAddr().String())
	require.ErrorContains(t, err, "connection refused")
}

func TestDrainEndsByItself(t *testing.T) {
	t.Parallel()
	cfg := settings(newUpstream(t).URL)
	cfg.Limits.DrainDelay = 10 * time.Millisecond
	s := startReady(t, cfg, nil)
	idle := connect(t, s)
	require.False(t, idle.ask())
	require.NoError(t, <-stopping(t, s))
	idle.ended()
	require.False(t, s.SkipDrain(), "it has passed")
}

// net/http waits five seconds for the first request of a connection, which it would not answer any more.
func TestAStopDoesNotWaitForConnectionsThatAreNotUsed(t *testing.T) {
	t.Parallel()
	trusted := newAuthority(t)
	for _, name := range []string{"plain", "TLS"} {
		t.Run(name, func(t *testing.T) {
			cfg := settings(newUpstream(t).URL)
			cfg.Limits.ShutdownGrace = 4 * time.Second
			if name == "TLS" {
				cfg.ListenTLS.CertFile, cfg.ListenTLS.KeyFile = trusted.files(t.TempDir(), "data")
			}
			s := startReady(t, cfg, nil)
			unused := connect(t, s)
			if name == "TLS" { // so that it is taken before
				_, err := ask(t, tlsClient(t, trusted), "GET https://"+s.DataAddr().String()+"/", "")
				require.NoError(t, err)
			} else {
				require.False(t, connect(t, s).ask())
			}
			require.NoError(t, s.Stop(context.Background()))
			unused.ended()
		})
	}
}

// An HTTP/2 connection in use is given up with the first answer of the drain; what is
// under way on it is finished.
func TestDrainOfHTTP2(t *testing.T) {
	u := newUpstream(t)
	u.holding = make(chan struct{})
	cfg := settings(u.URL)
	cfg.Limits.DrainDelay = time.Hour
	s := startReady(t, cfg, nil)
	s.client = h2Client(t, nil)
	answers := held(t, s, u)
	stopped := stopping(t, s)

	reused := func() (reused bool) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.dataURL("/logs/_count"), http.NoBody)
		require.NoError(t, err)
		response, err := s.client.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.NotContains(t, response.Header, "Connection")
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		return reused
	}
	require.True(t, reused())
	require.Eventually(t, func() bool { return !reused() }, patience, time.Millisecond, "no GOAWAY")
	require.True(t, s.SkipDrain())
	close(u.holding)
	require.Equal(t, "released", (<-answers).body)
	require.NoError(t, <-stopped)
}

// A connection that is idle all the time is given up at the end of the drain, and told.
func TestDrainOfIdleHTTP2(t *testing.T) {
	t.Parallel()
	cfg := settings(newUpstream(t).URL)
	cfg.Limits.DrainDelay = 10 * time.Millisecond
	s := startReady(t, cfg, nil)
	c := connect(t, s)
	_, err := io.WriteString(c, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(c, c.reader)
	require.NoError(t, framer.WriteSettings())
	stopped := stopping(t, s)
	for {
		frame, err := framer.ReadFrame()
		require.NoError(t, err)
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			require.Equal(t, http2.ErrCodeNo, away.ErrCode)
			break
		}
	}
	require.NoError(t, <-stopped)
}

func TestInheritedSocketOutlivesSidestep(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	parent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer parent.Close()
	for range 2 {
		file, err := parent.(*net.TCPListener).File()
		require.NoError(t, err)
		inherited, err := net.FileListener(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		s := &sidestep{t: t, log: &testkit.Log{}, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
		s.App, err = app.New(settings(u.URL), app.Options{
			Logger: slog.New(slog.NewTextHandler(s.log, nil)), Sockets: app.Sockets{Data: inherited},
		})
		require.NoError(t, err)
		waiting, err := new(net.Dialer).DialContext(t.Context(), "tcp", parent.Addr().String())
		require.NoError(t, err, "the socket takes connections without sidestep")
		require.NoError(t, s.Start(t.Context()))
		require.Equal(t, parent.Addr().String(), s.DataAddr().String())
		require.NotEqual(t, s.DataAddr().String(), s.AdminAddr().String())
		require.Contains(t, s.log.String(), "key=listen address="+parent.Addr().String()+" configured=127.0.0.1:0")
		early := &connection{waiting, t, bufio.NewReader(waiting)}
		require.False(t, early.ask())
		require.NoError(t, s.Stop(context.Background()))
		early.ended()
		require.NoError(t, waiting.Close())
	}
}
