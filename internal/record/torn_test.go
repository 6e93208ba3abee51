package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// disk is an output with room for so many bytes.
type disk struct {
	room int
	bytes.Buffer
}

func (d *disk) Write(p []byte) (int, error) {
	n, _ := d.Buffer.Write(p[:min(len(p), d.room)])
	if d.room -= n; n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// A disk that is full takes a part of some lines, and then nothing for a while.
func TestADiskThatWasFullHasNoLineBehindHalfAnother(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	out := &disk{room: 200}
	l := &Log{o: Options{Name: "slow", Metrics: metrics, Logger: slog.New(slog.DiscardHandler)}, out: output{Writer: out}}
	l.handler = slog.NewJSONHandler(&l.buffer, nil)
	write := func(n ...int) {
		for _, i := range n {
			l.add(line(i))
		}
		l.flush()
	}
	write(1, 2, 3, 4)
	require.EqualValues(t, 2, l.dropped(causeFailed), "two had room")
	write(5)
	write(6)
	require.EqualValues(t, 4, l.dropped(causeFailed))
	out.room = 1 << 20
	write(7)
	write(8)
	var told []int
	for one := range strings.Lines(out.String()) {
		var line struct{ N int }
		if json.Unmarshal([]byte(one), &line) == nil {
			told = append(told, line.N)
		}
	}
	require.Equal(t, []int{1, 2, 7, 8}, told, out.String())
}
