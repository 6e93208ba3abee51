package main_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/app"
	"sidestep/internal/config"
	"sidestep/internal/proxy"
	simcluster "sidestep/internal/sim/cluster"
)

// stage is a sidestep in this process, before a simulated cluster.
type stage struct {
	*app.App
	cluster *simcluster.Cluster
}

func newStage(t *testing.T) *stage {
	t.Helper()
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes: 3, Adaptive: true, Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1, Aliases: []string{"all-logs"}}},
	})
	require.NoError(t, err)
	t.Cleanup(cluster.Stop)
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Upstream.URLs = cluster.URLs()
	sidestep, err := app.New(cfg, app.Options{Version: "1.2.3"})
	require.NoError(t, err)
	require.NoError(t, sidestep.Start(t.Context()))
	sidestep.SkipDrain()
	t.Cleanup(func() { require.NoError(t, sidestep.Stop(context.Background())) })
	s := &stage{sidestep, cluster}
	require.Eventually(t, func() bool { return sidestep.Ready() == nil }, patience, 5*time.Millisecond)
	return s
}

// search sends one search through sidestep.
func (s *stage) search(t *testing.T) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.DataAddr().String()+"/logs/_search", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// command runs the binary and returns what it printed and its exit code.
func (s *stage) command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), "SIDESTEP_ADMIN="+s.AdminAddr().String())
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the code tells
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestAdminCommandsWithoutSidestep(t *testing.T) {
	const address = "127.0.0.1:1" // a port that was free a moment ago may be another test's by now
	for _, args := range [][]string{{"top"}, {"top", "--once"}, {"explain", "logs"}, {"check"}, {"spikes"}, {"spikes", "7"}, {"drain", "es-1"}} {
		cmd := exec.CommandContext(t.Context(), binary, append(args, "--admin", address)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.Error(t, cmd.Run())
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), args)
		require.Equal(t, "sidestep "+args[0]+": nothing listens on "+address+": is sidestep running there? (--admin)\n", stderr.String())
	}
}

func TestAdminCommandsMisused(t *testing.T) {
	for _, c := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"top", "--intervall", "1s"}, "sidestep top: flag provided but not defined: -intervall\nsidestep top --help lists the flags.\n"},
		{[]string{"top", "--interval", "0s"}, "sidestep top: --interval must be more than 0\nsidestep top --help lists the flags.\n"},
		{[]string{"top", "es-1"}, `sidestep top: unexpected argument "es-1"` + "\nsidestep top --help lists the flags.\n"},
		{[]string{"explain"}, "sidestep explain: a target is missing, such as an index or 'logs-*'\nsidestep explain --help lists the flags.\n"},
		{[]string{"explain", "a", "--bulk", "--routing", "x"}, "sidestep explain: --bulk and --routing do not go together\nsidestep explain --help lists the flags.\n"},
		{[]string{"explain", "a", "b"}, `sidestep explain: unexpected argument "b"` + "\nsidestep explain --help lists the flags.\n"},
		{[]string{"check", "--output", "xml"}, `sidestep check: invalid value "xml" for flag -output: must be table or json` + "\nsidestep check --help lists the flags.\n"},
		{[]string{"check", "--timeout", "-1s"}, "sidestep check: --timeout must be more than 0\nsidestep check --help lists the flags.\n"},
		{[]string{"drain"}, "sidestep drain: a node is missing: sidestep top lists them\nsidestep drain --help lists the flags.\n"},
		{[]string{"drain", "es-1", "--for", "-1s"}, "sidestep drain: --for must be from 0s to 24h\nsidestep drain --help lists the flags.\n"},
		{[]string{"drain", "es-1", "--for", "48h"}, "sidestep drain: --for must be from 0s to 24h\nsidestep drain --help lists the flags.\n"},
		{[]string{"drain", "es-1", "--token-file", "/nowhere"}, "sidestep drain: --token-file: open /nowhere: no such file or directory\nsidestep drain --help lists the flags.\n"},
		{[]string{"spikes", "--admin", "gopher://x"}, "sidestep spikes: --admin, or SIDESTEP_ADMIN, is no address such as http://127.0.0.1:9211\nsidestep spikes --help lists the flags.\n"},
		{[]string{"spikes", "--ca-file", "/nowhere"}, "sidestep spikes: --ca-file: open /nowhere: no such file or directory\nsidestep spikes --help lists the flags.\n"},
	} {
		cmd := exec.CommandContext(t.Context(), binary, c.args...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.Error(t, cmd.Run())
		require.Equal(t, 2, cmd.ProcessState.ExitCode(), c.args)
		require.Equal(t, c.stderr, stderr.String())
	}
}

