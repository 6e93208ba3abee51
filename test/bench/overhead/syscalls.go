package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sidestep/test/harness"
)

// tracer counts the system calls of running processes.
type tracer struct {
	name    string // as the table tells it
	command func(pids []string, out string) []string
	parse   func(text string) (int64, error)
}

// findTracer returns perf where it may count system calls, as it costs a process
// nearly nothing, else strace, under which a process is many times slower.
func findTracer(ctx context.Context, dir string) (tracer, error) {
	out := filepath.Join(dir, "perf.txt")
	if exec.CommandContext(ctx, "perf", "stat", "-x", ",", "-o", out, "-e", sysEnter, "true").Run() == nil {
		if text, err := os.ReadFile(out); err == nil {
			if n, err := parsePerf(string(text)); err == nil && n > 0 {
				return tracer{name: "`perf stat -e " + sysEnter + "`", command: perfCommand, parse: parsePerf}, nil
			}
		}
	}
	if _, err := exec.LookPath("strace"); err == nil {
		return tracer{name: "`strace -c -f`, which slows a process down", command: straceCommand, parse: parseStrace}, nil
	}
	return tracer{}, errors.New("system calls cannot be counted: install strace (Debian: apt-get install strace), or perf with the right to trace")
}

const sysEnter = "raw_syscalls:sys_enter"

func perfCommand(pids []string, out string) []string {
	return []string{"perf", "stat", "-x", ",", "-o", out, "-e", sysEnter, "-p", strings.Join(pids, ",")}
}

func straceCommand(pids []string, out string) []string {
	command := []string{"strace", "-c", "-f", "-o", out}
	for _, pid := range pids {
		command = append(command, "-p", pid)
	}
	return command
}

// attachTime is how long a tracer is given to find all threads before the load begins.
const attachTime = time.Second

// count returns how many system calls p and the processes below it make while load
// runs.
func (t tracer) count(ctx context.Context, dir string, p peer, load func() error) (int64, error) {
	processes, err := tree(p.pid)
	if err != nil {
		return 0, err
	}
	var pids []string
	for _, p := range processes {
		pids = append(pids, strconv.Itoa(p.PID))
	}
	out := filepath.Join(dir, "trace-"+p.name+".txt")
	command := t.command(pids, out)
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it lives until the load ends
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	tracing, err := harness.StartProcess(cmd)
	if err != nil {
		return 0, fmt.Errorf("count system calls: %w", err)
	}
	if err = harness.Pause(ctx, attachTime); err == nil {
		err = load()
	}
	_ = tracing.End(syscall.SIGINT, stopLimit) // it was interrupted, and says so
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return 0, fmt.Errorf("count system calls: %w: %s", err, said.String())
	}
	n, err := t.parse(string(text))
	if err != nil {
		return 0, fmt.Errorf("count system calls: %w: %s", err, said.String())
	}
	return n, nil
}

// parsePerf reads what perf stat -x, writes.
func parsePerf(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if fields := strings.Split(line, ","); len(fields) > 2 && fields[2] == sysEnter {
			return strconv.ParseInt(fields[0], 10, 64)
		}
	}
	return 0, errors.New("perf counted nothing")
}

// parseStrace sums the column "calls" of what strace -c writes. The line of totals has
// other columns in other versions.
func parseStrace(text string) (int64, error) {
	var sum int64
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[len(fields)-1] == "total" {
			continue
		}
		if _, err := strconv.ParseFloat(fields[0], 64); err != nil {
			continue // a heading
		}
		n, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	if sum == 0 {
		return 0, errors.New("strace counted nothing")
	}
	return sum, nil
}
