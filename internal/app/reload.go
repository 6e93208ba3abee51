package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/config"
	"sidestep/internal/proxy"
)

// readyPoll is the interval of checking whether the new pipeline is ready.
const readyPoll = 20 * time.Millisecond

// ReloadConfig reads the configuration again and applies it, see [App.Reload]. It reopens
// the logs of requests in any case. Of several at once each reads after the one before has been applied.
func (a *App) ReloadConfig() error {
	a.logs.reopen()
	if a.options.Load == nil {
		return errors.New("there is no configuration to read again")
	}
	return a.reloadFrom(a.options.Load)
}

// Reload applies cfg without dropping a request. On error nothing changes. The listeners
// and a few other keys cannot change: the error names them. What polls the cluster goes on if cfg
// asks for the same. If not, a pipeline that polls it anew is used once it is ready. One that does
// not become ready is used only if the old one is not ready either.
func (a *App) Reload(cfg config.Config) error {
	return a.reloadFrom(func() (config.Config, error) { return cfg, nil })
}

// errStopping refuses a reload.
var errStopping = errors.New("sidestep is stopping")

// reloadFrom applies what load returns, and logs and counts the result.
func (a *App) reloadFrom(load func() (config.Config, error)) error {
	if !a.Serving() {
		return errStopping // Stop holds mu until all has ended
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	cfg, err := load()
	if err == nil {
		err = a.reload(cfg)
	}
	a.files.reloads.Add(1)
	a.metrics.reloaded(err == nil, time.Now())
	if err == nil {
		a.logger.Info("configuration reloaded")
	}
	return err
}

// warn tells of what the next release will not accept.
func (a *App) warn(cfg config.Config) {
	if cfg.Routing.Policy != "" {
		a.logger.Warn("routing.policy says nothing any more, as there is one policy; the next release will not accept it: take it out")
	}
	for _, class := range cfg.Admission.RetiredClasses() {
		a.logger.Warn("reads by id never wait, so that there is nothing in this class; the next release will not accept it: take it out of admission.classes, and out of the downgrade of others",
			"class", class)
	}
}

func (a *App) reload(cfg config.Config) error {
	if !a.Serving() {
		return errStopping
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := config.Join(append(needRestart(a.cfg, cfg), a.keepSlots(cfg.Bulk)...)...); err != nil {
		return err
	}
	access, err := newAccess(cfg.Admin, a.options.Sockets.Admin, a.files)
	if err != nil {
		return err
	}
	logs, err := a.logs.open(cfg.Logs)
	if err != nil {
		return err
	}
	next, err := a.replacement(cfg)
	if err == nil {
		if err = a.useTracing(cfg); err != nil && next != nil {
			next.stop(a.current.Load())
		}
	}
	if err != nil {
		a.logs.drop(logs)
		return err
	}
	a.setLevel(cfg.Log.Level)
	a.warn(cfg)
	a.logs.use(cfg.Logs, logs)
	a.access.Store(access)
	if old := a.swap(cfg, next); old != nil {
		old.stop(next)
	}
	a.cfg = cfg
	return nil
}

// needRestart lists the differences that a reload cannot apply.
func needRestart(before, after config.Config) []*config.Problem {
	var problems []*config.Problem
	for _, fixed := range []struct {
		path          string
		before, after any
	}{
		{"listen", before.Listen, after.Listen},
		{"listen_tls", before.ListenTLS, after.ListenTLS},
		{"admin.listen", before.Admin.Listen, after.Admin.Listen},
		{"admin.tls", before.Admin.TLS, after.Admin.TLS},
		{"limits.read_header_timeout", before.Limits.ReadHeaderTimeout, after.Limits.ReadHeaderTimeout},
		{"limits.concurrent_streams", before.Limits.ConcurrentStreams, after.Limits.ConcurrentStreams},
		{"diagnosis", before.Diagnosis, after.Diagnosis},
		{"log.format", before.Log.Format, after.Log.Format},
	} {
		if fixed.before != fixed.after {
			problems = append(problems, &config.Problem{
				Path: fixed.path, Message: "cannot change while running: restart sidestep, or restore the old value",
			})
		}
	}
	return problems
}

// replacement returns the pipeline for cfg, started and ready unless it goes on with the monitor of the current one; nil if
// that already is what cfg asks for.
func (a *App) replacement(cfg config.Config) (*pipeline, error) {
	current := a.current.Load()
	if reflect.DeepEqual(recipeOf(cfg), current.recipe) {
		return nil, nil //nolint:nilnil // nothing to replace is not an error
	}
	next, err := a.newPipeline(cfg, current.monitor)
	if err != nil || next.monitor == current.monitor {
		return next, err
	}
	next.start(context.Background())
	// Two rounds of polls: one to find the nodes, one to measure them. A relay that is silent comes before them.
	round := cfg.Cluster.PollTimeout
	if cfg.Cluster.Source.URL != "" {
		round += cfg.Cluster.Source.Silence
	}
	patience := time.NewTimer(2 * round)
	defer patience.Stop()
	look := time.NewTicker(readyPoll)
	defer look.Stop()
	for next.poller.Ready() != nil && current.poller.Ready() == nil {
		select {
		case <-look.C:
			continue
		case <-a.stopping:
			err = errStopping
		case <-patience.C:
			err = fmt.Errorf("the cluster does not answer with the new configuration, so the old one is kept, with what it knows; reload again when it does: %w", next.poller.Ready())
		}
		next.stop(current)
		return nil, err
	}
	return next, nil
}

// swap puts next, if any, in place of the current pipeline, which it returns.
// Requests in flight end on the old one. A mode that was switched by hand stays,
// unless the configured one has changed.
func (a *App) swap(cfg config.Config, next *pipeline) (old *pipeline) {
	a.modeMu.Lock()
	defer a.modeMu.Unlock()
	current := a.current.Load()
	mode, bulks, admits := current.proxy.Mode(), current.proxy.OwnBulkMode(), current.proxy.OwnAdmissionMode()
	if cfg.Routing.Mode != a.cfg.Routing.Mode {
		mode = proxy.Mode(cfg.Routing.Mode)
	}
	if cfg.Bulk.Mode != a.cfg.Bulk.Mode {
		bulks = proxy.Mode(cfg.Bulk.Mode)
	}
	if cfg.Admission.Mode != a.cfg.Admission.Mode || admits == admission.Target && cfg.Admission.TargetResponseTime == 0 {
		admits = admission.Mode(cfg.Admission.Mode)
	}
	switch {
	case next == nil:
		next = current
	case next.monitor == current.monitor:
		next.goOn(current)
	default:
		next.proxy.KeepOutAs(current.proxy)
	}
	if err := errors.Join(next.proxy.SetMode(mode), next.proxy.SetBulkMode(bulks), next.proxy.SetAdmissionMode(admits)); err != nil {
		a.logger.Error("cannot set the modes of routing, bulks and admission", "err", err) // validated: cannot happen
	}
	switch {
	case next == current:
		return nil
	case next.monitor == current.monitor:
		next.proxy.BeginWith(current.proxy)
	}
	a.use(next)
	return current
}
