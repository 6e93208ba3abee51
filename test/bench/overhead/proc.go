package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sidestep/test/machine"
)

// usage is what a process and its children have used and hold.
type usage struct {
	cpu      time.Duration // user and system time since they began
	resident int64         // bytes
}

// usageOf sums a process and all below it (nginx works in a child).
func usageOf(pid int) (sum usage, err error) {
	processes, err := tree(pid)
	for _, p := range processes {
		sum.cpu += p.CPU
		sum.resident += p.Resident
	}
	return sum, err
}

// tree returns a process and all below it.
func tree(pid int) ([]machine.Process, error) {
	all, err := machine.Processes()
	if err != nil {
		return nil, err
	}
	below := machine.Tree(all, pid)
	if len(below) == 0 {
		return nil, fmt.Errorf("process %d has ended", pid)
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
	for _, p := range processes {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/status", p.PID))
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
