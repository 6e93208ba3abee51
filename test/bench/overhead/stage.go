package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"

	"sidestep/internal/es"
	"sidestep/test/bench/plain"
	"sidestep/test/harness"
)

// nginx and haproxy are the peers that must be installed; the others are compared with haproxy.
const (
	nginx   = "nginx"
	haproxy = "haproxy"
)

// peer is one way to the cluster.
type peer struct {
	name string
	addr string // host:port that the load goes to
	pid  int    // 0 for the direct connection
	// preference is that of the searches sent to it: empty for sidestep, which adds
	// one, the same for all others, so that the cluster has the same work.
	preference string
	metrics    string // URL that tells how many objects a Go program allocated; empty: none
	admin      string // URL of sidestep's admin listener, empty for the others
}

// stopLimit bounds the end of a process.
const stopLimit = 5 * time.Second

// stage holds the processes of a comparison.
type stage struct {
	dir         string
	connections int // that nginx and haproxy allow
	backend     backend
	processes   []*harness.Process
}

// start runs the backend and all proxies and returns once each answers. The
// direct connection comes first.
func (s *stage) start(ctx context.Context, sidestep string) ([]peer, error) {
	if err := s.startBackend(ctx); err != nil {
		return nil, err
	}
	first, err := s.startSidestep(ctx, sidestep)
	if err != nil {
		return nil, err
	}
	preference := es.OnlyNodes(s.backend.IDs)
	peers := []peer{{name: "direct", addr: s.backend.Addrs[0], preference: preference}, first}
	for _, begin := range []func(context.Context) (peer, error){s.startPlain, s.startNginx, s.startHaproxy} {
		p, err := begin(ctx)
		if err != nil {
			return nil, err
		}
		p.preference = preference
		peers = append(peers, p)
	}
	return peers, nil
}

// stop ends the processes, the last started first.
func (s *stage) stop() {
	for _, p := range slices.Backward(s.processes) {
		_ = p.End(syscall.SIGINT, stopLimit) // how it ended does not matter
	}
}

func (s *stage) startBackend(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ready := filepath.Join(s.dir, "nodes.json")
	if _, err := s.run("backend", self, "backend", "-ready", ready); err != nil {
		return err
	}
	return eventually(ctx, "the simulated cluster", func(context.Context) error {
		text, err := os.ReadFile(ready)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &s.backend)
	})
}

// startSidestep starts it with the defaults of its configuration: only the addresses
// are given, and that bulks may be kept on one shard of the index that they go to.
func (s *stage) startSidestep(ctx context.Context, binary string) (peer, error) {
	listen, admin, err := freeAddresses()
	if err != nil {
		return peer{}, err
	}
	file := filepath.Join(s.dir, "sidestep.yaml")
	if err := os.WriteFile(file, []byte("bulk:\n  single_shard:\n    - index: "+written+"\n"), 0o600); err != nil {
		return peer{}, err
	}
	process, err := s.run("sidestep", binary, "--config", file,
		"--upstream", "http://"+strings.Join(s.backend.Addrs, ",http://"), "--listen", listen, "--admin", admin)
	if err != nil {
		return peer{}, err
	}
	p := peer{name: "sidestep", addr: listen, pid: process.PID, admin: "http://" + admin}
	p.metrics = p.admin + "/metrics"
	if err := eventually(ctx, "sidestep", func(ctx context.Context) error { return get(ctx, p.admin+"/-/ready") }); err != nil {
		return peer{}, err
	}
	return p, s.awaitSteering(ctx, p)
}

func (s *stage) startPlain(ctx context.Context) (peer, error) {
	self, err := os.Executable()
	if err != nil {
		return peer{}, err
	}
	listen, metrics, err := freeAddresses()
	if err != nil {
		return peer{}, err
	}
	p := peer{name: "httputil.ReverseProxy", addr: listen, metrics: "http://" + metrics}
	return s.startPeer(ctx, p, self, plain.Command, "-listen", listen, "-metrics", metrics, "-nodes", strings.Join(s.backend.Addrs, ","))
}

func (s *stage) startNginx(ctx context.Context) (peer, error) {
	addr, file, err := s.configure("nginx.conf", nginxConf)
	if err != nil {
		return peer{}, err
	}
	binary, err := harness.FindProxy(nginx)
	if err != nil {
		return peer{}, err
	}
	return s.startPeer(ctx, peer{name: nginx, addr: addr}, binary, "-p", s.dir, "-c", file, "-e", "stderr")
}

func (s *stage) startHaproxy(ctx context.Context) (peer, error) {
	addr, file, err := s.configure("haproxy.cfg", haproxyConf)
	if err != nil {
		return peer{}, err
	}
	binary, err := harness.FindProxy(haproxy)
	if err != nil {
		return peer{}, err
	}
	return s.startPeer(ctx, peer{name: haproxy, addr: addr}, binary, "-db", "-f", file)
}

// configure writes a proxy's configuration and returns its address and file.
func (s *stage) configure(name, text string) (addr, file string, err error) {
	if addr, err = harness.FreeAddress(); err != nil {
		return "", "", err
	}
	var b bytes.Buffer
	data := map[string]any{"Dir": s.dir, "Listen": addr, "Nodes": s.backend.Addrs, "Root": os.Geteuid() == 0, "Connections": s.connections}
	if err := template.Must(template.New(name).Parse(text)).Execute(&b, data); err != nil {
		return "", "", err
	}
	file = filepath.Join(s.dir, name)
	return addr, file, os.WriteFile(file, b.Bytes(), 0o600)
}

func (s *stage) startPeer(ctx context.Context, p peer, command ...string) (peer, error) {
	process, err := s.run(p.name, command...)
	if err != nil {
		return peer{}, err
	}
	p.pid = process.PID
	return p, eventually(ctx, p.name, func(ctx context.Context) error { return get(ctx, "http://"+p.addr+"/") })
}

// run starts a process whose output goes to a log in the stage's folder.
func (s *stage) run(name string, command ...string) (*harness.Process, error) {
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()              // the child has its own descriptor
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it lives until stop
	cmd.Stdout, cmd.Stderr = log, log
	p, err := harness.StartProcess(cmd)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, p)
	return p, nil
}

// eventually tries for at most 15 s, which ends what it tries, too.
func eventually(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := harness.Await(ctx, 50*time.Millisecond, func() error { return try(ctx) }); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

func get(ctx context.Context, url string) error {
	_, err := read(ctx, url)
	return err
}

// read returns what is answered with status 200.
func read(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", url, resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}

// freeAddresses returns two loopback addresses nobody else listens on.
func freeAddresses() (one, two string, err error) {
	if one, err = harness.FreeAddress(); err == nil {
		two, err = harness.FreeAddress()
	}
	return one, two, err
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}
