package causes

import "syscall"

// processAttributes puts a process into a group of its own, as Ctrl-C is ours to hand
// on, and has it die with us however we end.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
