//go:build unix

package app

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time, of the user and of the system, that the process has used.
func cpuTime() (used time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
