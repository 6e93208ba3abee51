//go:build unix && !linux

package harness

import "syscall"

// processAttributes puts a node into a process group of its own, so that a
// signal reaches the engine's launcher and the JVM it starts. Without Linux's
// parent death signal a node outlives us if we are killed.
func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner}
}
