package record

import (
	"io"
	"os"
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
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, filePermissions)
	if err != nil {
		return output{}, err
	}
	return output{Writer: file, file: file}, nil
}

func (o output) close() {
	if o.file != nil {
		_ = o.file.Close()
	}
}
