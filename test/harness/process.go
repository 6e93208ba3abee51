package harness

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a program that runs beside us, in a process group of its own.
type Process struct {
	PID  int
	gone chan struct{} // closed when it has ended
	err  error         // how; to be read after gone is closed
}

// StartProcess starts a program that lives until it is ended, or as long as we do.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = ProcessAttributes(nil)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &Process{PID: cmd.Process.Pid, gone: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

func (p *Process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process group.
func (p *Process) signal(signal syscall.Signal) error {
	if p.ended() {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.PID, signal)
}

// End ends it by a signal, and kills it if that takes too long. It is gone when End returns how it ended.
func (p *Process) End(signal syscall.Signal, within time.Duration) error {
	_ = p.signal(signal) // it may have ended
	select {
	case <-p.gone:
		return p.err
	case <-time.After(within):
		_ = p.signal(syscall.SIGKILL) // likewise
		<-p.gone
		return fmt.Errorf("it did not end within %s, and was killed", within)
	}
}
