package harness

import "syscall"

// ProcessAttributes put a process into a group of its own, so that Ctrl-C is ours to hand
// on and a signal reaches what it starts in turn, and have it die with us however we end.
// It runs as owner, if that is not nil.
func ProcessAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: owner}
}
