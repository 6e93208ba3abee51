package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// listening is the state of a listening socket in Linux's tables of sockets.
const listening = "0A"

// backlog returns how many connections the nodes have not accepted. A node reads and
// carries out their searches in the order in which they came, also those of clients that
// have left meanwhile. It is 0 where the system does not tell.
func (s *stage) backlog() (float64, error) {
	ports := map[string]bool{}
	for _, node := range s.Cluster.Nodes {
		u, err := url.Parse(node.DirectURL)
		if err != nil {
			return 0, fmt.Errorf("count connections that are not accepted: %w", err)
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			return 0, fmt.Errorf("count connections that are not accepted: %w", err)
		}
		ports[fmt.Sprintf("%04X", port)] = true
	}
	sum := 0.0
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("count connections that are not accepted: %w", err)
		}
		n, err := notAccepted(string(table), ports)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		sum += n
	}
	return sum, nil
}

// notAccepted reads one of Linux's tables of sockets: of a listening one, the length of its
// receive queue is the number of connections that wait to be accepted. Ports are as there.
func notAccepted(table string, ports map[string]bool) (float64, error) {
	sum := 0.0
	for line := range strings.Lines(table) {
		fields := strings.Fields(line) // number, local, remote, state, queues, …
		if len(fields) < 5 || fields[3] != listening {
			continue
		}
		_, port, _ := strings.Cut(fields[1], ":")
		if !ports[port] {
			continue
		}
		_, queue, _ := strings.Cut(fields[4], ":")
		n, err := strconv.ParseUint(queue, 16, 32)
		if err != nil {
			return 0, fmt.Errorf("receive queue: %w", err)
		}
		sum += float64(n)
	}
	return sum, nil
}
