package diagnosis

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// A sidestep that is killed, as for its memory, has no time to write what lasts: that is there already.
func TestARecordOfTroubleThatLastsOutlivesASidestepThatIsKilled(t *testing.T) {
	dir := t.TempDir()
	readings := []Reading{{ID: "a", Name: "node-a", State: "unresponsive"}, {ID: "b", Name: "node-b", State: "fine"}}
	r := New(Options{Enabled: true, Dir: dir, MaxSize: 1 << 20, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	r.Use(Source{Read: func() []Reading { return readings }, Follows: func() bool { return false }})
	for range maxAtOnce {
		r.slots <- struct{}{} // none is asked
	}
	r.look(t.Context(), true)
	id := r.Spikes().Spikes[0].ID
	for _, age := range []time.Duration{settled, maxSpan} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, id+suffix)))
		r.open["a"].record.Began = Time{time.Now().Add(-age)}
		r.look(t.Context(), true)
		r.store.saveAll()
		require.FileExists(t, filepath.Join(dir, id+suffix))
	}
	require.Len(t, r.Spikes().Spikes, 1)
	require.Nil(t, r.Spikes().Spikes[0].Ended)
	require.InDelta(t, 1, testutil.ToFloat64(r.metrics.spikes.WithLabelValues(string(CauseUnknown))), 0, "it may last for hours")

	killed := openStore(t, dir, 1<<20) // and started again
	require.Eventually(t, func() bool { return len(killed.spikes()) == 1 }, time.Minute, time.Millisecond)
	killed.stop()
	require.NotNil(t, killed.spikes()[0].Ended)
	text, err := os.ReadFile(filepath.Join(dir, id+suffix))
	require.NoError(t, err)
	require.NotContains(t, string(text), `"ended":null`)

	readings[0].State = "fine"
	r.look(t.Context(), true)
	r.open["a"].record.Ended = &Time{time.Now().Add(-pause)}
	r.look(t.Context(), true)
	require.Empty(t, r.open)
	r.store.saveAll()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	record, ok := r.Spike(id)
	require.True(t, ok)
	require.NotNil(t, record.Ended)
	require.InDelta(t, 1, testutil.ToFloat64(r.metrics.records), 0)
	require.Equal(t, float64(r.store.held), testutil.ToFloat64(r.metrics.bytes))
}

// What was deleted while it lasted, as others came, is written again when it has ended.
func TestARecordThatWasDeletedWhileItLastedIsWritten(t *testing.T) {
	dir := t.TempDir()
	s := newStore(Options{Dir: dir, MaxSize: 4000, Logger: slog.New(slog.DiscardHandler)}, newMetrics(prometheus.NewRegistry()))
	s.put(recordOf(1), "")
	s.saveAll()
	for n := 2; n < 6; n++ {
		s.put(recordOf(n), "")
	}
	require.NotContains(t, ids(s), "r001")
	late := recordOf(9) // the newest, so that it stays
	late.ID = "r001"
	s.put(late, "")
	s.saveAll()
	_, ok := s.get("r001")
	require.True(t, ok)
	s.put(late, "")
	s.saveAll()
	require.Equal(t, []string{"r005", "r001"}, ids(s))
}

// A record that has grown since it was written may be the first to go.
func TestARecordThatIsDeletedBeforeItIsWrittenAgainLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	s := newStore(Options{Dir: dir, MaxSize: 4000, Logger: slog.New(slog.DiscardHandler)}, newMetrics(prometheus.NewRegistry()))
	grown := recordOf(1)
	s.put(grown, "")
	s.saveAll()
	require.FileExists(t, filepath.Join(dir, "r001"+suffix))
	s.put(recordOf(2), "")
	grown.Summary += grown.Summary + grown.Summary
	s.put(grown, "")
	require.Equal(t, []string{"r002"}, ids(s))
	s.saveAll()
	require.NoFileExists(t, filepath.Join(dir, "r001"+suffix))
}
