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

// logGrace is how long a stop or a reload waits for the last lines of a log, and a stop for the
// records of spikes.
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
	cfg  config.Logs
	logs map[string]*record.Log // by name; what is not logged is not in it
}

func newRequestLogs(registry prometheus.Registerer, logger *slog.Logger) (*requestLogs, error) {
	metrics, err := record.NewMetrics(registry, accessLog, slowLog)
	return &requestLogs{records: record.NewRecorder(), metrics: metrics, logger: logger}, err
}

// openedLogs are the logs of a configuration that is not applied yet.
type openedLogs struct {
	cfg  config.Logs
	logs map[string]*record.Log
}

// open opens the logs of cfg that are not open yet. It must be followed by use or drop.
func (l *requestLogs) open(cfg config.Logs) (openedLogs, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := openedLogs{cfg: cfg, logs: map[string]*record.Log{}}
	was := map[string]string{accessLog: l.cfg.Access.Output, slowLog: l.cfg.Slow.Output}
	for _, o := range []record.Options{
		{Name: accessLog, Output: cfg.Access.Output, Message: "request", Level: slog.LevelInfo, Metrics: l.metrics, Logger: l.logger},
		{Name: slowLog, Output: cfg.Slow.Output, Message: "slow request", Level: slog.LevelWarn, Metrics: l.metrics, Logger: l.logger},
	} {
		switch o.Output {
		case "":
			continue
		case was[o.Name]:
			next.logs[o.Name] = l.logs[o.Name]
			continue
		}
		opened, err := record.Open(o)
		if err != nil {
			l.end(next.logs, l.logs)
			return openedLogs{}, &config.Problem{Path: "logs." + o.Name + ".output", Message: err.Error(), Cause: err}
		}
		next.logs[o.Name] = opened
	}
	return next, nil
}

// use applies what was opened and closes what it replaces.
func (l *requestLogs) use(next openedLogs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.logs
	l.cfg, l.logs = next.cfg, next.logs
	rules := record.Rules{Slow: l.cfg.Slow.Threshold, Keep: l.cfg.Slow.Keep, Share: l.cfg.Access.Sample}
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
	l.end(next.logs, l.logs)
}

// end writes the waiting lines of these logs and closes them, but for those to be kept.
func (l *requestLogs) end(these, kept map[string]*record.Log) {
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
