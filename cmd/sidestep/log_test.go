package main_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	simcluster "sidestep/internal/sim/cluster"
)

// watched is a running sidestep. The test reads its log, or does not.
type watched struct {
	*process
	cluster *simcluster.Cluster
	config  string
	reader  *os.File // of the log, after its first line
}

func launchWatched(t *testing.T) *watched {
	t.Helper()
	cluster, err := simcluster.Start(simcluster.Options{Nodes: 2, Indices: []simcluster.IndexSpec{{Name: "logs", Replicas: 1}}})
	require.NoError(t, err)
	t.Cleanup(cluster.Stop)
	w := &watched{cluster: cluster}
	w.config = file(t, settings("observe", cluster))
	var stderr *os.File
	w.reader, stderr, err = os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.reader.Close() })
	_, err = unix.FcntlInt(stderr.Fd(), unix.F_SETPIPE_SZ, 4096)
	require.NoError(t, err)
	w.process = &process{Cmd: exec.CommandContext(t.Context(), binary, "--config", w.config), t: t, log: bufio.NewScanner(w.reader)}
	w.Stderr = stderr
	require.NoError(t, w.Start())
	require.NoError(t, stderr.Close())
	started := w.await("sidestep started")
	w.data, w.admin = started["data"].(string), started["admin"].(string)
	w.awaitReady()
	return w
}

// reload has the configuration read again with another mode, and waits until it is in force, or refused: one
// after the other, as the metrics tell of the last.
func (w *watched) reload(mode string) {
	w.t.Helper()
	before := w.reloads()
	require.NoError(w.t, os.WriteFile(w.config, []byte(settings(mode, w.cluster)), 0o600))
	require.NoError(w.t, w.Process.Signal(syscall.SIGHUP))
	require.Eventually(w.t, func() bool { return w.reloads() != before }, patience, time.Millisecond)
}

// reloads is what the metrics tell of them.
func (w *watched) reloads() string {
	w.t.Helper()
	_, metrics := w.get(w.admin + "/metrics")
	var told []string
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "sidestep_config_last_reload") {
			told = append(told, line)
		}
	}
	return strings.Join(told, "")
}

// A pipe that the log goes to breaks as soon as its reader ends: `sidestep 2>&1 | tee`, a log shipper.
func TestTheReaderOfTheLogEnds(t *testing.T) {
	w := launchWatched(t)
	require.NoError(t, w.reader.Close())
	for _, mode := range []string{"route", "fastest", "observe"} {
		w.reload(mode)
		status, _ := w.get(w.data + "/logs/_search")
		require.Equal(t, http.StatusOK, status)
	}
	require.NoError(t, w.Process.Signal(syscall.SIGTERM))
	require.NoError(t, w.Wait())
}

// A reader that stands still keeps nobody waiting, also where a request is logged.
func TestTheReaderOfTheLogStandsStill(t *testing.T) {
	w := launchWatched(t)
	for range 20 { // more than the pipe holds
		w.reload("fastest")
		w.reload("route")
	}
	w.cluster.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.data+"/logs/_search", http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.GreaterOrEqual(t, response.StatusCode, http.StatusInternalServerError)
	}
	read := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(w.reader)
		read <- all
	}()
	require.NoError(t, w.Process.Signal(syscall.SIGTERM))
	require.NoError(t, w.Wait())
	all := <-read
	require.Equal(t, 20, bytes.Count(all, []byte("configuration not reloaded")), "what waited is written as soon as it is read")
	require.Contains(t, string(all), `"msg":"stopped"`)
}
