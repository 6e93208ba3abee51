package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Process is what the kernel tells of a process.
type Process struct {
	PID, Parent, Group int
	CPU                time.Duration // user and system time since it began
	Waited             time.Duration // that of its children that have ended
	Resident           int64         // bytes
}

// Processes returns those that there are now.
func Processes() ([]Process, error) { return readProcesses("/proc") }

func readProcesses(proc string) ([]Process, error) {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		p, err := parseProcess(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Tree returns a process and all below it; nothing if it has ended.
func Tree(all []Process, pid int) []Process {
	children := map[int][]Process{}
	var tree []Process
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
		if p.PID == pid {
			tree = []Process{p}
		}
	}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i].PID]...)
	}
	return tree
}

// parseProcess reads /proc/PID/stat; see proc_pid_stat(5) for the columns. The second one, the
// command in parentheses, may itself hold blanks and parentheses.
func parseProcess(text string) (p Process, err error) {
	head, rest, ok := strings.Cut(text, " (")
	end := strings.LastIndexByte(rest, ')')
	if !ok || end < 0 {
		return p, fmt.Errorf("unreadable: %q", text)
	}
	fields := strings.Fields(rest[end+1:]) // fields[0] is column 3
	if len(fields) < 22 {
		return p, fmt.Errorf("only %d columns", len(fields)+2)
	}
	number := func(s string) int64 {
		n, failed := strconv.ParseInt(s, 10, 64)
		if failed != nil && err == nil {
			err = failed
		}
		return n
	}
	p = Process{
		PID: int(number(head)), Parent: int(number(fields[1])), Group: int(number(fields[2])),
		CPU:      time.Duration(number(fields[11])+number(fields[12])) * tick,
		Waited:   time.Duration(number(fields[13])+number(fields[14])) * tick,
		Resident: number(fields[21]) * int64(os.Getpagesize()),
	}
	return p, err
}
