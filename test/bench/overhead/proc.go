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
	each, err := tree(pid)
	var sum usage
	for _, u := range each {
		sum.cpu += u.cpu
		sum.resident += u.resident
	}
	return sum, err
}

// tree returns a process and all below it.
func tree(pid int) (map[int]usage, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
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
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		children[parent] = append(children[parent], id)
		each[id] = u
	}
	if _, ok := each[pid]; !ok {
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	below := map[int]usage{}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		below[queue[0]] = each[queue[0]]
		queue = append(queue, children[queue[0]]...)
	}
	return below, nil
}

// switchesOf returns how often each thread of a process and of all below it has been
// switched away from, voluntarily or not, by the thread's number.
func switchesOf(pid int) (map[int]int64, error) {
	processes, err := tree(pid)
	if err != nil {
		return nil, err
	}
	counts := map[int]int64{}
	for id := range processes {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/status", id))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // it has ended
			}
			thread, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return nil, err
			}
			if counts[thread], err = parseSwitches(string(text)); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return counts, nil
}

// switched returns how many switches there were between two readings of [switchesOf].
// What a thread did that has ended in between is not known and not counted: these
// programs keep their threads.
func switched(before, after map[int]int64) int64 {
	var sum int64
	for thread, n := range after {
		sum += n - before[thread]
	}
	return sum
}

// parseSwitches sums the two counts of context switches in /proc/PID/task/TID/status.
func parseSwitches(text string) (int64, error) {
	var sum int64
	found := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if name != "voluntary_ctxt_switches" && name != "nonvoluntary_ctxt_switches" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
		found++
	}
	if found != 2 {
		return 0, fmt.Errorf("%d of 2 counts of context switches", found)
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
