package record

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// filePermissions let the group of the process read a log, as is usual for logs.
const filePermissions = 0o640

// output is where lines go.
type output struct {
	io.Writer
	file *os.File // to be closed; nil for standard output and error
}

// open opens an output by its name.
func open(name string) (output, error) {
	switch name {
	case Stdout:
		return output{Writer: os.Stdout}, nil
	case Stderr:
		return output{Writer: os.Stderr}, nil
	}
	// Where the output is a pipe that nobody reads, opening it would wait.
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, filePermissions)
	switch info, _ := os.Stat(name); {
	case info != nil && !writable(info):
		_ = file.Close() // nil if it could not be opened
		return output{}, fmt.Errorf("%s is neither a file nor a character device: name a file, stdout or stderr", name)
	case err != nil:
		return output{}, err
	}
	return output{Writer: file, file: file}, nil
}

// writable reports whether a log may be written to this: a file, a character device, or what is standard output or error
// already, whatever that is. Of another pipe or socket nobody may read the other end.
func writable(info fs.FileInfo) bool {
	return info.Mode().IsRegular() || info.Mode()&fs.ModeCharDevice != 0 || is(os.Stdout, info) || is(os.Stderr, info)
}

// is reports whether info is of this file.
func is(file *os.File, info fs.FileInfo) bool {
	own, err := file.Stat()
	return err == nil && os.SameFile(own, info)
}

func (o output) close() {
	if o.file != nil {
		_ = o.file.Close()
	}
}
