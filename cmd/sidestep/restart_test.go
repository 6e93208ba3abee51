package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
)

// traffic is that of clients which keep their connections and repeat nothing: 50 of
// them, each with 20 searches a second.
type traffic struct {
	address string
	asked   atomic.Int64
	clients sync.WaitGroup
	end     context.CancelFunc

	mu     sync.Mutex
	failed []error
}

const (
	trafficClients  = 50
	trafficInterval = 50 * time.Millisecond
)

func startTraffic(t *testing.T, address string) *traffic {
	t.Helper()
	f := &traffic{address: address}
	var ctx context.Context
	ctx, f.end = context.WithCancel(t.Context())
	for range trafficClients {
		f.clients.Go(func() {
			if err := f.client(ctx); err != nil {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.failed = append(f.failed, err)
			}
		})
	}
	t.Cleanup(f.stop)
	return f
}

func (f *traffic) stop() {
	f.end()
	f.clients.Wait()
}

// more waits until so many more searches have been answered.
func (f *traffic) more(t *testing.T, n int64) {
	t.Helper()
	until := f.asked.Load() + n
	require.Eventually(t, func() bool { return f.asked.Load() >= until || f.err() != nil }, 3*patience, 5*time.Millisecond)
	require.NoError(t, f.err())
}

func (f *traffic) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.failed...)
}

// client searches until ctx ends or a search fails.
func (f *traffic) client(ctx context.Context) error {
	tick := time.NewTicker(trafficInterval)
	defer tick.Stop()
	var conn net.Conn
	var reader *bufio.Reader
	for used := 0; ; used++ {
		select {
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
			return nil
		case <-tick.C:
		}
		if conn == nil {
			var err error
			if conn, err = new(net.Dialer).DialContext(context.WithoutCancel(ctx), "tcp", f.address); err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			reader, used = bufio.NewReader(conn), 0
		}
		closes, err := search(conn, reader)
		if err != nil {
			_ = conn.Close()
			return fmt.Errorf("search %d of a connection: %w", used, err)
		}
		f.asked.Add(1)
		if closes {
			_ = conn.Close()
			conn = nil
		}
	}
}

func search(conn net.Conn, reader *bufio.Reader) (closes bool, err error) {
	if _, err := io.WriteString(conn, "POST /logs/_search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		return false, err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false, errors.New(response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.Close, err
}

// inherit starts the binary as systemd does, with an open socket.
func inherit(t *testing.T, socket *os.File, args ...string) *process {
	t.Helper()
	return start(t, func(cmd *exec.Cmd) {
		// The shell's process becomes sidestep's.
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, cmd.Args...)
		cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=data")
		cmd.ExtraFiles = []*os.File{socket}
	}, args...)
}

// With an inherited socket clients that repeat nothing do not notice restarts.
func TestARestartRefusesNothing(t *testing.T) {
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes: 2, ServiceTime: time.Millisecond, Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 1, Replicas: 1}},
	})
	require.NoError(t, err)
	defer cluster.Stop()
	parent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer parent.Close()
	socket, err := parent.(*net.TCPListener).File()
	require.NoError(t, err)
	defer socket.Close()
	args := []string{
		"--config", file(t, "limits: {drain_delay: 2s}\nlog: {format: json}\n"), "--upstream", cluster.URLs()[0],
		"--listen", "127.0.0.1:1", "--admin", "127.0.0.1:0",
	}

	current := inherit(t, socket, args...)
	require.Equal(t, parent.Addr().String(), current.data)
	clients := startTraffic(t, parent.Addr().String())
	clients.more(t, 1000)
	for _, overlap := range []bool{false, true, false} {
		require.NoError(t, current.Process.Signal(syscall.SIGTERM))
		last := current
		if !overlap { // as systemctl restart: connections wait for the next process
			require.Equal(t, 0, last.exit())
		}
		current = inherit(t, socket, args...)
		if overlap {
			require.Equal(t, 0, last.exit())
		}
		clients.more(t, 1000)
	}
	clients.stop()
	require.NoError(t, clients.err())
	require.NoError(t, current.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, current.exit())
}

func TestInheritedFileThatIsNoSocket(t *testing.T) {
	plain, err := os.Open(file(t, ""))
	require.NoError(t, err)
	defer plain.Close()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary, "--upstream", "http://127.0.0.1:1")
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{plain}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 78, cmd.ProcessState.ExitCode(), "it does not get better by itself")
	require.Contains(t, string(out), "LISTEN_FDS: socket 1 of 1 (LISTEN_FD_3): is not a stream socket")
}

// SIGTERM waits for balancers; a second signal does not, nor does SIGINT.
func TestSignalsAndTheDrain(t *testing.T) {
	settings := file(t, "limits: {drain_delay: 1h}\nlog: {format: json}\n")
	for _, signals := range [][]syscall.Signal{{syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGTERM, syscall.SIGINT}, {syscall.SIGINT}} {
		p := launch(t, "--config", settings, "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		require.NoError(t, p.Process.Signal(signals[0]))
		p.await("stopping")
		for _, signal := range signals[1:] {
			status, why := p.get(p.admin + "/-/ready")
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Contains(t, why, "stopping")
			require.NoError(t, p.Process.Signal(signal))
		}
		require.Equal(t, 0, p.exit())
	}
}

// A supervisor may ask for a reload as soon as it has started the process.
func TestAReloadDuringTheStartIsNotItsEnd(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "sidestep.yaml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	write := func(before func()) {
		out, err := os.OpenFile(pipe, os.O_WRONLY, 0) // as soon as it is being read
		require.NoError(t, err)
		before()
		_, err = out.WriteString("listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\nupstream: {urls: ['http://127.0.0.1:1']}\nlog: {format: json}\n")
		require.NoError(t, err)
		require.NoError(t, out.Close())
	}
	p := &process{Cmd: exec.CommandContext(t.Context(), binary, "--config", pipe), t: t}
	stderr, err := p.StderrPipe()
	require.NoError(t, err)
	p.log = bufio.NewScanner(stderr)
	require.NoError(t, p.Start())
	write(func() { require.NoError(t, p.Process.Signal(syscall.SIGHUP)) })
	p.await("sidestep started")
	write(func() {})
	p.await("configuration reloaded")
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, p.exit())
}
