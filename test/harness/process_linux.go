package harness

import "syscall"

// processAttributes puts a node into a process group of its own, so that a
// signal reaches the engine's launcher and the JVM it starts, and has it die
// with us however we end.
func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: owner}
}
