package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/testkit"
)

// watchedFile is a watched file of a test, which cannot be read while broken is set.
type watchedFile struct {
	*watched[string]
	name   string
	broken error
	log    testkit.Log
}

func newWatchedFile(t *testing.T) *watchedFile {
	t.Helper()
	f := &watchedFile{name: filepath.Join(t.TempDir(), "secret")}
	require.NoError(t, os.WriteFile(f.name, []byte("old"), 0o600))
	var err error
	f.watched, err = watch(&rotation{logger: slog.New(slog.NewTextHandler(&f.log, nil))}, func() (string, error) {
		if f.broken != nil {
			return "", f.broken
		}
		text, err := os.ReadFile(f.name)
		return string(text), err
	}, f.name)
	require.NoError(t, err)
	return f
}

// warnings counts those in the log.
func (f *watchedFile) warnings() int { return strings.Count(f.log.String(), "level=WARN") }

func TestAFileThatCouldNotBeReadIsReadAgain(t *testing.T) {
	f := newWatchedFile(t)
	require.NoError(t, os.WriteFile(f.name, []byte("renewed"), 0o600))
	f.broken = errors.New("too many open files")
	for range 3 {
		require.Equal(t, "old", f.get())
	}
	require.Equal(t, 1, f.warnings(), "once for the same failure")
	f.broken = errors.New("an input/output error")
	require.Equal(t, "old", f.get())
	require.Equal(t, 2, f.warnings(), "another failure")
	require.NoError(t, os.WriteFile(f.name, []byte("renewed again"), 0o600))
	require.Equal(t, "old", f.get())
	require.Equal(t, 3, f.warnings(), "another change")
	f.broken = nil
	require.Equal(t, "renewed again", f.get())
}

// After the log has told that a file cannot be used it tells when it can, also if that is again what it was.
func TestAFileThatIsPutBackIsTold(t *testing.T) {
	f := newWatchedFile(t)
	require.NoError(t, os.Rename(f.name, f.name+".old"))
	require.Equal(t, "old", f.get())
	require.Equal(t, 1, f.warnings())
	require.NoError(t, os.Rename(f.name+".old", f.name))
	require.Equal(t, "old", f.get())
	require.Contains(t, f.log.String(), "changed files are in force")
	require.NoError(t, os.Remove(f.name))
	require.Equal(t, "old", f.get())
	require.Equal(t, 2, f.warnings(), "it is away again")
}

// Files that are put in place of another may have its size and time.
func TestAnotherFileOfTheSameSizeAndTimeIsRead(t *testing.T) {
	f := newWatchedFile(t)
	info, err := os.Stat(f.name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.name+".new", []byte("new"), 0o600))
	require.NoError(t, os.Chtimes(f.name+".new", time.Time{}, info.ModTime()))
	require.NoError(t, os.Rename(f.name+".new", f.name))
	require.Equal(t, "new", f.get())
}

func TestAReloadHasFilesReadAgain(t *testing.T) {
	f := newWatchedFile(t)
	info, err := os.Stat(f.name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.name, []byte("new"), 0o600))
	require.NoError(t, os.Chtimes(f.name, time.Time{}, info.ModTime()))
	require.Equal(t, "old", f.get(), "it looks the same")
	f.reloads.Add(1)
	require.Equal(t, "new", f.get())
}

// One look at files that hangs holds nobody up but its own caller.
func TestALookAtFilesHangs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	reads, goOn := make(chan struct{}), make(chan struct{})
	read := func() (string, error) {
		text, err := os.ReadFile(file)
		if string(text) != "old" {
			reads <- struct{}{}
			<-goOn
		}
		return string(text), err
	}
	w, err := watch(&rotation{logger: slog.New(slog.DiscardHandler)}, read, file)
	require.NoError(t, err)
	require.Equal(t, "old", w.get())
	require.NoError(t, os.WriteFile(file, []byte("renewed"), 0o600))
	first := make(chan string)
	go func() { first <- w.get() }()
	<-reads
	require.Equal(t, "old", w.get(), "while another one hangs")
	close(goOn)
	require.Equal(t, "renewed", <-first)
	require.Equal(t, "renewed", w.get())
}
