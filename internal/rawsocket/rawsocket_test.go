//go:build unix

package rawsocket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/rawsocket"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (*rawsocket.Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // to itself
	require.NoError(t, err)
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // to itself
	require.NoError(t, err)
	theirs, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return rawsocket.Of(ours.(*net.TCPConn)), theirs.(*net.TCPConn)
}

// What does not fit into the buffers of the system waits, both ways.
func TestLongMessagesArriveWhole(t *testing.T) {
	ours, theirs := pair(t)
	message := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	wrote := make(chan error, 2)
	go func() {
		var err error
		for part := range slices.Chunk(message, 64<<10) {
			_, err = ours.Write(part)
			if err != nil {
				break
			}
		}
		wrote <- err
	}()
	got := make([]byte, len(message))
	_, err := io.ReadFull(theirs, got)
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	require.True(t, bytes.Equal(message, got))
	go func() {
		_, err := theirs.Write(message)
		wrote <- err
	}()
	clear(got)
	for part := range slices.Chunk(got, 64<<10) {
		_, err = io.ReadFull(ours, part)
		require.NoError(t, err)
	}
	require.NoError(t, <-wrote)
	require.True(t, bytes.Equal(message, got))
}

func TestErrorsAreThoseOfPackageNet(t *testing.T) {
	ours, theirs := pair(t)
	var b [1]byte
	n, err := ours.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)

	require.NoError(t, ours.SetReadDeadline(time.Unix(1, 0)))
	_, err = ours.Read(b[:])
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "read", op.Op)
	require.True(t, op.Timeout())
	require.NoError(t, ours.SetReadDeadline(time.Time{}))

	require.NoError(t, theirs.CloseWrite())
	_, err = ours.Read(b[:])
	require.Equal(t, io.EOF, err)

	require.NoError(t, theirs.SetLinger(0))
	require.NoError(t, theirs.Close()) // resets it
	require.Eventually(t, func() bool { _, err = ours.Write(b[:]); return err != nil }, time.Minute, time.Millisecond)
	require.True(t, err != nil && (isAny(err, syscall.ECONNRESET, syscall.EPIPE)), err)

	require.NoError(t, ours.Close())
	_, err = ours.Read(b[:])
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = ours.Write(b[:])
	require.ErrorIs(t, err, net.ErrClosed)
}

func isAny(err error, numbers ...syscall.Errno) bool {
	for _, number := range numbers {
		var op *os.SyscallError
		if e, ok := err.(*net.OpError); ok { //nolint:errorlint // that it is the outermost is tested
			if op, ok = e.Err.(*os.SyscallError); ok && op.Err == number { //nolint:errorlint // as above
				return true
			}
		}
	}
	return false
}

func TestLongerMessagesAreLeftToPackageNet(t *testing.T) {
	ours, theirs := pair(t)
	message := bytes.Repeat([]byte("a"), 1<<20)
	wrote := make(chan error)
	go func() {
		_, err := ours.Write(message)
		wrote <- errors.Join(err, ours.CloseWrite())
	}()
	got, err := io.ReadAll(theirs)
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	require.Len(t, got, len(message))
	_, err = theirs.Write(message[:10])
	require.NoError(t, err)
	n, err := ours.Read(message)
	require.NoError(t, err)
	require.Positive(t, n)
}

// ends are the ways in which the other end of a connection ends it.
func ends() map[string]func(*net.TCPConn) error {
	return map[string]func(*net.TCPConn) error{
		"closed": (*net.TCPConn).Close,
		"half":   (*net.TCPConn).CloseWrite,
		"reset":  func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	}
}

func TestEnded(t *testing.T) {
	var b [1]byte
	for name, end := range ends() {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			require.False(t, ours.Ended())
			_, err := theirs.Write([]byte("a"))
			require.NoError(t, err)
			require.Eventually(t, func() bool { n, _ := ours.Read(b[:]); return n == 1 }, time.Minute, time.Millisecond)
			require.False(t, ours.Ended())
			require.NoError(t, end(theirs))
			require.Eventually(t, ours.Ended, time.Minute, time.Millisecond)
			require.True(t, ours.Ended(), "and it stays so")
		})
	}
	ours, theirs := pair(t)
	_, err := theirs.Write([]byte("a"))
	require.NoError(t, err)
	require.NoError(t, theirs.CloseWrite())
	require.Eventually(t, func() bool { return ours.Readable() }, time.Minute, time.Millisecond)
	require.False(t, ours.Ended(), "something is still to be read")
}

// What is sent is answered, unless something came before.
func TestSend(t *testing.T) {
	ours, theirs := pair(t)
	var b [4]byte
	for _, idle := range []bool{false, true} {
		go func() {
			n, _ := theirs.Read(b[:])
			_, _ = theirs.Write(b[:n])
		}()
		n, err := ours.Send([]byte("ping"), idle)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.True(t, ours.Readable())
		got := make([]byte, 4)
		_, err = io.ReadFull(ours, got)
		require.NoError(t, err)
		require.Equal(t, "ping", string(got))
		require.False(t, ours.Readable())
	}
	require.NoError(t, theirs.CloseWrite())
	require.Eventually(t, ours.Readable, time.Minute, time.Millisecond)
	n, err := ours.Send([]byte("ping"), true)
	require.Zero(t, n)
	require.ErrorIs(t, err, rawsocket.ErrStale)
	require.NoError(t, ours.Close())
	require.True(t, ours.Readable(), "reading would fail")
}
