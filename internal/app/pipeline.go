package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
	"sidestep/internal/cluster/relay"
	"sidestep/internal/config"
	"sidestep/internal/leg"
	"sidestep/internal/preflight"
	"sidestep/internal/proxy"
	"sidestep/internal/selection"
)

// pipeline is everything behind the listeners that a reload may replace. Each has its own
// registry, as two of them exist during a reload.
type pipeline struct {
	recipe   config.Config // see recipeOf
	store    *cluster.Store
	poller   *poll.Poller
	indices  *poll.Indices[bulk.Index] // nil if no bulks go to one shard
	selector *selection.Selector
	proxy    *proxy.Proxy
	check    *preflight.Checker
	registry *prometheus.Registry
	account  *http.Client // of sidestep's own account, for polls
	relay    *http.Client // nil if there is no relay
	// snapshots serves the snapshot to other sidesteps.
	snapshots http.Handler
	// quit ends the probes; nil before start.
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

// newPipeline builds a pipeline that is not started yet. Its polls, probes and requests
// are reported to what outlives it in a.
func (a *App) newPipeline(cfg config.Config) (*pipeline, error) {
	to, err := connections("upstream.tls", cfg.Upstream.TLS, cfg.Upstream, a.files)
	if err != nil {
		return nil, err
	}
	p := &pipeline{recipe: recipeOf(cfg), registry: prometheus.NewRegistry()}
	logChange := proxy.LogChange(a.logger)
	p.selector = selection.New(selection.Options{
		Clients:    cfg.Routing.Clients,
		Seed:       randomSeed(),
		Epoch:      time.Now(),
		Zone:       cfg.Routing.Zone.Local,
		ZoneFactor: cfg.Routing.Zone.Factor,
		OnChange: func(c selection.Change) {
			logChange(c)
			a.recorder.Look()
		},
	})
	if err := p.observe(cfg, to, a); err != nil {
		return nil, err
	}
	p.proxy, err = proxy.New(proxy.Options{
		Seeds:            cfg.Upstream.Parsed(),
		Leg:              to,
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
	p.check = newChecker(cfg, p)
	return p, nil
}

// observe builds the part that polls the cluster, with sidestep's own account over connections as to has them.
func (p *pipeline) observe(cfg config.Config, to leg.Options, a *App) (err error) {
	polls := newTransport(to)
	polls.DisableCompression = true // nodes have other things to do
	seeds := cfg.Upstream.Parsed()  // the scheme of all is alike
	if p.account, err = newPollClient(cfg.Upstream.Auth, seeds[0], polls, a.files); err != nil {
		return fmt.Errorf("upstream.auth: %w", err)
	}
	source, err := relayOptions(cfg, a.files)
	if err != nil {
		return err
	}
	p.relay = source.Client
	// The proxy needs methods of the store and the poller to be built; they call the
	// proxy only once the poller is started.
	p.store = cluster.NewStore(cluster.StoreOptions{
		Logger:     a.logger,
		Registerer: p.registry,
		OnSnapshot: func(s *cluster.Snapshot) { p.proxy.UseSnapshot(s) },
	})
	o := poll.Options{
		Seeds:             seeds,
		Static:            cfg.Upstream.Discovery == "static",
		Client:            p.account,
		DiscoveryInterval: cfg.Cluster.DiscoveryInterval,
		PlacementInterval: cfg.Cluster.PlacementInterval,
		PlacementMaxAge:   cfg.Cluster.PlacementMaxAge,
		StatsInterval:     cfg.Cluster.StatsInterval,
		StatsIdleInterval: cfg.Cluster.StatsIdleInterval,
		StatsTimeout:      cfg.Cluster.StatsTimeout,
		PollTimeout:       cfg.Cluster.PollTimeout,
		Logger:            a.logger,
		Registerer:        p.registry,
		OnStats: func(s cluster.NodeStats) {
			p.proxy.UseStats(s)
			a.recorder.History().Poll(s)
		},
	}
	if source.URL != nil {
		source.Prober = sharing{p.selector}
		o.Source = relay.NewFollower(source)
	}
	p.poller = poll.New(p.store, o)
	p.indices = newIndices(cfg.Bulk, p.poller)
	p.snapshots = relay.NewServer(p.poller, sharing{p.selector}, p.registry)
	return nil
}

// open returns a function that reports whether the cluster has no security, as it answers
// polls without an account. Behind a relay that is unknown.
func (p *pipeline) open(u config.Upstream) func() bool {
	anonymous := u.Auth.Kind() == config.AuthNone && u.TLS.CertFile == "" && p.relay == nil
	return func() bool { return anonymous && p.store.Snapshot() != nil }
}

// start starts polling the cluster, until stop.
func (p *pipeline) start(ctx context.Context) {
	ctx, p.quit = context.WithCancel(context.WithoutCancel(ctx))
	p.poller.Start(ctx)
	if p.indices != nil {
		p.indices.Start(ctx)
	}
	p.probing.Go(func() { p.proxy.Probe(ctx) })
}

// stop ends polls and probes and closes idle connections. Requests in flight continue
// with what is known.
func (p *pipeline) stop() {
	if p.quit != nil {
		p.quit()
	}
	p.probing.Wait()
	if p.indices != nil {
		p.indices.Stop()
	}
	p.poller.Stop()
	p.proxy.Close()
	p.account.CloseIdleConnections()
	if p.relay != nil {
		p.relay.CloseIdleConnections()
	}
}

// randomSeed differs between sidesteps, so that they break ties differently.
func randomSeed() uint64 {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	return binary.NativeEndian.Uint64(seed[:])
}
