package diagnosis

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// countedSpikes is how many were counted.
func countedSpikes(r *Recorder) (sum float64) {
	for _, cause := range Causes() {
		sum += testutil.ToFloat64(r.metrics.spikes.WithLabelValues(string(cause)))
	}
	return sum
}

// script is a recorder without a slot to ask; a test makes its looks.
type script struct {
	*Recorder
	readings []Reading
}

func newScript() *script {
	s := &script{readings: []Reading{{ID: "a", Name: "node-a", State: "fine"}, {ID: "b", Name: "node-b", State: "fine"}}}
	s.Recorder = New(Options{Enabled: true, MaxSize: 1 << 20, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	s.Use(Source{Read: func() []Reading { return s.readings }, Follows: func() bool { return false }})
	for range maxAtOnce {
		s.slots <- struct{}{}
	}
	return s
}

func (s *script) be(t *testing.T, states ...string) {
	t.Helper()
	for _, state := range states {
		s.readings[0].State = state
		s.look(t.Context(), true)
	}
}

// age lets the record of the node have begun so long before.
func (s *script) age(by time.Duration) { s.open["a"].record.Began = Time{time.Now().Add(-by)} }

// Trouble may last, or come again, for hours: it is counted, and kept, when the captures of its first bout are complete.
func TestASpikeThatIsNotOverIsCountedOnce(t *testing.T) {
	for name, states := range map[string][]string{
		"lasts":          {"slow"},
		"over":           {"slow", "fine"},
		"in it again":    {"slow", "fine", "slow"},
		"well meanwhile": {"slow", "fine", "slow", "fine"},
	} {
		s := newScript()
		s.be(t, states...)
		s.age(settled / 2)
		now := states[len(states)-1]
		s.be(t, now)
		require.Zero(t, countedSpikes(s.Recorder), name)
		s.age(settled)
		s.be(t, now)
		counted := 1.0
		if name == "over" {
			counted = 0
		}
		require.InDelta(t, counted, countedSpikes(s.Recorder), 0, name)
		s.age(maxSpan)
		s.be(t, "fine")
		s.open["a"].record.Ended = &Time{time.Now().Add(-pause)}
		s.be(t, "fine")
		require.Empty(t, s.open, name)
		require.InDelta(t, 1, countedSpikes(s.Recorder), 0, name)
	}
}
