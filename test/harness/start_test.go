package harness

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pretended returns a node whose process is a shell script, with an engine that answers once
// the file up is in the node's folder.
func pretended(t *testing.T, name, script string) *Node {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, "bin"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "logs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, "bin", OpenSearch), []byte("#!/bin/sh\n"+script), 0o755))
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(filepath.Join(dir, "up")); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprint(w, `{"number_of_nodes":2,"nodes":{"id":{}}}`)
	}))
	t.Cleanup(engine.Close)
	address, err := url.Parse(engine.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	n := &Node{Name: name, DirectURL: engine.URL, dir: dir, httpPort: port}
	n.launch = launcher{release: release{distribution: OpenSearch}, home: home, silence: 2 * time.Second} // for what the script does before
	n.launch.options.Logf = t.Logf
	t.Cleanup(n.kill)
	return n
}

// Nodes of a secured cluster once wrote no line for minutes, and the test waited for them in vain.
func TestASilentNodeIsStartedAgain(t *testing.T) {
	c := &Cluster{options: ClusterOptions{Logf: t.Logf}}
	c.Nodes = append(c.Nodes,
		pretended(t, "node-1", "echo '[node-1] starts'; touch up; sleep 60"),
		pretended(t, "node-2", "if [ -e tried ]; then touch up; fi; touch tried; sleep 60"))
	for _, n := range c.Nodes {
		require.NoError(t, n.start())
	}
	require.NoError(t, c.waitNodes(t.Context()))
	require.Equal(t, "id", c.Nodes[1].ID)
}

// On a machine that does much else a node is silent for long, as it gets little CPU time. All that it has done would be lost.
func TestASilentNodeThatWorksIsNotStartedAgain(t *testing.T) {
	c := &Cluster{options: ClusterOptions{Logf: t.Logf}}
	n := pretended(t, "node-1", "echo >>starts; while [ ! -e go ]; do :; done; touch up; sleep 60")
	c.Nodes = append(c.Nodes, n, pretended(t, "node-2", "echo '[node-2] starts'; touch up; sleep 60"))
	time.AfterFunc(5*n.launch.silence/2, func() { _ = os.WriteFile(filepath.Join(n.dir, "go"), nil, 0o600) })
	for _, n := range c.Nodes {
		require.NoError(t, n.start())
	}
	require.NoError(t, c.waitNodes(t.Context()))
	starts, err := os.ReadFile(filepath.Join(n.dir, "starts"))
	require.NoError(t, err)
	require.Equal(t, "\n", string(starts))
}

// The first node waits for the others. When one of them had ended, nobody looked.
func TestANodeThatEndsEndsTheStart(t *testing.T) {
	c := &Cluster{options: ClusterOptions{Logf: t.Logf}}
	c.Nodes = append(c.Nodes,
		pretended(t, "node-1", "echo '[node-1] starts'; sleep 60"),
		pretended(t, "node-2", "echo 'address already in use'; exit 1"))
	for _, n := range c.Nodes {
		require.NoError(t, n.start())
	}
	require.ErrorContains(t, c.waitNodes(t.Context()), "node-2 ended")
}

// Each package that starts a sidestep has it built, and to link it takes longer than to see that it is there.
func TestWhatIsThereIsNotLinkedAgain(t *testing.T) {
	built := func() os.FileInfo {
		binary, err := Build(t.Context())
		require.NoError(t, err)
		info, err := os.Stat(binary)
		require.NoError(t, err)
		return info
	}
	require.True(t, os.SameFile(built(), built()))
}
