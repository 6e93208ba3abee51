package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of utime and stime in /proc: USER_HZ is 100 on every Linux
// that Go runs on.
const tick = 10 * time.Millisecond

// usage is what a process and its children have used and hold.
type usage struct {
	cpu      time.Duration // user and system time since they began
	resident int64         // bytes
}

// usageOf sums a process and all below it (nginx works in a child).
func usageOf(pid int) (usage, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return usage{}, err
	}
	children := map[int][]int{}
	each := map[int]usage{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		id, parent, u, err := parseStat(string(text))
		if err != nil {
			return usage{}, fmt.Errorf("%s: %w", file, err)
		}
		children[parent] = append(children[parent], id)
		each[id] = u
	}
	if _, ok := each[pid]; !ok {
		return usage{}, fmt.Errorf("process %d has ended", pid)
	}
	var sum usage
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		sum.cpu += each[queue[0]].cpu
		sum.resident += each[queue[0]].resident
		queue = append(queue, children[queue[0]]...)
	}
	return sum, nil
}

// parseStat reads /proc/PID/stat; see proc_pid_stat(5) for the columns. The
// second one, the command in parentheses, may itself hold blanks.
func parseStat(text string) (pid, parent int, u usage, err error) {
	head, rest, ok := strings.Cut(text, " (")
	end := strings.LastIndexByte(rest, ')')
	if !ok || end < 0 {
		return 0, 0, usage{}, fmt.Errorf("unreadable: %q", text)
	}
	fields := strings.Fields(rest[end+1:]) // fields[0] is column 3
	if len(fields) < 22 {
		return 0, 0, usage{}, fmt.Errorf("only %d columns", len(fields)+2)
	}
	number := func(s string) int64 {
		n, failed := strconv.ParseInt(s, 10, 64)
		if failed != nil && err == nil {
			err = failed
		}
		return n
	}
	u.cpu = time.Duration(number(fields[11])+number(fields[12])) * tick
	u.resident = number(fields[21]) * int64(os.Getpagesize())
	return int(number(head)), int(number(fields[1])), u, err
}
