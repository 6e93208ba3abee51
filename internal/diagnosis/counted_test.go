package diagnosis

import (
	"log/slog"
	"net/http"
	"strings"
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

// A node that is in trouble again whenever it was asked is asked anew each time.
func TestANodeThatFlapsWithoutAPauseIsCounted(t *testing.T) {
	b := newBench(t, 3, http.NotFoundHandler())
	flap := func(state string, lasts bool) {
		b.set(2, state)
		eventually(t, func() bool { s := b.Spikes().Spikes; return len(s) == 1 && (s[0].Ended == nil) == lasts })
	}
	flap("slow", true)
	for range 2 {
		flap("fine", false)
		flap("slow", true)
	}
	require.Equal(t, 2, b.Spikes().Spikes[0].Again)
	require.Eventually(t, func() bool { return countedSpikes(b.Recorder) == 1 }, captureFor*2/3, time.Millisecond, "by when it was asked for the first bout")
	require.Equal(t, 1, strings.Count(b.log.String(), "spike recorded"))
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

// A node that flaps and is not asked is counted after its second time.
func TestANodeThatFlapsAndIsNotAskedIsCounted(t *testing.T) {
	s := newScript()
	s.be(t, "slow", "fine", "slow")
	require.Zero(t, countedSpikes(s.Recorder))
	s.be(t, "fine")
	require.InDelta(t, 1, countedSpikes(s.Recorder), 0)
	require.Len(t, s.open, 1)
}

// One that is well in the moment in which its record gets all samples is so, too.
func TestANodeThatIsWellAfterFiveMinutesIsCounted(t *testing.T) {
	s := newScript()
	s.be(t, "slow", "fine", "slow")
	require.Equal(t, 1, s.open["a"].record.Again)
	open := s.open["a"]
	open.capturing, open.well = true, func() {}
	s.be(t, "fine")
	open.capturing = false
	require.Zero(t, countedSpikes(s.Recorder))
	s.age(maxSpan)
	s.be(t, "fine")
	require.InDelta(t, 1, countedSpikes(s.Recorder), 0)
	require.Len(t, s.open, 1)
}

// And one that gets into trouble again just after that.
func TestANodeThatIsInTroubleAgainAfterFiveMinutesIsCounted(t *testing.T) {
	s := newScript()
	s.be(t, "slow", "fine")
	s.age(maxSpan)
	s.be(t, "fine")
	require.Zero(t, countedSpikes(s.Recorder))
	s.be(t, "slow", "slow")
	require.InDelta(t, 1, countedSpikes(s.Recorder), 0)
	require.Len(t, s.open, 1)
}
