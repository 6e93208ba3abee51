package app

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// socket is one to inherit: a file of this name, and its address.
func socket(t *testing.T, name string) (file *os.File, address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	duplicate, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	return named(t, duplicate, name), l.Addr().String()
}

// named returns file by another name, as LISTEN_FDNAMES would give it.
func named(t *testing.T, file *os.File, name string) *os.File {
	t.Helper()
	descriptor, err := syscall.Dup(int(file.Fd()))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	again := os.NewFile(uintptr(descriptor), name)
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func TestInheritedSockets(t *testing.T) {
	first, one := socket(t, "sidestep.socket")
	second, two := socket(t, "sidestep.socket")
	admin, three := socket(t, "admin")
	data, four := socket(t, "data")
	for name, c := range map[string]struct {
		files       []*os.File
		data, admin string
	}{
		"none":                {nil, "", ""},
		"by order":            {[]*os.File{first, second}, one, two},
		"one":                 {[]*os.File{second}, two, ""},
		"by name":             {[]*os.File{admin, data}, four, three},
		"one by name":         {[]*os.File{admin}, "", three},
		"same again, by name": {[]*os.File{data}, four, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sockets, err := socketsOf(c.files)
			require.NoError(t, err)
			defer sockets.close()
			for want, got := range map[string]net.Listener{c.data: sockets.Data, c.admin: sockets.Admin} {
				if want != "" {
					require.Equal(t, want, got.Addr().String())
				}
			}
			require.Equal(t, c.data == "", sockets.Data == nil)
			require.Equal(t, c.admin == "", sockets.Admin == nil)
		})
	}
}

func TestInheritedSocketsThatAreOfNoUse(t *testing.T) {
	plain, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	packets, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer packets.Close()
	datagrams, err := packets.(*net.UDPConn).File()
	require.NoError(t, err)
	data, _ := socket(t, "data")
	again, _ := socket(t, "data")
	other, _ := socket(t, "metrics")
	first, _ := socket(t, "sidestep.socket")
	for want, files := range map[string][]*os.File{
		"LISTEN_FDS: socket 1 of 1 (LISTEN_FD_3): is not a stream socket: ":                     {named(t, plain, "LISTEN_FD_3")},
		"LISTEN_FDS: socket 2 of 2 (admin): is not a stream socket: ":                           {data, named(t, datagrams, "admin")},
		"LISTEN_FDS: socket 2 of 2 (data): is the second for data: give one (one ListenStream=": {data, again},
		"LISTEN_FDS: socket 2 of 2 (metrics): it is not used: ":                                 {data, other},
		"LISTEN_FDS: socket 3 of 3 (sidestep.socket): it is not used: there are at most ":       {first, first, first},
	} {
		_, err := socketsOf(files)
		require.ErrorContains(t, err, want)
	}
}

// A supervisor that starts another process with the socket makes it blocking, for all that
// share it; no connection comes any more that would end an accept.
func TestInheritedSocketThatIsMadeBlockingCloses(t *testing.T) {
	file, address := socket(t, "data")
	sockets, err := socketsOf([]*os.File{file})
	require.NoError(t, err)
	accepted, ended := make(chan error, 2), make(chan error, 1)
	go func() {
		for {
			conn, err := sockets.Data.Accept()
			accepted <- err
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	const settle = 10 * time.Millisecond // until it waits for a connection
	time.Sleep(settle)
	require.NoError(t, syscall.SetNonblock(int(file.Fd()), false))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, <-accepted)
	time.Sleep(settle)
	go func() { ended <- sockets.Data.Close() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the socket is not closed: an accept waits in it for a connection")
	}
	require.ErrorIs(t, <-accepted, net.ErrClosed)
}
