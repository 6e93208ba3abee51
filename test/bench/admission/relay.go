package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sidestep/test/harness"
)

// armRelay is the client before HAProxy, which decides nothing: what it gets less than
// direct, a second connection for each search costs.
const armRelay = "relay"

// relayLimit bounds the wait for HAProxy to listen.
const relayLimit = 10 * time.Second

// relayConf has connections closed toward the nodes when clients leave, as sidestep does.
const relayConf = `global
  nbthread 1
  maxconn 8000
defaults
  mode http
  option abortonclose
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend searches
  bind %s
  default_backend nodes
backend nodes
  balance roundrobin
`

// configureRelay returns the configuration of a relay that listens at an address.
func configureRelay(listen string, nodes []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, relayConf, listen)
	for i, node := range nodes {
		u, err := url.Parse(node)
		if err != nil {
			return "", fmt.Errorf("configure the relay: %w", err)
		}
		fmt.Fprintf(&b, "  server n%d %s\n", i, u.Host)
	}
	return b.String(), nil
}

// startRelay starts one and returns its address, and what stops it.
func (s *stage) startRelay(ctx context.Context) (address string, stop func(), err error) {
	binary, err := harness.FindProxy("haproxy")
	if err != nil {
		return "", nil, err
	}
	listen, err := harness.FreeAddress()
	if err != nil {
		return "", nil, fmt.Errorf("start the relay: %w", err)
	}
	conf, err := configureRelay(listen, s.Cluster.URLs())
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "sidestep-relay-")
	if err != nil {
		return "", nil, fmt.Errorf("start the relay: %w", err)
	}
	file := filepath.Join(dir, "haproxy.cfg")
	stop = func() { _ = os.RemoveAll(dir) }
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		stop()
		return "", nil, fmt.Errorf("start the relay: %w", err)
	}
	relay, err := harness.StartProcess(exec.Command(binary, "-db", "-f", file)) //nolint:noctx // it lives until stop
	if err != nil {
		stop()
		return "", nil, err
	}
	stop = func() {
		_ = relay.End(syscall.SIGKILL, time.Minute)
		_ = os.RemoveAll(dir)
	}
	if err := awaitListener(ctx, listen); err != nil {
		stop()
		return "", nil, fmt.Errorf("start the relay: %w", err)
	}
	return "http://" + listen, stop, nil
}

// awaitListener waits until an address accepts connections.
func awaitListener(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, relayLimit)
	defer cancel()
	return harness.Await(ctx, 20*time.Millisecond, func() error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
