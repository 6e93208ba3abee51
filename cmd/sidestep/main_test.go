package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
)

const patience = time.Minute

// binary is sidestep as it is built for users, once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sidestep")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "sidestep")
	// As make build does it, so that what is compiled is found in the cache.
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-X main.version=1.2.3 -X main.commit=0a1b2c3d", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build sidestep: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sidestep.yaml")
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

func TestExitCodesAndMessages(t *testing.T) {
	bad := file(t, "upstream:\n  urls: [http://a:9200]\n  dail_timeout: 1s\nrouting:\n  mode: on\n")
	good := file(t, "upstream:\n  urls: [http://a:9200]\nlog:\n  level: warn\n")
	zoned := file(t, "upstream:\n  urls: [http://a:9200]\nrouting:\n  zone: {attribute: zone}\n")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("two\nlines\n"), 0o600))
	twoLines := file(t, "upstream:\n  urls: [http://a:9200]\n  auth:\n    api_key_file: "+secret+"\n")
	absent := file(t, "upstream:\n  urls: [http://a:9200]\n  auth: {api_key_file: /nowhere}\n")
	invalid := "sidestep: the configuration is not valid, nothing was started:\n"
	for _, c := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // regular expressions
	}{
		{"no upstream", nil, 78, `^$`, invalid + `  upstream\.urls: at least one node is needed, such as http://127\.0\.0\.1:9200 \(or give --upstream\)\n$`},
		{"every problem at once", []string{"--config", bad, "--listen", "here"}, 78, `^$`, invalid +
			`  --listen: listen: "here" is not an address: .*\n` +
			`  \S+sidestep\.yaml:3: upstream\.dail_timeout: unknown key; did you mean "upstream\.dial_timeout"\?\n` +
			`  \S+sidestep\.yaml:5: routing\.mode: "on" is not one of route, observe, off\n$`},
		{"check of a bad file", []string{"--config", bad, "--config.check"}, 78, `^$`, invalid},
		{"check of a good file", []string{"--config", good, "--config.check"}, 0, `^configuration is valid\n$`, `^$`},
		{"check looks into files", []string{"--config", twoLines, "--config.check"}, 78, `^$`, `holds more than one line`},
		{"flags win", []string{"--config", good, "--routing.mode=no", "--config.check"}, 78, `^$`, `  --routing\.mode: routing\.mode: "no" is not`},
		{"flags of all kinds", []string{
			"--upstream", "http://a:1, http://b:1", "--upstream", "http://c:1", "--admin", "127.0.0.1:1",
			"--log.level", "debug", "--config.check",
		}, 0, `valid`, `^$`},
		{"retired flag", []string{"--config", good, "--routing.policy", "adaptive", "--config.check"}, 0, `valid`, `level=WARN msg="routing\.policy says nothing any more[^
]*
$`},
		{"retired flag, only errors logged", []string{"--config", good, "--routing.policy", "ars", "--log.level", "error", "--config.check"}, 0, `valid`, `level=WARN msg="routing\.policy`},
		{"zone", []string{"--config", zoned, "--zone", "eu-1b", "--config.check"}, 0, `valid`, `^$`},
		{"zone without attribute", []string{"--config", good, "--zone", "eu-1b", "--config.check"}, 78, `^$`,
			`  \S+sidestep\.yaml: routing\.zone\.attribute: must be set, as local is\n$`},
		{"no file", []string{"--config", "/nowhere.yaml"}, 1, `^$`, `^sidestep: files cannot be read, nothing was started:\n  /nowhere\.yaml: cannot be read: no such file or directory\n$`},
		{"a log that cannot be opened", []string{"--config", file(t, "upstream:\n  urls: [http://a:9200]\nlisten: 127.0.0.1:0\nadmin:\n  listen: 127.0.0.1:0\nlogs:\n  access:\n    output: /proc/self/none\n")}, 1, `^$`, `cannot start.*logs\.access\.output`},
		{"a secret that is not there", []string{"--config", absent, "--config.check"}, 1, `^$`, `upstream\.auth\.api_key_file: the file that it names cannot be read: no such file`},
		{"a secret that is not there, and a bad value", []string{"--config", absent, "--routing.mode=no"}, 78, `^$`, invalid + `(.|\n)*api_key_file: the file that it names cannot be read`},
		{"unknown flag", []string{"--lisen", "x"}, 2, `^$`, `^sidestep: flag provided but not defined: -lisen\nsidestep --help lists the flags\.\n$`},
		{"argument", []string{"start"}, 2, `^$`, `^sidestep: unexpected argument "start"\n`},
		{"a password among the arguments", []string{"--upstream", "http://a:9200", "http://elastic:hunter2@b:9200"}, 2, `^$`, `^sidestep: unexpected argument that is a URL: with --upstream, URLs are separated by commas alone\n`},
		{"help", []string{"--help"}, 0, `Usage:\n(.|\n)*--upstream(.|\n)*--config\.check`, `^$`},
		{"version flag", []string{"--version"}, 0, `^sidestep 1\.2\.3 \(commit 0a1b2c3d, go\S+ \S+/\S+\)\n$`, `^$`},
		{"version", []string{"version"}, 0, `^sidestep 1\.2\.3 \(commit 0a1b2c3d, go\S+ \S+/\S+\)\n$`, `^$`},
		{"demo", []string{"demo", "--rate", "0"}, 2, `^$`, `^sidestep: demo is a sub-command of sidestep-lab: run sidestep-lab demo\n$`},
		{"lab", []string{"lab"}, 2, `^$`, `^sidestep: lab is a sub-command of sidestep-lab: run sidestep-lab lab\n$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), binary, c.args...)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if c.code == 0 {
				require.NoError(t, err, stderr.String())
			}
			require.Equal(t, c.code, cmd.ProcessState.ExitCode(), stderr.String())
			require.Regexp(t, c.stdout, stdout.String())
			require.Regexp(t, c.stderr, stderr.String())
		})
	}
}

func TestUsageNamesEveryFlag(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), binary, "--help").Output()
	require.NoError(t, err)
	for _, name := range []string{
		"upstream", "listen", "admin", "config", "config.check", "version", "log.level", "routing.mode", "zone",
	} {
		require.Contains(t, string(out), "  --"+name+" ")
	}
}

// process is a running sidestep.
type process struct {
	*exec.Cmd
	t           *testing.T
	log         *bufio.Scanner
	data, admin string
}

// launch starts the binary and waits until it serves.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, func(*exec.Cmd) {}, args...)
}

// start is launch with something done to the command before.
func start(t *testing.T, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), binary, args...), t: t}
	prepare(p.Cmd)
	stderr, err := p.StderrPipe()
	require.NoError(t, err)
	p.log = bufio.NewScanner(stderr)
	require.NoError(t, p.Start())
	started := p.await("sidestep started")
	p.data, p.admin = started["data"].(string), started["admin"].(string)
	return p
}

// await reads the log up to a message.
func (p *process) await(message string) map[string]any {
	p.t.Helper()
	for p.log.Scan() {
		var line map[string]any
		require.NoError(p.t, json.Unmarshal(p.log.Bytes(), &line), p.log.Text())
		if line["msg"] == message {
			return line
		}
	}
	p.t.Fatalf("the log ended without %q", message)
	return nil
}

// exit waits for the end and returns the code.
func (p *process) exit() int {
	p.t.Helper()
	for p.log.Scan() { // Wait needs the pipe read
	}
	_ = p.Wait() // the code tells
	return p.ProcessState.ExitCode()
}

func (p *process) get(target string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+target, http.NoBody)
	require.NoError(p.t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(body)
}

// awaitReady waits until it can steer.
func (p *process) awaitReady() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		status, _ := p.get(p.admin + "/-/ready")
		return status == http.StatusOK
	}, patience, 10*time.Millisecond)
}

// settings are a configuration with a mode before a cluster.
func settings(mode string, cluster *simcluster.Cluster) string {
	return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\nupstream: {urls: [%s]}\nrouting: {mode: %s}\nlimits: {drain_delay: 0s}\nlog: {format: json}\n",
		cluster.URLs()[0], mode)
}

func TestLife(t *testing.T) {
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes: 2, Indices: []simcluster.IndexSpec{{Name: "logs", Replicas: 1}},
	})
	require.NoError(t, err)
	defer cluster.Stop()
	config := file(t, settings("observe", cluster))
	p := launch(t, "--config", config)
	p.awaitReady()
	status, _ := p.get(p.data + "/logs/_search")
	require.Equal(t, http.StatusOK, status)
	_, metrics := p.get(p.admin + "/metrics")
	require.Contains(t, metrics, `revision="0a1b2c3d",version="1.2.3"} 1`)

	require.NoError(t, os.WriteFile(config, []byte(settings("route", cluster)), 0o600))
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	p.await("configuration reloaded")
	_, explained := p.get(p.admin + "/explain?target=logs")
	require.Contains(t, explained, `"mode": "route"`)

	require.NoError(t, os.WriteFile(config, []byte(settings("fastest", cluster)), 0o600))
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	require.Contains(t, p.await("configuration not reloaded, the old one stays")["err"], `"fastest" is not one of`)
	status, _ = p.get(p.data + "/logs/_search")
	require.Equal(t, http.StatusOK, status)

	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	p.await("stopped")
	require.Equal(t, 0, p.exit())
}

func TestListenerTaken(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	cmd := exec.CommandContext(t.Context(), binary, "--upstream", "http://127.0.0.1:1", "--listen", taken.Addr().String(), "--admin", "127.0.0.1:0")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, string(out), "listen: cannot listen on "+taken.Addr().String())
}

// A request that hangs holds the first signal up; the second does not wait.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	arrived := make(chan struct{}, 16)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				line, _ := bufio.NewReader(conn).ReadString('\n')
				if strings.Contains(line, "/held") {
					arrived <- struct{}{}
				}
			}()
		}
	}()
	p := launch(t, "--config", file(t, "log: {format: json}\n"), "--upstream", "http://"+listener.Addr().String(),
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.data)
	require.NoError(t, err)
	defer client.Close()
	_, err = io.WriteString(client, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	<-arrived

	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	p.await("stopping")
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	require.Equal(t, 1, p.exit())
}
