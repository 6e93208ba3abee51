package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

const (
	// tools is where `make clients` installs the libraries.
	tools = "../../.cache/clients"
	// programs is where those are that use them.
	programs = "../clients"
)

// rewriting starts a sidestep that tells clients that sniff its own address. From the
// shared one they learn the nodes'.
func rewriting(t *testing.T) *harness.Front {
	t.Helper()
	f := startBefore(t, shared.Cluster, "routing: {when: always}\nclients: {sniff: rewrite}\n")
	require.NoError(t, f.AwaitReady(t.Context()))
	return f
}

// script is a program that does with one client library what applications do.
type script struct {
	name    string
	command []string // to which the address is added
	env     []string
	// leaves says that the client uses the nodes it learned at once. opensearch-go
	// takes them into use by and by.
	leaves bool
}

// scripts returns those whose library is made for the engine.
func scripts(distribution string) []script {
	python := filepath.Join(tools, "python", "bin", "python")
	return []script{
		{"python", []string{python, filepath.Join(programs, "python", distribution+"_client.py")}, []string{"PYTHONDONTWRITEBYTECODE=1"}, true},
		{"javascript", []string{"node", filepath.Join(programs, "js", distribution+"_client.cjs")}, []string{"NODE_PATH=" + absolute(filepath.Join(tools, "js", "node_modules"))}, true},
		{"go", []string{filepath.Join(tools, "bin", distribution)}, nil, distribution == harness.Elasticsearch},
	}
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// installed reports what is missing.
func installed(scripts []script) error {
	for _, s := range scripts {
		if _, err := exec.LookPath(s.command[0]); err != nil {
			return fmt.Errorf("%s is missing: run `make clients`, which installs the client libraries and says what they need", s.command[0])
		}
	}
	return nil
}

// run returns the lines that the script prints, one for each step.
func (s script) run(t *testing.T, url string, flags ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := append(append(s.command[1:len(s.command):len(s.command)], url), flags...)
	cmd := exec.CommandContext(ctx, s.command[0], args...)
	cmd.Env = append(os.Environ(), s.env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	require.NoError(t, err, "%s\n%s%s", cmd, out.Bytes(), problems.Bytes())
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// requests returns how many requests of clients have come to a sidestep.
func requests(t *testing.T, f *harness.Front, labels map[string]string) int {
	t.Helper()
	return int(sumOf(t, f, "sidestep_requests_total", labels))
}

// Real client libraries, unmodified: through sidestep a client's every step ends as it
// does directly, sniffing or not; told to, a client that sniffs stays.
func TestClients(t *testing.T) {
	t.Parallel()
	clients := scripts(shared.Cluster.Distribution)
	require.NoError(t, installed(clients))
	pass, rewrite := shared.sidestep, rewriting(t)
	for _, s := range clients {
		t.Run(s.name, func(t *testing.T) {
			want := s.run(t, shared.Cluster.Nodes[0].HTTPURL)
			requireComplete(t, want)

			before, steered := requests(t, pass, nil), requests(t, pass, map[string]string{"reason": "ranked"})
			require.Equal(t, want, s.run(t, pass.URL))
			all := requests(t, pass, nil) - before
			require.Greater(t, all, len(want), "the client's requests came through sidestep")
			// A quick client is done before its new index is known.
			for range 10 {
				if requests(t, pass, map[string]string{"reason": "ranked"}) > steered {
					break
				}
				require.Equal(t, want, s.run(t, pass.URL))
			}
			require.Greater(t, requests(t, pass, map[string]string{"reason": "ranked"}), steered, "searches were steered")

			before, sniffs := requests(t, pass, nil), sniffed(t, pass, "passed")
			require.Equal(t, want, s.run(t, pass.URL, "--sniff"))
			around := all - (requests(t, pass, nil) - before)
			require.Greater(t, sniffed(t, pass, "passed"), sniffs)

			before, sniffs = requests(t, rewrite, nil), sniffed(t, rewrite, "rewritten")
			require.Equal(t, want, s.run(t, rewrite.URL, "--sniff"))
			stayed := requests(t, rewrite, nil) - before
			require.Greater(t, sniffed(t, rewrite, "rewritten"), sniffs)
			require.GreaterOrEqual(t, stayed, all, "a client that sniffed went around sidestep")
			if s.leaves {
				require.Greater(t, around, all/2, "a client that learned the nodes' addresses talks to them directly")
			}
			t.Logf("%d steps alike, %d requests; sniffing: %d of them around sidestep, with rewrite none (%d requests)", len(want), all, max(0, around), stayed)
		})
	}
}

func sniffed(t *testing.T, f *harness.Front, result string) int {
	t.Helper()
	return int(sumOf(t, f, "sidestep_sniffs_total", map[string]string{"result": result}))
}

// requireComplete requires that a script went through its steps and found what it
// put there: comparing two empty runs would prove nothing.
func requireComplete(t *testing.T, lines []string) {
	t.Helper()
	steps := make(map[string]string)
	for _, line := range lines {
		var said struct {
			Step string `json:"step"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &said), line)
		steps[said.Step] = line
	}
	for _, step := range []string{"create", "get", "bulk", "search", "count", "msearch", "pages", "no document", "no index", "bad query", "conflict", "compressed", "retried", "deleted"} {
		require.Contains(t, steps, step)
	}
	require.Contains(t, strings.ReplaceAll(steps["search"], " ", ""), `"n":[1,6,11,16,21]`)
	require.Contains(t, strings.ReplaceAll(steps["count"], " ", ""), `"count":120`)
	require.Contains(t, steps["no document"], "404")
	require.Contains(t, steps["bad query"], "400")
	require.Contains(t, steps["conflict"], "409")
	if answer, asked := steps["async search"]; asked {
		t.Log("asynchronous search, as the engine answers it:", answer)
	}
}
