package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sidestep/test/harness"
)

// state is what "up" notes for "down", and for whoever wants the addresses.
type state struct {
	PID          int    `json:"pid"` // of the process in the background
	Distribution string `json:"distribution"`
	Version      string `json:"version"`
	Dir          string `json:"dir"`
	Nodes        []node `json:"nodes"`
}

type node struct {
	Name      string `json:"name"`
	ID        string `json:"id"`
	PID       int    `json:"pid"`
	URL       string `json:"url"`        // through the proxy, if there is one
	DirectURL string `json:"direct_url"` // past it
}

func writeState(path string, cluster *harness.Cluster) error {
	s := state{PID: os.Getpid(), Distribution: cluster.Distribution, Version: cluster.Version, Dir: cluster.Dir}
	for _, n := range cluster.Nodes {
		s.Nodes = append(s.Nodes, node{n.Name, n.ID, n.PID(), n.HTTPURL, n.DirectURL})
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	// In one step: "up" reads it as soon as it is there.
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}

// readState returns nil without an error if no cluster is noted, or if the one
// noted is no longer running.
func readState(path string) (*state, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state file: %w", err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("read the state file %s: %w", path, err)
	}
	if !ours(s.PID, path) {
		return nil, os.Remove(path) // left behind by a crash or a reboot
	}
	return &s, nil
}

// ours reports whether pid still is the process that wrote the state file, and
// not another one that got its number since.
func ours(pid int, path string) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, fs.ErrNotExist) {
		_, err := os.Stat("/proc/self")
		return err != nil // no /proc on this system: the pid has to do
	}
	return err == nil && strings.Contains(string(cmdline), "serve\x00") && strings.Contains(string(cmdline), path)
}

func (s *state) print() {
	fmt.Printf("%s %s, %d nodes:\n", s.Distribution, s.Version, len(s.Nodes))
	for _, n := range s.Nodes {
		fmt.Printf("  %s  %s\n", n.Name, n.URL)
	}
}

// up starts this program again in the background, shows its progress and
// returns when the cluster is up.
func up(a arguments, flags []string) error {
	running, err := readState(a.state)
	if err != nil {
		return err
	}
	if running != nil {
		fmt.Println("a cluster is running already; stop it with down")
		running.print()
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	logPath := a.state + ".log"
	output, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	defer func() { _ = output.Close() }()
	arguments := append(append([]string{"serve"}, flags...), "-state", a.state)
	cmd := exec.Command(self, arguments...) //nolint:noctx // it outlives us
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err = follow(ctx, a.state, logPath, ended)
	if errors.Is(err, context.Canceled) { // down does not see it yet
		err = errors.Join(err, abandon(cmd.Process, ended))
	}
	return err
}

// abandon ends the background process, which stops its nodes first; if it does not obey it is
// killed, and its nodes die with it.
func abandon(serving *os.Process, ended <-chan error) error {
	if err := serving.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	select {
	case err := <-ended:
		fmt.Println("the cluster is stopped:", err)
		return nil
	case <-time.After(obedience):
		return serving.Kill()
	}
}

// obedience is how long the background process may take to end.
const obedience = 30 * time.Second

// follow copies the log to our output until the state file is there, the background
// process has ended, or ctx.
func follow(ctx context.Context, statePath, logPath string, ended <-chan error) error {
	log, err := os.Open(logPath)
	if err != nil {
		return fmt.Errorf("follow the start: %w", err)
	}
	defer func() { _ = log.Close() }()
	for {
		if _, err := io.Copy(os.Stdout, log); err != nil {
			return fmt.Errorf("follow the start: %w", err)
		}
		if s, err := readState(statePath); err != nil || s != nil {
			if s != nil {
				s.print()
			}
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the start is given up: %w", ctx.Err())
		case err := <-ended:
			_, copyErr := io.Copy(os.Stdout, log)
			return errors.Join(fmt.Errorf("the cluster did not start: %w", err), copyErr)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// down ends the process in the background, which stops its nodes first; if it
// does not obey it is killed, and its nodes die with it.
func down(path string) error {
	s, err := readState(path)
	if err != nil {
		return err
	}
	if s == nil {
		fmt.Println("no cluster is running")
		return nil
	}
	if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	for end := time.Now().Add(obedience); time.Now().Before(end); {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			fmt.Println("the cluster is stopped")
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the cluster: %w", err)
	}
	fmt.Printf("the cluster was killed; its files stay in %s\n", s.Dir)
	return os.Remove(path)
}