// What answers may say anything, but not to the terminal.
func TestAdminCommandsPrintNothingUnseen(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"es-1 \u001b[2J\u009b31m\n\u202e failed"}`)
	}))
	defer server.Close()
	for _, args := range [][]string{{"top"}, {"explain", "logs"}, {"check"}, {"spikes"}, {"spikes", "7"}, {"drain", "es-1"}} {
		cmd := exec.CommandContext(t.Context(), binary, append(args, "--admin", server.URL)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.Error(t, cmd.Run())
		require.Equal(t, "sidestep "+args[0]+": es-1 �[2J�31m�� failed\n", stderr.String())
	}
}

// What cannot be written, as where a disk is full, is no success.
func TestAdminCommandsThatCannotPrint(t *testing.T) {
	s := newStage(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range [][]string{
		{"top", "--once", "--interval", "50ms"}, {"top", "--output", "json"}, {"explain", "logs"}, {"explain", "logs", "--bulk"}, {"explain", "logs", "--output", "json"},
		{"check"}, {"check", "--output", "json"}, {"spikes"}, {"drain", "node-2"},
	} {
		cmd := exec.CommandContext(t.Context(), binary, append(args, "--admin", s.AdminAddr().String())...)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = full, &stderr
		require.Error(t, cmd.Run(), args)
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), args)
		require.Equal(t, "sidestep "+args[0]+": write /dev/stdout: no space left on device\n", stderr.String(), args)
	}
}

func TestAdminCommandsHelp(t *testing.T) {
	for _, name := range []string{"top", "explain", "check", "spikes", "drain"} {
		out, err := exec.CommandContext(t.Context(), binary, name, "--help").Output()
		require.NoError(t, err)
		for _, part := range []string{
			"Usage:\n  sidestep " + name, "  --admin ", "  --ca-file ", "  --cert-file ", "  --key-file ", "  --timeout ", "  --output ",
			"\nExit codes: 0 fine, 1 ", "\nExample:\n  sidestep " + name,
		} {
			require.Contains(t, string(out), part, name)
		}
		require.NotContains(t, string(out), "%!", name)
	}
}

func TestExplainCommand(t *testing.T) {
	s := newStage(t)
	for _, args := range [][]string{
		{"explain", "all-logs"}, {"explain", "all-logs", "--routing", "x"}, {"explain", "--routing=x", "all-logs"},
		{"explain", "--timeout", "10s", "--", "all-logs"},
	} {
		code, out, stderr := s.command(t, args...)
		require.Zero(t, code, stderr)
		require.Regexp(t, `^a search on all-logs( with routing x)? is (left to the engine \(no_outlier\)|steered \((ranked|no_statistics)\))\n`, out)
		require.Regexp(t, `logs\[\d\] +node-\d +fine +(\d|-)`, out)
	}
	code, out, stderr := s.command(t, "explain", "logs", "--output", "json")
	require.Zero(t, code, stderr)
	require.True(t, json.Valid([]byte(out)))
	require.Contains(t, out, `"target": "logs"`)
}

func TestCheckCommand(t *testing.T) {
	s := newStage(t)
	s.search(t)
	code, out, stderr := s.command(t, "check")
	require.Zero(t, code, out+stderr)
	require.Regexp(t, `(?m)^ok +cluster +OpenSearch 3\.6\.0, cluster simulated$`, out)
	require.Regexp(t, `(?m)^ok +account +all 13 kinds of requests that sidestep makes are answered$`, out)
	require.Regexp(t, `(?m)^ok +traffic +of 1 searches and reads`, out)
	require.Regexp(t, `(?m)^problems: 0, notes: `, out)

	s.cluster.Nodes()[2].SetFault(simcluster.Fault{Refuse: true})
	code, out, _ = s.command(t, "check")
	require.Equal(t, 1, code, out)
	require.Regexp(t, `(?m)^problem +nodes +1 of 3 nodes do not answer at the address that it publishes: node-3 at 127\.0\.0\.1:\d+: connection refused\n +→ `, out)
	code, out, _ = s.command(t, "check", "--output", "json")
	require.Equal(t, 1, code)
	require.Contains(t, out, `"level": "problem"`)
}

func TestDrainCommand(t *testing.T) {
	s := newStage(t)
	code, out, stderr := s.command(t, "drain", "node-2", "--for", "5m")
	require.Zero(t, code, stderr)
	require.Equal(t, "node-2 is given no new requests for 5m0s, as far as others can take them, or until it has restarted\n", out)
	require.Eventually(t, func() bool {
		_, out, _ = s.command(t, "explain", "all-logs")
		return strings.Contains(out, "node-2: an operator said that it is about to leave")
	}, patience, 5*time.Millisecond)
	code, out, stderr = s.command(t, "drain", "node-2", "--for", "0s", "--output", "json")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"node":"node-2","for":"0s","mode":"route"}`, out)
	code, out, stderr = s.command(t, "drain", "node-2", "--for", "0s")
	require.Zero(t, code, stderr)
	require.Equal(t, "node-2 is drained no longer\n", out)
	require.NoError(t, s.SetMode(proxy.ModeObserve))
	_, out, _ = s.command(t, "drain", "node-2")
	require.Equal(t, `node-2 is drained for 10m0s, or until it has restarted
but the mode here is observe: searches through this sidestep go to the copies that the engine chooses, those of the node too; it only sends no request through the node. Sidesteps that follow this one go by their own mode
`, out)
	code, _, stderr = s.command(t, "drain", "node-9")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "sidestep drain: there is no such node: node-9; there are node-1, node-2, node-3")
}

