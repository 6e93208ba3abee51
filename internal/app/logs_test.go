package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/app"
	"sidestep/internal/config"
)

// lines returns the lines of a log, which may not be there yet.
func lines(t *testing.T, file string) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			continue // it is being written
		}
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		all = append(all, one)
	}
	return all
}

func awaitLines(t *testing.T, file string, n int) []map[string]any {
	t.Helper()
	require.Eventually(t, func() bool { return len(lines(t, file)) == n }, patience, 5*time.Millisecond, "%d lines in %s", n, file)
	return lines(t, file)
}

func TestLogsOfRequests(t *testing.T) {
	dir := t.TempDir()
	access, slow := filepath.Join(dir, "access.log"), filepath.Join(dir, "slow.log")
	cfg := settings(newUpstream(t).URL)
	cfg.Logs.Access.Output, cfg.Logs.Slow.Output, cfg.Logs.Slow.Threshold = access, slow, time.Nanosecond
	s := startReady(t, cfg, nil)
	require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search?q=secret"), "X-Opaque-Id", "job-7").status)

	line := awaitLines(t, access, 1)[0]
	require.Equal(t, []any{"INFO", "request", "/logs/_search", "search", "job-7"}, []any{line["level"], line["msg"], line["path"], line["operation"], line["x_opaque_id"]})
	require.NotContains(t, line, "decision")
	line = awaitLines(t, slow, 1)[0]
	require.Equal(t, []any{"WARN", "slow request"}, []any{line["level"], line["msg"]})
	require.Len(t, line["decision"].(map[string]any)["candidates"], 2)

	var page struct {
		Slow []struct {
			Target   string   `json:"target"`
			Kept     []string `json:"kept"`
			Decision struct {
				Reason string `json:"reason"`
			} `json:"decision"`
		} `json:"slow"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.get(s.adminURL("/slow")).body), &page))
	require.Len(t, page.Slow, 1)
	require.Equal(t, []any{"logs", []string{"slow"}}, []any{page.Slow[0].Target, page.Slow[0].Kept})
	require.NotEmpty(t, page.Slow[0].Decision.Reason)
	for _, file := range []string{access, slow} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret")
	}
}

// What logrotate does: it moves the file away and sends SIGHUP. That must do with a
// configuration that is not taken, too.
func TestAReloadOpensLogsAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	cfg := settings(newUpstream(t).URL)
	cfg.Logs.Access.Output = file
	broken := cfg
	broken.Routing.Mode = "nonsense"
	s := startReady(t, cfg, func() (config.Config, error) { return broken, nil })
	s.get(s.dataURL("/logs/_search"))
	awaitLines(t, file, 1)
	require.NoError(t, os.Rename(file, file+".1"))
	require.Error(t, s.ReloadConfig())
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, patience, 5*time.Millisecond)
	s.get(s.dataURL("/logs/_count"))
	require.Equal(t, "count", awaitLines(t, file, 1)[0]["operation"])
	awaitLines(t, file+".1", 1)
}

// A reload begins and ends logs, keeps what is kept, and replaces no pipeline for it.
func TestAReloadMovesLogs(t *testing.T) {
	dir := t.TempDir()
	cfg := settings(newUpstream(t).URL)
	cfg.Logs.Slow.Threshold = time.Nanosecond
	s := startReady(t, cfg, nil)
	s.get(s.dataURL("/logs/_search"))
	next := cfg
	next.Logs.Access.Output, next.Logs.Slow.Threshold = filepath.Join(dir, "one.log"), time.Hour
	require.NoError(t, s.Reload(next))
	s.get(s.dataURL("/logs/_search"))
	awaitLines(t, next.Logs.Access.Output, 1)
	next.Logs.Access.Output = filepath.Join(dir, "two.log")
	require.NoError(t, s.Reload(next))
	s.get(s.dataURL("/logs/_count"))
	awaitLines(t, next.Logs.Access.Output, 1)
	awaitLines(t, filepath.Join(dir, "one.log"), 1)
	next.Routing.Clients = 3 // another pipeline
	require.NoError(t, s.Reload(next))
	require.Equal(t, 1, strings.Count(s.get(s.adminURL("/slow")).body, `"kept":["slow"]`))
	s.get(s.dataURL("/logs/_search"))
	awaitLines(t, next.Logs.Access.Output, 2)

	bad := next
	bad.Logs.Slow.Output = dir
	require.ErrorContains(t, s.Reload(bad), "logs.slow.output")
	bad.Logs.Slow.Output, bad.Logs.Access.Output = filepath.Join(dir, "new.log"), "/proc/version/none"
	require.ErrorContains(t, s.Reload(bad), "logs.access.output")
	s.get(s.dataURL("/logs/_search"))
	awaitLines(t, next.Logs.Access.Output, 3)
}

func TestALogThatCannotBeOpenedStartsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	require.NoError(t, os.Symlink(filepath.Join("none", "at-all"), file)) // dangling: its folder is there
	cfg := settings("http://127.0.0.1:1")
	cfg.Logs.Access.Output = file
	a, err := app.New(cfg, app.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, a.Start(t.Context()), "logs.access.output: open the access log")
	require.Nil(t, a.DataAddr())
	require.NoError(t, a.Stop(context.Background()))
}

// The last requests before a stop are in the log.
func TestAStopWritesWhatWaits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.log")
	cfg := settings(newUpstream(t).URL)
	cfg.Logs.Access.Output = file
	s := startReady(t, cfg, nil)
	const requests = 50
	for range requests {
		s.get(s.dataURL("/logs/_search"))
	}
	require.NoError(t, s.Stop(t.Context()))
	require.Len(t, lines(t, file), requests)
}
