package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"sidestep/test/bench/plain"
)

// peer is one way to the cluster.
type peer struct {
	name string
	addr string // host:port that the load goes to
	pid  int    // 0 for the direct connection
}

// stage holds the processes of a comparison.
type stage struct {
	dir       string
	processes []*exec.Cmd
}

// start runs the backend and all proxies and returns once each answers. The
// direct connection comes first.
func (s *stage) start(ctx context.Context, sidestep string) ([]peer, error) {
	nodes, err := s.startBackend(ctx)
	if err != nil {
		return nil, err
	}
	peers := []peer{{name: "direct", addr: nodes[0]}}
	for _, begin := range []func(context.Context, []string) (peer, error){
		func(ctx context.Context, nodes []string) (peer, error) { return s.startSidestep(ctx, sidestep, nodes) },
		s.startPlain, s.startNginx, s.startHaproxy,
	} {
		p, err := begin(ctx, nodes)
		if err != nil {
			return nil, err
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// stop ends the processes, the last started first.
func (s *stage) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		cmd := s.processes[i]
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // exec.Cmd.WaitDelay bounds it
	}
}

func (s *stage) startBackend(ctx context.Context) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ready := filepath.Join(s.dir, "nodes.json")
	if _, err := s.run(ctx, "backend", self, "backend", "-ready", ready); err != nil {
		return nil, err
	}
	var nodes []string
	err = eventually(ctx, "the simulated cluster", func() error {
		text, err := os.ReadFile(ready)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &nodes)
	})
	return nodes, err
}

func (s *stage) startSidestep(ctx context.Context, binary string, nodes []string) (peer, error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return peer{}, err
	}
	cmd, err := s.run(ctx, "sidestep", binary,
		"--upstream", "http://"+strings.Join(nodes, ",http://"), "--listen", ports[0], "--admin", ports[1])
	if err != nil {
		return peer{}, err
	}
	p := peer{name: "sidestep", addr: ports[0], pid: cmd.Process.Pid}
	if err := eventually(ctx, "sidestep", func() error { return get(ctx, "http://"+ports[1]+"/-/ready") }); err != nil {
		return peer{}, err
	}
	return p, steers(ctx, p)
}

// steers fails unless searches through p are rewritten: a sidestep that only
// passes requests on would flatter the table.
func steers(ctx context.Context, p peer) error {
	return eventually(ctx, "sidestep to steer", func() error {
		for _, size := range answerSizes() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+searchPath(size), strings.NewReader(searchBody))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Sidestep-Explain", "1")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				return err
			}
			decision := resp.Header.Get("X-Sidestep-Decision")
			if !strings.Contains(decision, "mode=route") || !strings.Contains(decision, "nodes=") {
				return fmt.Errorf("status %d, decision %q", resp.StatusCode, decision)
			}
			if off := len(body) - size; max(off, -off) > size/6 {
				return fmt.Errorf("an answer of about %d bytes has %d", size, len(body))
			}
		}
		return nil
	})
}

func (s *stage) startPlain(ctx context.Context, nodes []string) (peer, error) {
	self, err := os.Executable()
	if err != nil {
		return peer{}, err
	}
	ports, err := freeAddresses(1)
	if err != nil {
		return peer{}, err
	}
	return s.startPeer(ctx, peer{name: "httputil.ReverseProxy", addr: ports[0]},
		self, plain.Command, "-listen", ports[0], "-nodes", strings.Join(nodes, ","))
}

func (s *stage) startNginx(ctx context.Context, nodes []string) (peer, error) {
	addr, file, err := s.configure("nginx.conf", nginxConf, nodes)
	if err != nil {
		return peer{}, err
	}
	return s.startPeer(ctx, peer{name: "nginx", addr: addr}, find("nginx"), "-p", s.dir, "-c", file, "-e", "stderr")
}

func (s *stage) startHaproxy(ctx context.Context, nodes []string) (peer, error) {
	addr, file, err := s.configure("haproxy.cfg", haproxyConf, nodes)
	if err != nil {
		return peer{}, err
	}
	return s.startPeer(ctx, peer{name: "haproxy", addr: addr}, find("haproxy"), "-db", "-f", file)
}

// configure writes a proxy's configuration and returns its address and file.
func (s *stage) configure(name, text string, nodes []string) (addr, file string, err error) {
	ports, err := freeAddresses(1)
	if err != nil {
		return "", "", err
	}
	var b bytes.Buffer
	data := map[string]any{"Dir": s.dir, "Listen": ports[0], "Nodes": nodes, "Root": os.Geteuid() == 0}
	if err := template.Must(template.New(name).Parse(text)).Execute(&b, data); err != nil {
		return "", "", err
	}
	file = filepath.Join(s.dir, name)
	return ports[0], file, os.WriteFile(file, b.Bytes(), 0o600)
}

func (s *stage) startPeer(ctx context.Context, p peer, command ...string) (peer, error) {
	cmd, err := s.run(ctx, p.name, command...)
	if err != nil {
		return peer{}, err
	}
	p.pid = cmd.Process.Pid
	return p, eventually(ctx, p.name, func() error { return get(ctx, "http://"+p.addr+"/") })
}

// run starts a process whose output goes to a log in the stage's folder.
func (s *stage) run(ctx context.Context, name string, command ...string) (*exec.Cmd, error) {
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s.processes = append(s.processes, cmd)
	return cmd, nil
}

// eventually tries for at most 15 s.
func eventually(ctx context.Context, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, resp.StatusCode)
	}
	return nil
}

// freeAddresses returns n loopback addresses nobody listens on now.
func freeAddresses(n int) ([]string, error) {
	out := make([]string, n)
	for i := range out {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // answers at once
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:gocritic // all stay open until the last, so that all differ
		out[i] = l.Addr().String()
	}
	return out, nil
}

// find also looks where Debian keeps daemons, which is not on every user's path.
func find(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	return filepath.Join("/usr/sbin", program)
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}

const nginxConf = `daemon off;
worker_processes 1;
{{if .Root}}user root;{{end}}
pid {{.Dir}}/nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path {{.Dir}}/body;
  proxy_temp_path {{.Dir}}/proxy;
  fastcgi_temp_path {{.Dir}}/fastcgi;
  uwsgi_temp_path {{.Dir}}/uwsgi;
  scgi_temp_path {{.Dir}}/scgi;
  keepalive_requests 100000000;
  upstream nodes {
    {{range .Nodes}}server {{.}};
    {{end}}
    keepalive 256;
    keepalive_requests 100000000;
  }
  server {
    listen {{.Listen}};
    location / {
      proxy_pass http://nodes;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffers 16 8k;
    }
  }
}
`

const haproxyConf = `global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend searches
  bind {{.Listen}}
  default_backend nodes
backend nodes
  balance roundrobin
{{range $i, $node := .Nodes}}  server n{{$i}} {{$node}}
{{end}}`
