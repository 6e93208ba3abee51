package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/config"
	"sidestep/internal/record"
)

// logGrace is how long a stop or a reload waits for the last lines of a log, and a stop for the end of requests that
// were cut off, and for the records of spikes.
const logGrace = 5 * time.Second

// Names of the logs: label values of their metrics, and keys in the configuration.
const (
	accessLog = "access"
	slowLog   = "slow"
)

// requestLogs keeps and logs single requests. It outlives pipelines.
type requestLogs struct {
	records *record.Recorder
	metrics *record.Metrics
	logger  *slog.Logger

	mu   sync.Mutex // guards what follows
	logs openedLogs
}

func newRequestLogs(registry prometheus.Registerer, logger *slog.Logger) (*requestLogs, error) {
	metrics, err := record.NewMetrics(registry, accessLog, slowLog)
	return &requestLogs{records: record.NewRecorder(), metrics: metrics, logger: logger}, err
}

// openedLogs are the logs of a configuration, by name; what is not logged is not among them.
type openedLogs map[string]*record.Log

// open opens the logs of cfg that are not open yet. It must be followed by use or drop.
func (l *requestLogs) open(cfg config.Logs) (openedLogs, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := openedLogs{}
	for _, o := range []record.Options{
		{Name: accessLog, Output: cfg.Access.Output, Message: "request", Level: slog.LevelInfo, Metrics: l.metrics, Logger: l.logger},
		{Name: slowLog, Output: cfg.Slow.Output, Message: "slow request", Level: slog.LevelWarn, Metrics: l.metrics, Logger: l.logger},
	} {
		if o.Output == "" {
			continue
		}
		log := l.logs[o.Name]
		if log == nil || log.Output() != o.Output {
			var err error
			if log, err = record.Open(o); err != nil {
				l.end(next, l.logs)
				return nil, &config.Problem{Path: "logs." + o.Name + ".output", Message: err.Error(), Cause: err}
			}
		}
		next[o.Name] = log
	}
	return next, nil
}

// use applies cfg with what was opened for it, and closes what that replaces.
func (l *requestLogs) use(cfg config.Logs, next openedLogs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.logs
	l.logs = next
	rules := record.Rules{Slow: cfg.Slow.Threshold, Keep: cfg.Slow.Keep, Share: cfg.Access.Sample}
	if log := l.logs[accessLog]; log != nil {
		rules.AccessLog = func(r *record.Record) { log.Write(record.Line{At: r.Ended(), Attrs: r.BriefAttrs}) }
	}
	if log := l.logs[slowLog]; log != nil {
		rules.SlowLog = func(r *record.Record) { log.Write(record.Line{At: r.Ended(), Attrs: r.Attrs}) }
	}
	l.records.Use(rules)
	l.end(before, l.logs)
}

// drop closes what was opened and is not used.
func (l *requestLogs) drop(next openedLogs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(next, l.logs)
}

// end writes the waiting lines of these logs and closes them, but for those to be kept.
func (l *requestLogs) end(these, kept openedLogs) {
	ctx, cancel := context.WithTimeout(context.Background(), logGrace)
	defer cancel()
	var ended sync.WaitGroup
	for name, log := range these {
		if log == kept[name] {
			continue
		}
		ended.Go(func() { // a disk that hangs takes no time from the other log
			if err := log.Close(ctx); err != nil {
				l.logger.Warn("lines of a log are lost", "err", err)
			}
		})
	}
	ended.Wait()
}

// reopen opens files again, which may have been renamed by log rotation.
func (l *requestLogs) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range l.logs {
		log.Reopen()
	}
}

// close ends all logs.
func (l *requestLogs) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(l.logs, nil)
}
