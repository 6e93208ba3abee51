package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	w, err := watch(slog.New(slog.DiscardHandler), read, file)
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
