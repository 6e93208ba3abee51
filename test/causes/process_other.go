//go:build unix && !linux

package causes

import "syscall"

// processAttributes puts a process into a group of its own, as Ctrl-C is ours to hand
// on. Without Linux's parent death signal it outlives us if we are killed.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
