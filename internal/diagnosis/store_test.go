package diagnosis

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// storage is a store that runs, and what it logged.
type storage struct {
	*store
	log  bytes.Buffer
	stop func()
}

func openStore(t *testing.T, dir string, maxSize int64) *storage {
	t.Helper()
	s := &storage{}
	s.store = newStore(Options{Dir: dir, MaxSize: maxSize, Logger: slog.New(slog.NewTextHandler(&s.log, nil))}, newMetrics(prometheus.NewRegistry()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx)
	}()
	s.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(s.stop)
	return s
}

func recordOf(n int) Record {
	return Record{Spike: Spike{
		ID: fmt.Sprintf("r%03d", n), Node: "node-1", NodeID: "n1", Began: Time{epoch.Add(time.Duration(n) * time.Minute)}, Cause: CauseGC,
		Summary: strings.Repeat("x", 1000),
	}}
}

func ids(s *store) (all []string) {
	for _, spike := range s.spikes() {
		all = append(all, spike.ID)
	}
	return all
}

// Whether the folder can be written is tried at the start, not when the first record is there.
func TestAFolderThatCannotBeWrittenIsToldAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	bad := openStore(t, filepath.Join(file, "records"), 1<<20)
	bad.stop()
	require.Contains(t, bad.log.String(), "diagnosis.dir cannot be written")

	good := openStore(t, filepath.Join(dir, "records"), 1<<20)
	good.stop()
	require.Empty(t, good.log.String())
	left, err := os.ReadDir(filepath.Join(dir, "records"))
	require.NoError(t, err, "the folder is made")
	require.Empty(t, left)
}

func TestRecordsOutliveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	first := openStore(t, dir, 1<<20)
	first.put(recordOf(2), "search;a;b 3\n")
	first.put(recordOf(1), "")
	first.stop()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "r009.json.sidestep-tmp"), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "foreign.json.tmp"), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "foreign.json"), []byte("{}"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large.json"), nil, 0o600))
	require.NoError(t, os.Truncate(filepath.Join(dir, "large.json"), 1<<40)) // it has holes only, and would not fit into memory

	second := openStore(t, dir, 1<<20)
	require.Eventually(t, func() bool { return len(second.spikes()) == 2 }, time.Minute, time.Millisecond)
	second.stop()
	require.Equal(t, []string{"r001", "r002"}, ids(second.store))
	c, ok := second.get("r002")
	require.True(t, ok)
	want := recordOf(2).Spike
	want.Ended = &want.Began // it lasted when an older sidestep stopped, and nobody would end it
	require.Equal(t, want, c.Record.Spike)
	require.NotNil(t, second.spikes()[1].Ended)
	require.Equal(t, "search;a;b 3\n", c.Folded)
	_, ok = second.get("foreign")
	require.False(t, ok)
	require.NoFileExists(t, filepath.Join(dir, "r009.json.sidestep-tmp"))
	require.FileExists(t, filepath.Join(dir, "foreign.json.tmp"))
	require.FileExists(t, filepath.Join(dir, "foreign.json"))
	require.Contains(t, second.log.String(), "foreign.json")
	require.Contains(t, second.log.String(), "large.json")
}

// Folded stacks that are too many end with a whole line.
func TestFoldedStacksAreCutBetweenLines(t *testing.T) {
	s := newStore(Options{MaxSize: 1 << 20}, newMetrics(prometheus.NewRegistry()))
	const line = "search;a;b 123\n"
	s.put(recordOf(1), strings.Repeat(line, maxFolded/len(line)+1))
	c, ok := s.get("r001")
	require.True(t, ok)
	require.Zero(t, len(c.Folded)%len(line))
	require.True(t, strings.HasSuffix(c.Folded, line))
	s.put(recordOf(2), strings.Repeat("x", maxFolded+1))
	c, ok = s.get("r002")
	require.True(t, ok)
	require.Empty(t, c.Folded)
}

func TestTheOldestRecordsGoFirst(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "files": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, dir, 10_000)
			for n := range 30 {
				s.put(recordOf(n), "")
				require.LessOrEqual(t, s.held, int64(10_000))
			}
			s.stop()
			kept := ids(s.store)
			require.Greater(t, len(kept), 3)
			require.Less(t, len(kept), 10)
			require.Equal(t, "r029", kept[len(kept)-1])
			require.InDelta(t, len(kept), testutil.ToFloat64(s.metrics.records), 0)
			_, ok := s.get("r000")
			require.False(t, ok)
			_, ok = s.get("r029")
			require.True(t, ok)
			if dir == "" {
				return
			}
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			require.NoError(t, err)
			for _, file := range files {
				require.Contains(t, kept, strings.TrimSuffix(filepath.Base(file), suffix))
			}
		})
	}
}

// Records that could not be written are written with the next one, and at the end.
func TestRecordsAreWrittenOnceThereIsRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "full")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	s := openStore(t, dir, 1<<20)
	for n := range 40 {
		s.put(recordOf(n), "")
	}
	require.Eventually(t, func() bool { return testutil.ToFloat64(s.metrics.writeFailures) >= 2 }, time.Minute, time.Millisecond, "the folder is not read, and a record not written")
	require.NoError(t, os.Remove(dir))
	s.stop()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	require.NoError(t, err)
	require.Len(t, files, 40)
}

// A folder that cannot be written to costs nothing but the file.
func TestARecordThatCannotBeWrittenStaysInMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	s := openStore(t, filepath.Join(file, "below"), 1<<20)
	for n := range 3 {
		s.put(recordOf(n), "")
	}
	require.Eventually(t, func() bool { return testutil.ToFloat64(s.metrics.writeFailures) >= 1 }, time.Minute, time.Millisecond)
	s.stop()
	for n := range 3 {
		_, ok := s.get(recordOf(n).ID)
		require.True(t, ok)
	}
	require.Equal(t, 1, strings.Count(s.log.String(), "stays in memory"), "%s", s.log.String())
}
