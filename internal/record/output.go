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
	torn bool     // the file ends within a line, as where the disk was full
}

// open opens an output by its name.
func open(name string) (output, error) {
	switch name {
	case Stdout:
		return output{Writer: os.Stdout}, nil
	case Stderr:
		return output{Writer: os.Stderr}, nil
	}
	if own := standard(name); own != nil {
		return output{Writer: own}, nil
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
	return output{Writer: file, file: file, torn: torn(name)}, nil
}

// torn reports whether a file ends within a line.
func torn(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// writable reports whether a log may be written to this: a file or a character device. Of a pipe or socket nobody may read
// the other end.
func writable(info fs.FileInfo) bool {
	return info.Mode().IsRegular() || info.Mode()&fs.ModeCharDevice != 0
}

// standard returns standard output or error if that is what name stands for, as /dev/stdout does, and is no file: a socket,
// as systemd makes it, cannot be opened once more.
func standard(name string) *os.File {
	info, err := os.Stat(name)
	if err != nil || info.Mode().IsRegular() {
		return nil
	}
	for _, own := range []*os.File{os.Stdout, os.Stderr} {
		if its, err := own.Stat(); err == nil && os.SameFile(its, info) {
			return own
		}
	}
	return nil
}

func (o output) close() {
	if o.file != nil {
		_ = o.file.Close()
	}
}
