package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/config"
	"sidestep/internal/preflight"
	"sidestep/internal/proxy"
)

// pipeline is everything behind the listeners that a reload may replace. Each has its own
// registry, as two of them exist during a reload. The monitor of both may be the same.
type pipeline struct {
	*monitor
	recipe   config.Config // see recipeOf
	proxy    *proxy.Proxy
	check    *preflight.Checker
	registry *prometheus.Registry
	// quit ends the probes; nil before probe.
	quit    context.CancelFunc
	probing sync.WaitGroup
}

// recipeOf returns what of cfg a pipeline is made from: two with equal recipes behave alike. The rest is applied to the one
// at hand, or to what all have in common. Modes are switched, see [App.swap].
func recipeOf(cfg config.Config) config.Config {
	cfg.Routing.Mode, cfg.Routing.Policy, cfg.Bulk.Mode, cfg.Admission.Mode = "", "", "", ""
	cfg.Limits.DrainDelay, cfg.Limits.ShutdownGrace = 0, 0
	cfg.Admin, cfg.Log, cfg.Logs, cfg.Tracing = config.Admin{}, config.Log{}, config.Logs{}, config.Tracing{}
	return cfg
}

// newPipeline builds a pipeline with the current monitor, if that is what cfg asks for, or one that is not started yet.
// Its probes and requests are reported to what outlives it in a.
func (a *App) newPipeline(cfg config.Config, current *monitor) (*pipeline, error) {
	m, err := a.monitorFor(needsOf(cfg), current)
	if err != nil {
		return nil, err
	}
	p := &pipeline{monitor: m, recipe: recipeOf(cfg), registry: prometheus.NewRegistry()}
	p.proxy, err = proxy.New(proxy.Options{
		Seeds:            cfg.Upstream.Parsed(),
		Leg:              p.to,
		Selector:         p.selector,
		Learn:            p.store.Learn,
		LearnLayout:      p.store.LearnLayout,
		Refresh:          p.poller.RefreshPlacement,
		Touch:            p.poller.Touch,
		Use:              p.poller.Use,
		Mode:             proxy.Mode(cfg.Routing.Mode),
		When:             proxy.When(cfg.Routing.When),
		PreferNodes:      cfg.Routing.Preference == "prefer_nodes",
		Off:              cfg.Routing.Operations.Off(),
		Bulk:             p.bulkOptions(cfg.Bulk, &a.books),
		Admission:        admissionOptions(cfg.Admission, cfg.Routing.Clients),
		CoordinatingOnly: cfg.Routing.CoordinatingOnly,
		Affinity:         proxy.Affinity(cfg.Routing.Affinity),
		Zone:             proxy.Zone{Attribute: cfg.Routing.Zone.Attribute, Local: cfg.Routing.Zone.Local},
		Sniff:            proxy.Sniff{Rewrite: cfg.Clients.Sniff == "rewrite", Address: cfg.Clients.PublishAddress},
		HedgeBudget:      cfg.Routing.HedgeBudget,
		MaxHeldBody:      int64(cfg.Limits.HeldBody),
		MaxHeldBodies:    int64(cfg.Limits.HeldBodies),
		Held:             &a.held,
		BodyTimeout:      cfg.Limits.BodyTimeout,
		WriteTimeout:     cfg.Limits.WriteTimeout,
		Explain:          proxy.Explain(cfg.Explain.Header),
		Open:             p.open(cfg.Upstream),
		MaxPlacementAge:  cfg.Cluster.PlacementMaxAge,
		Probes:           p.account,
		Probers:          func() int { return max(p.poller.Readers(), cfg.Routing.Clients) },
		OnProbe:          a.recorder.History().Probe,
		Records:          a.logs.records,
		Tracer:           a.tracer,
		Logger:           a.logger,
		Registerer:       p.registry,
	})
	if err != nil {
		return nil, fmt.Errorf("build the data plane: %w", err)
	}
	p.receiver.CompareAndSwap(nil, p.proxy) // a monitor that is not started yet has none
	p.check = newChecker(cfg, p)
	return p, nil
}

// open returns a function that reports whether the cluster has no security, as it answers
// polls without an account. Behind a relay that is unknown.
func (p *pipeline) open(u config.Upstream) func() bool {
	anonymous := u.Auth.Kind() == config.AuthNone && u.TLS.CertFile == "" && p.relay == nil
	return func() bool { return anonymous && p.store.Snapshot() != nil }
}

// start starts polling the cluster, and probes.
func (p *pipeline) start(ctx context.Context) {
	p.monitor.start(ctx)
	p.probe(ctx)
}

// probe starts the probes.
func (p *pipeline) probe(ctx context.Context) {
	ctx, p.quit = context.WithCancel(context.WithoutCancel(ctx))
	p.probing.Go(func() { p.proxy.Probe(ctx) })
}

// goOn has p go on where the pipeline before it ends, of which it has the monitor.
func (p *pipeline) goOn(before *pipeline) {
	p.proxy.Replace(before.proxy)
	p.reportTo(p.proxy)
	p.probe(context.Background())
}

// stop ends the probes and, unless next goes on with them, polls and idle connections. next may be nil. Requests in flight
// continue with what is known.
func (p *pipeline) stop(next *pipeline) {
	if p.quit != nil {
		p.quit()
	}
	p.probing.Wait()
	if next == nil || next.monitor != p.monitor {
		p.monitor.stop()
		p.proxy.Close()
	}
}

// randomSeed differs between sidesteps, so that they break ties differently.
func randomSeed() uint64 {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	return binary.NativeEndian.Uint64(seed[:])
}
