package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// watched is a value read from files, and read again when one of them changes:
// certificates and secrets are rotated without a restart.
type watched[T any] struct {
	files  []string
	read   func() (T, error)
	logger *slog.Logger

	looking sync.Mutex // guards stamp
	stamp   string     // of the files when they were last read
	value   atomic.Pointer[T]
}

// watch reads the value for the first time; only then a failure is an error.
func watch[T any](logger *slog.Logger, read func() (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{files: files, read: read, logger: logger}
	w.stamp = stampOf(files) // before reading: a change in between is seen later
	value, err := read()
	w.value.Store(&value)
	return w, err
}

// get returns the present value. While the files cannot be read, as in the
// middle of a rotation, it is the last good one. One caller at a time looks at the files: where
// their file system hangs, the others, which shake hands with clients, do not.
func (w *watched[T]) get() T {
	if w.looking.TryLock() {
		w.look()
		w.looking.Unlock()
	}
	return *w.value.Load()
}

// look reads the files again if they have changed.
func (w *watched[T]) look() {
	stamp := stampOf(w.files)
	if stamp == w.stamp {
		return
	}
	w.stamp = stamp // also after a failure, so that it is told once per change
	value, err := w.read()
	if err != nil {
		w.logger.Warn("changed files cannot be used, the old ones stay in force", "files", w.files, "err", err)
		return
	}
	w.value.Store(&value)
	w.logger.Info("changed files are in force", "files", w.files)
}

// stampOf changes when one of the files does.
func stampOf(files []string) string {
	var stamp strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			stamp.WriteString("missing;")
			continue
		}
		fmt.Fprintf(&stamp, "%d %d;", info.ModTime().UnixNano(), info.Size())
	}
	return stamp.String()
}

func watchKeyPair(logger *slog.Logger, cert, key string) (*watched[*tls.Certificate], error) {
	return watch(logger, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}, cert, key)
}

func watchAuthorities(logger *slog.Logger, file string) (*watched[*x509.CertPool], error) {
	return watch(logger, func() (*x509.CertPool, error) {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
		}
		return pool, nil
	}, file)
}
