package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sidestep/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

func line(n int) Line {
	return Line{
		At:    time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", 3600)),
		Attrs: func() []slog.Attr { return []slog.Attr{slog.Int("n", n), slog.String("path", "/<a>")} },
	}
}

// openIn opens a log that writes to a file in dir.
func openIn(t *testing.T, dir string) (l *Log, file string) {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	file = filepath.Join(dir, "access.log")
	l, err = Open(Options{Name: "access", Output: file, Message: "request", Metrics: metrics, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.Background())) })
	return l, file
}

func (l *Log) dropped(cause string) float64 {
	return testutil.ToFloat64(l.o.Metrics.dropped.WithLabelValues(l.o.Name, cause))
}

func read(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestLinesAreJSON(t *testing.T) {
	l, file := openIn(t, t.TempDir())
	l.Write(line(7))
	require.NoError(t, l.Close(t.Context()))
	require.Equal(t, []string{`{"time":"2026-01-02T02:04:05.678Z","level":"INFO","msg":"request","n":7,"path":"/<a>"}`}, read(t, file))
}

func TestAFileIsAppendedTo(t *testing.T) {
	dir := t.TempDir()
	for n := range 2 {
		l, _ := openIn(t, dir)
		l.Write(line(n))
		require.NoError(t, l.Close(t.Context()))
	}
	require.Len(t, read(t, filepath.Join(dir, "access.log")), 2)
}

// As after a restart while the disk was full.
func TestAFileThatEndsWithinALineIsContinuedOnTheNext(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "access.log"), []byte(`{"tim`), 0o600))
	l, file := openIn(t, dir)
	l.Write(line(1))
	require.Eventually(t, func() bool { return len(read(t, file)) == 2 }, patience, time.Millisecond)
	require.Equal(t, `{"tim`, read(t, file)[0])
	require.True(t, json.Valid([]byte(read(t, file)[1])))
	anew := func() {
		l.Reopen()
		require.Eventually(t, func() bool { return len(l.reopen) == 0 }, patience, time.Millisecond)
	}
	require.NoError(t, os.WriteFile(file, []byte(`{"tim`), 0o600))
	anew()
	l.Write(line(2))
	require.Eventually(t, func() bool { return len(read(t, file)) == 2 }, patience, time.Millisecond)
	require.NoError(t, os.WriteFile(file, []byte(`{"tim`), 0o600))
	anew()
	require.NoError(t, os.Rename(file, file+".1")) // to make room
	anew()
	l.Write(line(3))
	require.NoError(t, l.Close(t.Context()))
	require.Len(t, read(t, file), 1)
	require.True(t, json.Valid([]byte(read(t, file)[0])))
}

func TestEveryLineIsWrittenOrCounted(t *testing.T) {
	const writers, each = 8, 2000
	l, file := openIn(t, t.TempDir())
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for n := range each {
				l.Write(line(n))
			}
		})
	}
	all.Wait()
	require.NoError(t, l.Close(t.Context()))
	l.Write(line(0)) // too late
	lines := read(t, file)
	for _, one := range lines {
		require.True(t, json.Valid([]byte(one)), one)
	}
	require.EqualValues(t, 1, l.dropped(causeClosed))
	require.InDelta(t, writers*each, float64(len(lines))+l.dropped(causeFull), 0)
}

func TestAMovedFileIsOpenedAnew(t *testing.T) {
	l, file := openIn(t, t.TempDir())
	l.Write(line(1))
	require.Eventually(t, func() bool { return read(t, file)[0] != "" }, patience, time.Millisecond)
	require.NoError(t, os.Rename(file, file+".1"))
	l.Reopen()
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, patience, time.Millisecond)
	l.Write(line(2))
	require.NoError(t, l.Close(t.Context()))
	require.Contains(t, read(t, file+".1")[0], `"n":1`)
	require.Contains(t, read(t, file)[0], `"n":2`)
}

func TestAFileThatCannotBeOpenedAnewIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, os.Mkdir(dir, 0o755))
	l, file := openIn(t, dir)
	log := &testkit.Log{}
	l.o.Logger = slog.New(slog.NewTextHandler(log, nil)) // before the goroutine needs it
	require.NoError(t, os.Rename(dir, dir+".gone"))
	l.Reopen()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "cannot open a log again") }, patience, time.Millisecond)
	l.Write(line(3))
	require.NoError(t, l.Close(t.Context()))
	require.Contains(t, read(t, filepath.Join(dir+".gone", filepath.Base(file)))[0], `"n":3`)
}

func TestOpenTellsWhatIsWrong(t *testing.T) {
	_, err := Open(Options{Name: "slow", Output: filepath.Join(t.TempDir(), "none", "slow.log")})
	require.ErrorContains(t, err, "open the slow log: ")
	require.ErrorContains(t, err, "no such file or directory")
}

// blocked is an output that takes nothing until it is let go.
type blocked struct {
	entered, free chan struct{}
	once          sync.Once
	bytes.Buffer
}

func (b *blocked) Write(p []byte) (int, error) {
	b.once.Do(func() { close(b.entered) })
	<-b.free
	return b.Buffer.Write(p)
}

func TestAnOutputThatBlocksBlocksNobody(t *testing.T) {
	l, file := openIn(t, t.TempDir())
	out := &blocked{entered: make(chan struct{}), free: make(chan struct{})}
	l.out.close()
	l.out = output{Writer: out} // before anything is written
	l.Write(line(0))
	<-out.entered
	for n := range queueLength + 100 { // would never end if it waited
		l.Write(line(n))
	}
	require.EqualValues(t, 100, l.dropped(causeFull))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, l.Close(ended), fmt.Sprintf("cut off with %d lines", queueLength))
	close(out.free)
	require.NoError(t, l.Close(t.Context()))
	// Opening anew may come before the lines that waited, or after them.
	anew, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, queueLength+1, strings.Count(out.String()+string(anew), "\n"))
}

// full is an output that fails once, after a few bytes.
type full struct {
	failed bool
	bytes.Buffer
}

func (f *full) Write(p []byte) (int, error) {
	if f.failed {
		return f.Buffer.Write(p)
	}
	f.failed = true
	n, _ := f.Buffer.Write(p[:5])
	return n, errors.New("no space left on device")
}

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	l, _ := openIn(t, t.TempDir())
	out, log := &full{}, &testkit.Log{}
	l.out.close()
	l.out, l.o.Logger = output{Writer: out}, slog.New(slog.NewTextHandler(log, nil)) // before anything is written
	l.Write(line(1))
	require.Eventually(t, func() bool { return l.dropped(causeFailed) == 1 }, patience, time.Millisecond)
	l.Write(line(2))
	require.NoError(t, l.Close(t.Context()))
	require.Contains(t, log.String(), "no space left on device")
	cut, rest, _ := strings.Cut(out.String(), "\n")
	require.Equal(t, `{"tim`, cut)
	require.True(t, json.Valid([]byte(rest)), rest)
}
