package harness

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/machine"
)

// echo is a node that answers with what it was asked for.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "node "+r.URL.RequestURI())
})

// TestDelayStatistics would hang if anything but statistics waited.
func TestDelayStatistics(t *testing.T) {
	var late standIn
	late.delay.Store(int64(24 * time.Hour))
	handler := delayStatistics(echo, &late)
	ask := func(path string) string {
		answer := httptest.NewRecorder()
		ctx, cancel := context.WithCancel(t.Context())
		if statisticsPath.MatchString(path) {
			cancel() // the client leaves
		}
		defer cancel()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
		return answer.Body.String()
	}
	for _, path := range []string{"/products/_search", "/_nodes/_local/http", "/_nodes/http,os,thread_pool", "/stats/_search"} {
		require.Equal(t, "node "+path, ask(path))
	}
	for _, path := range []string{"/_nodes/stats", "/_nodes/_local/stats/thread_pool,indices", "/_nodes/_local/stats"} {
		require.Empty(t, ask(path), path)
	}
	late.delay.Store(0)
	require.Equal(t, "node /_nodes/stats", ask("/_nodes/stats"))
}

func TestFailSearches(t *testing.T) {
	failing := httptest.NewServer(failSearches(echo, []int{429, 503}))
	defer failing.Close()

	get := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, failing.URL+path, http.NoBody)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	for _, want := range []int{429, 503, 429} {
		status, body := get("/products/_search?size=0")
		require.Equal(t, want, status)
		require.JSONEq(t, `{"error":{"root_cause":[{"type":"rejected_execution_exception","reason":"rejected by a test"}],`+
			`"type":"rejected_execution_exception","reason":"rejected by a test"},"status":`+strconv.Itoa(want)+`}`, body)
	}
	status, body := get("/_nodes/_local/stats?x=1")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "node /_nodes/_local/stats?x=1", body)
}

func TestProcessGroup(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	var members []machine.Process
	require.Eventually(t, func() bool {
		var err error
		members, err = processGroup(cmd.Process.Pid)
		return err == nil && len(members) == 2
	}, 10e9, 10e6)
	require.True(t, slices.ContainsFunc(members, func(p machine.Process) bool { return p.PID == cmd.Process.Pid }), members)
}

func TestPortTaken(t *testing.T) {
	dir := t.TempDir()
	node := &Node{dir: dir}
	c := &Cluster{Nodes: []*Node{node}}
	require.False(t, c.portTaken(context.DeadlineExceeded), "no log yet")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o755))
	log := filepath.Join(dir, "logs", "stdout")
	require.NoError(t, os.WriteFile(log, []byte("fatal: out of memory"), 0o600))
	require.False(t, c.portTaken(context.DeadlineExceeded))
	require.NoError(t, os.WriteFile(log, []byte("BindHttpException; nested: BindException[Address already in use]"), 0o600))
	require.True(t, c.portTaken(context.DeadlineExceeded))
	require.True(t, (&Cluster{}).portTaken(syscall.EADDRINUSE))
}
