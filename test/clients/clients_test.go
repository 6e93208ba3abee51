// Package clients runs real client libraries, unmodified, through sidestep against
// a real cluster: what an application does with them comes out as it does directly.
// SIDESTEP_ENGINE chooses opensearch (default) or elasticsearch.
package clients

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
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/engine"
	"sidestep/test/front"
)

// tools is where `make clients` installs the libraries.
const tools = "../../.cache/clients"

// stage is what all tests share: a cluster, and two sidesteps before it.
type stage struct {
	cluster *engine.Cluster
	pass    *front.Front // clients that sniff learn the nodes' addresses
	rewrite *front.Front // they learn sidestep's
}

var shared stage // TestMain can hand nothing to tests otherwise

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	err := shared.open(ctx)
	defer func() {
		front.Close(shared.rewrite, nil, code != 0)
		front.Close(shared.pass, shared.cluster, code != 0)
	}()
	if err != nil {
		fmt.Println("FAIL:", err)
		return 1
	}
	return m.Run()
}

func (s *stage) open(ctx context.Context) error {
	if err := installed(); err != nil {
		return err
	}
	binary, err := front.Build(ctx)
	if err != nil {
		return err
	}
	s.cluster, err = engine.Start(ctx, engine.Options{
		Distribution: os.Getenv("SIDESTEP_ENGINE"), Version: os.Getenv("SIDESTEP_ENGINE_VERSION"), Nodes: 3,
		Logf: func(format string, args ...any) {
			fmt.Printf("%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
		},
	})
	if err != nil {
		return err
	}
	if s.pass, err = s.front(ctx, binary, "pass"); err != nil {
		return err
	}
	s.rewrite, err = s.front(ctx, binary, "rewrite")
	return err
}

// front starts a sidestep that steers whatever it can.
func (s *stage) front(ctx context.Context, binary, sniff string) (*front.Front, error) {
	file, err := os.CreateTemp("", "sidestep-clients-*.yaml")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if _, err := fmt.Fprintf(file, "routing:\n  when: always\nclients:\n  sniff: %s\n", sniff); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	f, err := front.Start(ctx, binary, s.cluster.URLs(), "--config", file.Name())
	if err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return f, f.AwaitReady(ready)
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
		{"python", []string{python, filepath.Join("python", distribution+"_client.py")}, []string{"PYTHONDONTWRITEBYTECODE=1"}, true},
		{"javascript", []string{"node", filepath.Join("js", distribution+"_client.cjs")}, []string{"NODE_PATH=" + absolute(filepath.Join(tools, "js", "node_modules"))}, true},
		{"go", []string{filepath.Join(tools, "bin", distribution)}, nil, distribution == engine.Elasticsearch},
	}
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// installed reports what is missing.
func installed() error {
	for _, s := range append(scripts(engine.OpenSearch), scripts(engine.Elasticsearch)...) {
		if _, err := exec.LookPath(s.command[0]); err != nil {
			return fmt.Errorf("%s is missing: run `make clients`, which installs the client libraries and says what they need", s.command[0])
		}
	}
	return nil
}

// run returns the lines that the script prints, one for each step.
func (s script) run(t *testing.T, url string, flags ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
func requests(t *testing.T, f *front.Front, labels map[string]string) int {
	t.Helper()
	sum, err := f.Sum(t.Context(), "sidestep_requests_total", labels)
	require.NoError(t, err)
	return int(sum)
}

// Through sidestep a client's every step ends as it does directly, sniffing or
// not; told to, a client that sniffs stays.
func TestClients(t *testing.T) {
	for _, s := range scripts(shared.cluster.Distribution) {
		t.Run(s.name, func(t *testing.T) {
			want := s.run(t, shared.cluster.Nodes[0].HTTPURL)
			requireComplete(t, want)

			before, steered := requests(t, shared.pass, nil), requests(t, shared.pass, map[string]string{"reason": "ranked"})
			require.Equal(t, want, s.run(t, shared.pass.URL))
			all := requests(t, shared.pass, nil) - before
			require.Greater(t, all, len(want), "the client's requests came through sidestep")
			// A quick client is done before its new index is known.
			for range 10 {
				if requests(t, shared.pass, map[string]string{"reason": "ranked"}) > steered {
					break
				}
				require.Equal(t, want, s.run(t, shared.pass.URL))
			}
			require.Greater(t, requests(t, shared.pass, map[string]string{"reason": "ranked"}), steered, "searches were steered")

			before, sniffs := requests(t, shared.pass, nil), sniffed(t, shared.pass, "passed")
			require.Equal(t, want, s.run(t, shared.pass.URL, "--sniff"))
			around := all - (requests(t, shared.pass, nil) - before)
			require.Greater(t, sniffed(t, shared.pass, "passed"), sniffs)

			before, sniffs = requests(t, shared.rewrite, nil), sniffed(t, shared.rewrite, "rewritten")
			require.Equal(t, want, s.run(t, shared.rewrite.URL, "--sniff"))
			stayed := requests(t, shared.rewrite, nil) - before
			require.Greater(t, sniffed(t, shared.rewrite, "rewritten"), sniffs)
			require.GreaterOrEqual(t, stayed, all, "a client that sniffed went around sidestep")
			if s.leaves {
				require.Greater(t, around, all/2, "a client that learned the nodes' addresses talks to them directly")
			}
			t.Logf("%d steps alike, %d requests; sniffing: %d of them around sidestep, with rewrite none (%d requests)", len(want), all, max(0, around), stayed)
		})
	}
}

func sniffed(t *testing.T, f *front.Front, result string) int {
	t.Helper()
	sum, err := f.Sum(t.Context(), "sidestep_sniffs_total", map[string]string{"result": result})
	require.NoError(t, err)
	return int(sum)
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
