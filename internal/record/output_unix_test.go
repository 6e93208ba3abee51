//go:build unix

package record

import (
	"fmt"
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

// systemd makes standard output a socket, which /dev/stdout cannot open.
func TestStandardOutputMayBeASocket(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	journal, stdout := os.NewFile(uintptr(ends[0]), "journal"), os.Stdout
	os.Stdout = os.NewFile(uintptr(ends[1]), "stdout")
	t.Cleanup(func() {
		_, _ = journal.Close(), os.Stdout.Close()
		os.Stdout = stdout
	})
	out, err := open(fmt.Sprintf("/dev/fd/%d", ends[1]))
	require.NoError(t, err)
	_, err = out.Write([]byte("line"))
	require.NoError(t, err)
	out.close()
	read := make([]byte, 4)
	_, err = journal.Read(read)
	require.NoError(t, err)
	require.Equal(t, "line", string(read))
}
