package main

import (
	"bytes"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"sidestep/internal/config"
)

const (
	// waitingLines is how many lines of the log may wait until they are written.
	waitingLines = 1024
	// lastLines is how long they are waited for at the end.
	lastLines = time.Second
)

// lines writes lines on a goroutine of its own. Nothing that logs waits for a reader that is slow, or
// stands still: requests would. Lines for which there is no room are lost, and counted.
type lines struct {
	out     io.Writer
	waiting chan []byte
	lost    atomic.Int64
	quit    chan struct{}
	written chan struct{}
}

// startLines begins to write to out. tell is told how many lines were lost, once lines are written again.
func startLines(out io.Writer, tell *slog.Logger) *lines {
	l := &lines{out: out, waiting: make(chan []byte, waitingLines), quit: make(chan struct{}), written: make(chan struct{})}
	go l.run(tell)
	return l
}

// Write implements io.Writer: p is a line. It never waits, and never fails.
func (l *lines) Write(p []byte) (int, error) {
	select {
	case l.waiting <- bytes.Clone(p):
	default:
		l.lost.Add(1)
	}
	return len(p), nil
}

func (l *lines) run(tell *slog.Logger) {
	defer close(l.written)
	for {
		select {
		case line := <-l.waiting:
			l.write(line, tell)
		case <-l.quit:
			for range len(l.waiting) {
				l.write(<-l.waiting, tell)
			}
			return
		}
	}
}

// write writes a line. There is nobody to tell if that fails.
func (l *lines) write(line []byte, tell *slog.Logger) {
	if lost := l.lost.Swap(0); lost > 0 {
		tell.Warn("lines of this log are lost: they come faster than they are read", "lines", lost)
	}
	_, _ = l.out.Write(line)
}

// end writes what waits, for lastLines at most. What is logged later is lost.
func (l *lines) end() {
	close(l.quit)
	select {
	case <-l.written:
	case <-time.After(lastLines):
	}
}

func newLogger(c config.Log, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		options.ReplaceAttr = readableDurations
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}

// readableDurations writes durations as the configuration has them: in JSON they would be numbers of nanoseconds.
func readableDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
