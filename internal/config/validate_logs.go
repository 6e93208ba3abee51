package config

import (
	"io/fs"
	"os"
	"path/filepath"
)

// maxKept bounds the memory of records of requests: about 5 kB each, and five kinds.
const maxKept = 1000

func (c *checker) logs(l Logs) {
	if l.Slow.Threshold < 0 {
		c.add("logs.slow.threshold", "must not be negative: 0 means that no request is slow")
	}
	if l.Slow.Keep < 0 || l.Slow.Keep > maxKept {
		c.add("logs.slow.keep", "must be from 0 to %d, not %d", maxKept, l.Slow.Keep)
	}
	if s := l.Access.Sample; !(s > 0 && s <= 1) {
		c.add("logs.access.sample", "must be above 0 and at most 1, not %v: without an output nothing is logged", s)
	}
	c.output("logs.slow.output", l.Slow.Output)
	c.output("logs.access.output", l.Access.Output)
}

// output checks the output of a log, without creating the file.
func (c *checker) output(path, name string) {
	switch name {
	case "", "stdout", "stderr":
		return
	}
	switch info, err := os.Lstat(name); { // /dev/stdout may stand for a pipe
	case err == nil && info.IsDir():
		c.add(path, "%s is a directory: name a file in it, stdout or stderr", name)
		return
	case err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
		c.add(path, "%s is a pipe or a socket, which nobody may read: name a file, stdout or stderr", name)
		return
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		c.unreadable(path, err, "%s is not in a directory that exists: name a file, stdout or stderr", name)
	}
}
