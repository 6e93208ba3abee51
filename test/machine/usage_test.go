package machine

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsage(t *testing.T) {
	proc := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(proc, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	require.Empty(t, readUsage(proc, 7).Others(), "no /proc")
	require.Zero(t, readUsage(proc, 7).Idle(), "no /proc")
	write("stat", "cpu  100 20 30 1000 5 1 2 3 99 0\ncpu0 1 2 3 4\n")
	// Fields 14 to 17 are 1, 2, 3, 4; the name has all that a parser trips over.
	process := func(pid, parent string) {
		write(pid+"/stat", pid+" (a) (b c) S "+parent+" 7 7 0 -1 4194560 0 0 0 0 1 2 3 4 20 0 1 0 0 0 0")
	}
	process("7", "1")
	process("8", "7")
	process("9", "8")
	process("10", "1")
	u := readUsage(proc, 7)
	require.Equal(t, Usage{All: 1161, Busy: 156, Own: 30}, u)
	var sum Usage
	sum.Add(Usage{All: 1061, Busy: 100, Own: 10}, u)
	require.Equal(t, "0.36", sum.Others())
	require.InDelta(t, 0.44*float64(runtime.NumCPU()), sum.Idle(), 1e-9)
}
