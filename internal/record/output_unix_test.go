//go:build unix

package record

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// To open a pipe waits for its other end.
func TestAPipeIsNoOutput(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	refused := pipe + " is neither a file nor a character device: name a file, stdout or stderr"
	_, err := Open(Options{Name: "access", Output: pipe})
	require.ErrorContains(t, err, refused)
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer reader.Close()
	_, err = Open(Options{Name: "access", Output: pipe})
	require.ErrorContains(t, err, refused, "also while it is read")
	out, err := open(os.DevNull)
	require.NoError(t, err)
	out.close()
}
