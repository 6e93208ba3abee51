package harness

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A program that does not heed the signal is killed, and what it started with it.
func TestAProcessEnds(t *testing.T) {
	for name, script := range map[string]string{"heeds": "echo x; sleep 600", "does not": `trap "" INT; echo x; sleep 600; sleep 600`} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		p, err := StartProcess(cmd)
		require.NoError(t, err)
		_, err = bufio.NewReader(out).ReadString('\n') // the trap is set
		require.NoError(t, err)
		require.Error(t, p.End(syscall.SIGINT, 100*time.Millisecond), name)
		require.True(t, p.ended(), name)
		require.Eventually(t, func() bool {
			members, err := processGroup(p.PID)
			return err == nil && len(members) == 0
		}, time.Minute, 10*time.Millisecond, name)
		require.ErrorIs(t, p.signal(syscall.SIGINT), os.ErrProcessDone)
	}
}
