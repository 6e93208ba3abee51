//go:build unix && !linux

package harness

import "syscall"

// ProcessAttributes put a process into a group of its own, so that Ctrl-C is ours to hand
// on and a signal reaches what it starts in turn. Without Linux's parent death signal it
// outlives us if we are killed. It runs as owner, if that is not nil.
func ProcessAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner}
}
