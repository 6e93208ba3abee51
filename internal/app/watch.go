package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"sidestep/internal/config"
)

// rotation is what all watched files have in common.
type rotation struct {
	logger  *slog.Logger
	reloads atomic.Int64 // after each, files are read again even if they look the same
}

// watched is a value read from files, and read again when one of them changes:
// certificates and secrets are rotated without a restart.
type watched[T any] struct {
	*rotation
	files []string
	read  func() (T, error)

	looking sync.Mutex // guards what follows
	stamps  stamps     // of the files as they were read last
	reload  int64      // the number of reloads by then
	failure string     // why they could not be used; empty if they could
	value   atomic.Pointer[T]
}

// watch reads the value for the first time; only then a failure is an error.
func watch[T any](r *rotation, read func() (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{rotation: r, files: files, read: read, reload: r.reloads.Load()}
	w.stamps = stampsOf(files) // before reading: a change in between is seen later
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

// look reads the files again if they have changed, and if they could not be used before.
func (w *watched[T]) look() {
	reload, stamps := w.reloads.Load(), stampsOf(w.files)
	changed := !stamps.equal(w.stamps)
	if !changed && reload == w.reload && w.failure == "" {
		return
	}
	w.stamps, w.reload = stamps, reload
	value, err := w.read()
	if err != nil {
		if changed || err.Error() != w.failure {
			w.logger.Warn("files cannot be used, those read before stay in force", "files", w.files, "err", err)
		}
		w.failure = err.Error()
		return
	}
	w.value.Store(&value)
	if changed || w.failure != "" {
		w.logger.Info("changed files are in force", "files", w.files)
	}
	w.failure = ""
}

// stamps tell whether files have changed: one for each, nil for a file that is missing.
type stamps []fs.FileInfo

func stampsOf(files []string) stamps {
	all := make(stamps, len(files))
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			all[i] = info
		}
	}
	return all
}

func (s stamps) equal(other stamps) bool {
	return slices.EqualFunc(s, other, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}

func watchKeyPair(r *rotation, cert, key string) (*watched[*tls.Certificate], error) {
	return watch(r, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}, cert, key)
}

func watchAuthorities(r *rotation, file string) (*watched[*x509.CertPool], error) {
	return watch(r, func() (*x509.CertPool, error) {
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

func watchSecret(r *rotation, file string) (*watched[string], error) {
	return watch(r, func() (string, error) { return config.ReadSecret(file) }, file)
}
