package app

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
)

// Sockets are those that a supervisor has opened, such as systemd. They stay open
// when the process ends, so that a restart refuses no connection. Each may be nil.
type Sockets struct {
	Data, Admin net.Listener
}

// Names of inherited sockets in LISTEN_FDNAMES.
const (
	dataSocket  = "data"
	adminSocket = "admin"
)

// InheritSockets returns the sockets that the environment tells of (LISTEN_FDS,
// LISTEN_PID, LISTEN_FDNAMES) and removes these variables, so that no other process
// takes the sockets for its own. If one of them is named data or admin, the names say
// which is which; else the first is for data and the second for admin. It is for the
// process, whatever runs in it: call it once.
func InheritSockets() (Sockets, error) {
	files := activation.Files(true)
	defer func() {
		for _, file := range files {
			_ = file.Close() // a listener has a descriptor of its own
		}
	}()
	return socketsOf(files)
}

// socketsOf returns the listeners of files, which keep their own descriptors.
func socketsOf(files []*os.File) (Sockets, error) {
	var s Sockets
	named := false
	for _, file := range files {
		named = named || file.Name() == dataSocket || file.Name() == adminSocket
	}
	for i, file := range files {
		name := file.Name()
		if !named && i < 2 {
			name = []string{dataSocket, adminSocket}[i]
		}
		if err := s.take(name, file); err != nil {
			s.close()
			return Sockets{}, fmt.Errorf("LISTEN_FDS: socket %d of %d (%s): %w", i+1, len(files), file.Name(), err)
		}
	}
	return s, nil
}

// take makes file the listener of this name.
func (s *Sockets) take(name string, file *os.File) error {
	var place *net.Listener
	switch name {
	case dataSocket:
		place = &s.Data
	case adminSocket:
		place = &s.Admin
	default:
		return errors.New("there is no use for it: at most two are taken, and names are data and admin")
	}
	if *place != nil {
		return fmt.Errorf("is the second for %s", name)
	}
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("is no stream socket: %w", err)
	}
	*place = listener
	return nil
}

func (s *Sockets) close() {
	for _, l := range []net.Listener{s.Data, s.Admin} {
		if l != nil {
			_ = l.Close()
		}
	}
}
