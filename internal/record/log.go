package record

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

const (
	// queueLength is how many lines may wait to be written. They are kept as records,
	// of a few kB at most.
	queueLength = 2048
	// flushSize is the number of bytes from which on lines are written although more
	// lines wait.
	flushSize = 64 << 10
	// complainEvery is the least time between messages about lines that could not be
	// written.
	complainEvery = 10 * time.Second
)

// Outputs other than files.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Options configures a [Log].
type Options struct {
	// Name is that of the log: the label of its metrics.
	Name string
	// Output is Stdout, Stderr or the name of a file, which is appended to.
	Output string
	// Message and Level are those of every line.
	Message string
	Level   slog.Level
	Metrics *Metrics
	// Logger gets the errors.
	Logger *slog.Logger
}

// Line is one line. Attrs is called later, by another goroutine.
type Line struct {
	At    time.Time
	Attrs func() []slog.Attr
}

// Log writes lines. It is safe for concurrent use. Make it with [Open].
type Log struct {
	o       Options
	queue   chan Line
	reopen  chan struct{}
	closing chan struct{}
	closed  chan struct{}
	ended   atomic.Bool

	// The fields below belong to the goroutine of run.
	out        output
	buffer     bytes.Buffer // lines that are not written yet
	lines      int          // in buffer
	torn       bool         // what was written last ends within a line
	handler    slog.Handler
	complaints rate.Sometimes
}

// Open opens the output and begins to write. The error says what cannot be opened.
func Open(o Options) (*Log, error) {
	out, err := open(o.Output)
	if err != nil {
		return nil, fmt.Errorf("open the %s log: %w", o.Name, err)
	}
	l := &Log{
		o: o, out: out, torn: out.torn,
		queue:   make(chan Line, queueLength),
		reopen:  make(chan struct{}, 1),
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
	}
	l.complaints.Interval = complainEvery
	l.handler = slog.NewJSONHandler(&l.buffer, nil)
	go l.run()
	return l, nil
}

// Write queues a line. It never waits: a line for which there is no room is dropped.
func (l *Log) Write(line Line) {
	if l.ended.Load() {
		l.drop(causeClosed, 1)
		return
	}
	select {
	case l.queue <- line:
	default:
		l.drop(causeFull, 1)
	}
}

// Reopen closes a file and opens the one that has its name now. It does not wait. If that
// fails the old file stays in use, and the error is logged.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default: // it is about to be
	}
}

// Close writes the queued lines and closes the output. It returns an error if ctx ends
// first: then the rest is lost.
func (l *Log) Close(ctx context.Context) error {
	if !l.ended.Swap(true) {
		close(l.closing)
	}
	select {
	case <-l.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the %s log was cut off with %d lines to be written: %w", l.o.Name, len(l.queue), ctx.Err())
	}
}

func (l *Log) run() {
	defer close(l.closed)
	for {
		select {
		case line := <-l.queue:
			l.add(line)
			l.drain()
		case <-l.reopen:
			l.openAnew()
		case <-l.closing:
			l.drain()
			l.out.close()
			return
		}
	}
}

// drain writes the lines that wait now, not those that arrive meanwhile.
func (l *Log) drain() {
	for range len(l.queue) {
		l.add(<-l.queue)
	}
	l.flush()
}

// add formats a line.
func (l *Log) add(line Line) {
	if l.lines == 0 && l.torn {
		l.buffer.WriteByte('\n') // which ends that line
	}
	r := slog.NewRecord(line.At.UTC().Truncate(time.Millisecond), l.o.Level, l.o.Message, 0)
	r.AddAttrs(line.Attrs()...)
	_ = l.handler.Handle(context.Background(), r) // to memory
	if l.lines++; l.buffer.Len() >= flushSize {
		l.flush()
	}
}

// flush writes the buffer. Lines that cannot be written are dropped, as keeping them
// would only delay that.
func (l *Log) flush() {
	if l.lines == 0 {
		return
	}
	text := l.buffer.Bytes()
	n, err := l.out.Write(text)
	if err != nil {
		l.drop(causeFailed, min(l.lines, bytes.Count(text[n:], []byte{'\n'})))
		l.complain(err)
	}
	if n > 0 {
		l.torn = text[n-1] != '\n'
	}
	l.buffer.Reset()
	l.lines = 0
}

// openAnew opens the output again.
func (l *Log) openAnew() {
	out, err := open(l.o.Output)
	if err != nil {
		l.o.Logger.Error("cannot open a log again, the old file stays in use", "log", l.o.Name, "err", err)
		return
	}
	l.out.close()
	if l.out = out; out.file != nil {
		l.torn = out.torn
	}
}

func (l *Log) complain(err error) {
	l.complaints.Do(func() {
		l.o.Logger.Error("lines of a log cannot be written; logged at most once in ten seconds, counted by sidestep_log_lines_dropped_total",
			"log", l.o.Name, "output", l.o.Output, "err", err)
	})
}

func (l *Log) drop(cause string, lines int) {
	l.o.Metrics.dropped.WithLabelValues(l.o.Name, cause).Add(float64(lines))
}

// Causes of dropped lines. The set is closed: it is a metric label.
const (
	causeFull   = "queue_full"   // the output is too slow
	causeFailed = "write_failed" // writing failed
	causeClosed = "closed"       // they came after the end
)

var causes = []string{causeFull, causeFailed, causeClosed} // the closed set

// Metrics counts dropped lines.
type Metrics struct{ dropped *prometheus.CounterVec }

// NewMetrics registers the metrics of the logs of these names.
func NewMetrics(reg prometheus.Registerer, names ...string) (*Metrics, error) {
	m := &Metrics{dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sidestep_log_lines_dropped_total",
		Help: "Lines of the access log and the slow log that were not written, by cause.",
	}, []string{"log", "cause"})}
	for _, name := range names {
		for _, cause := range causes {
			m.dropped.WithLabelValues(name, cause)
		}
	}
	return m, reg.Register(m.dropped)
}
