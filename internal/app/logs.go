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

	mu           sync.Mutex // guards what follows
	cfg          config.Logs
	access, slow *record.Log // nil: not logged
}

func newRequestLogs(registry prometheus.Registerer, logger *slog.Logger) (*requestLogs, error) {
	metrics, err := record.NewMetrics(registry, accessLog, slowLog)
	return &requestLogs{records: record.NewRecorder(), metrics: metrics, logger: logger}, err
}

// openedLogs are the outputs of a configuration that is not applied yet.
type openedLogs struct {
	cfg          config.Logs
	access, slow *record.Log
	fresh        []*record.Log // those that were opened for it
}

// open opens the logs of cfg that are not open yet. It must be followed by use or drop.
func (l *requestLogs) open(cfg config.Logs) (openedLogs, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := openedLogs{cfg: cfg}
	for _, log := range []struct {
		o       record.Options
		was     string
		current *record.Log
		into    **record.Log
	}{
		{record.Options{Name: accessLog, Output: cfg.Access.Output, Message: "request", Level: slog.LevelInfo}, l.cfg.Access.Output, l.access, &next.access},
		{record.Options{Name: slowLog, Output: cfg.Slow.Output, Message: "slow request", Level: slog.LevelWarn}, l.cfg.Slow.Output, l.slow, &next.slow},
	} {
		if *log.into = log.current; log.o.Output == log.was {
			continue
		}
		if *log.into = nil; log.o.Output == "" {
			continue
		}
		log.o.Metrics, log.o.Logger = l.metrics, l.logger
		opened, err := record.Open(log.o)
		if err != nil {
			l.drop(next)
			return openedLogs{}, &config.Problem{Path: "logs." + log.o.Name + ".output", Message: err.Error(), Cause: err}
		}
		*log.into, next.fresh = opened, append(next.fresh, opened)
	}
	return next, nil
}

// use applies what was opened and closes what it replaces.
func (l *requestLogs) use(next openedLogs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := []*record.Log{l.access, l.slow}
	l.cfg, l.access, l.slow = next.cfg, next.access, next.slow
	rules := record.Rules{Slow: l.cfg.Slow.Threshold, Keep: l.cfg.Slow.Keep, Share: l.cfg.Access.Sample}
	if log := l.access; log != nil {
		rules.AccessLog = func(r *record.Record) { log.Write(record.Line{At: r.Ended(), Attrs: r.BriefAttrs}) }
	}
	if log := l.slow; log != nil {
		rules.SlowLog = func(r *record.Record) { log.Write(record.Line{At: r.Ended(), Attrs: r.Attrs}) }
	}
	l.records.Use(rules)
	for _, log := range before {
		if log != nil && log != l.access && log != l.slow {
			l.closed(log)
		}
	}
}

// drop closes what was opened and is not used.
func (l *requestLogs) drop(next openedLogs) {
	for _, log := range next.fresh {
		l.closed(log)
	}
}

func (l *requestLogs) closed(log *record.Log) {
	ctx, cancel := context.WithTimeout(context.Background(), logGrace)
	defer cancel()
	if err := log.Close(ctx); err != nil {
		l.logger.Warn("lines of a log are lost", "err", err)
	}
}

// reopen opens files again, which may have been renamed by log rotation.
func (l *requestLogs) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range []*record.Log{l.access, l.slow} {
		if log != nil {
			log.Reopen()
		}
	}
}

// close writes the waiting lines.
func (l *requestLogs) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range []*record.Log{l.access, l.slow} {
		if log != nil {
			l.closed(log)
		}
	}
}
