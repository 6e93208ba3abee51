// Package machine tells what a measurement ran on: the processor, and how busy it was
// with other things.
package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// Usage is CPU time in the kernel's ticks since the machine started: of all cores,
// and of this process with all it started.
type Usage struct{ All, Busy, Own int64 }

// ReadUsage reads what this process and all others have used; zero where that is not known, as where
// there is no /proc.
func ReadUsage() Usage { return readUsage("/proc", os.Getpid()) }

func readUsage(proc string, self int) Usage {
	data, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return Usage{}
	}
	var u Usage
	line, _, _ := bytes.Cut(data, []byte("\n"))
	// cpu user nice system idle iowait irq softirq steal guest …; guest is in user.
	for i, field := range bytes.Fields(line) {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if i == 0 || i > 8 || err != nil {
			continue
		}
		u.All += n
		if i != 4 && i != 5 {
			u.Busy += n
		}
	}
	all, err := readProcesses(proc)
	if err != nil {
		return Usage{}
	}
	for _, p := range Tree(all, self) {
		u.Own += int64((p.CPU + p.Waited) / tick)
	}
	return u
}

// Add adds what was used between two readings.
func (u *Usage) Add(before, after Usage) {
	u.All += after.All - before.All
	u.Busy += after.Busy - before.Busy
	u.Own += after.Own - before.Own
}

// Idle is how many cores had nothing to do; 0 if it is not known.
func (u Usage) Idle() float64 {
	if u.All <= 0 {
		return 0
	}
	return float64(runtime.NumCPU()) * float64(u.All-u.Busy) / float64(u.All)
}

// Others is the share of the machine that others used: more than a few hundredths
// and latencies tell about them. Empty if it is not known.
func (u Usage) Others() string {
	if u.All <= 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", max(0, float64(u.Busy-u.Own)/float64(u.All)))
}
