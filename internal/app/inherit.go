package app

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
)

// Sockets are listening sockets that a supervisor, such as systemd, has opened. They stay
// open when the process ends, so that a restart refuses no connection. Each may be nil.
type Sockets struct {
	Data, Admin net.Listener
}

// Names of inherited sockets in LISTEN_FDNAMES.
const (
	dataSocket  = "data"
	adminSocket = "admin"
)

// InheritSockets returns the sockets that the environment describes (LISTEN_FDS,
// LISTEN_PID, LISTEN_FDNAMES) and removes these variables, so that child processes do not
// use the sockets. If one of them is named data or admin the names count; else the first
// is for data and the second for admin. It concerns the whole process: call it once.
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
		return errors.New("it is not used: there are at most two sockets, with the names data and admin")
	}
	if *place != nil {
		return fmt.Errorf("is the second for %s: give one (one ListenStream= in the unit of systemd)", name)
	}
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("is not a stream socket: %w", err)
	}
	*place, err = share(listener)
	return err
}

func (s *Sockets) close() {
	for _, l := range []net.Listener{s.Data, s.Admin} {
		if l != nil {
			_ = l.Close()
		}
	}
}