func TestTopOnceCommand(t *testing.T) {
	s := newStage(t)
	s.search(t)
	for _, args := range [][]string{{"top", "--once", "--interval", "50ms"}, {"top", "--interval", "50ms"}} { // stdout is no terminal
		var out string
		require.Eventually(t, func() bool { // sidestep is ready when one node has been polled
			var code int
			var stderr string
			code, out, stderr = s.command(t, args...)
			require.Zero(t, code, stderr)
			return strings.Contains(out, "nodes: 3 fine")
		}, patience, 5*time.Millisecond)
		require.NotContains(t, out, "\x1b")
		lines := strings.Split(out, "\n")
		require.Regexp(t, `^sidestep 1\.2\.3 · opensearch 3\.6\.0 · mode route · `, lines[0])
		require.Regexp(t, `^ready · nodes: 3 fine`, lines[1])
		require.Regexp(t, `^NODE +STATE +RANK`, lines[4])
		require.Regexp(t, `^node-1 +fine +[-\d]`, lines[5])
		require.Len(t, lines, 9)
	}
	code, out, _ := s.command(t, "top", "--output", "json")
	require.Zero(t, code)
	require.Contains(t, out, `"version": "1.2.3"`)
}

func TestSpikesCommand(t *testing.T) {
	s := newStage(t)
	code, out, stderr := s.command(t, "spikes")
	require.Zero(t, code, stderr)
	require.Equal(t, "no spikes: no node has stood out since records are kept\n", out)
	code, out, stderr = s.command(t, "spikes", "42")
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Equal(t, "sidestep spikes: there is no spike 42: sidestep spikes lists those on record\n", stderr)

	s.cluster.Nodes()[1].SetFault(simcluster.Fault{Pause: true})
	line := regexp.MustCompile(`(?m)^(\S+) +node-2 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ +still does +\w+ `)
	var found []string
	require.Eventually(t, func() bool {
		_, out, _ := s.command(t, "spikes")
		found = line.FindStringSubmatch(out)
		return found != nil
	}, patience, 100*time.Millisecond)
	sampled := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d +\w+ `)
	require.Eventually(t, func() bool {
		code, out, stderr = s.command(t, "spikes", found[1])
		return sampled.MatchString(out)
	}, patience, 100*time.Millisecond)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^spike `+found[1]+`: node-2, began \S+ \S+ \S+, lasts\n`, out)
	require.Regexp(t, `(?m)^cause: \w+$`, out)
	require.Regexp(t, `(?m)^TIME +STATE +RESPONSE`, out)
	s.cluster.Nodes()[1].SetFault(simcluster.Fault{})
}
