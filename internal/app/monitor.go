package app

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
	"sidestep/internal/cluster/relay"
	"sidestep/internal/config"
	"sidestep/internal/leg"
	"sidestep/internal/proxy"
	"sidestep/internal/selection"
)

// monitor is the part of a pipeline that polls the cluster, with what it has learned of that and of its nodes. The next
// pipeline goes on with it if that has the same needs.
type monitor struct {
	needs    needs
	to       leg.Options // connections to nodes
	store    *cluster.Store
	poller   *poll.Poller
	indices  *poll.Indices[bulk.Index] // nil if no bulks go to one shard
	selector *selection.Selector
	account  *http.Client // of sidestep's own account, for polls
	relay    *http.Client // nil if there is no relay
	// snapshots serves the snapshot to other sidesteps.
	snapshots http.Handler
	metrics   *prometheus.Registry
	// receiver is told what is found out.
	receiver atomic.Pointer[proxy.Proxy]
}

// needs are what of a configuration a monitor is made from, and nothing else of it.
type needs struct {
	upstream config.Upstream
	cluster  config.Cluster
	clients  int
	zone     config.Zone
	// indices says that the metadata of indices is needed, aliases that their aliases are.
	indices, aliases bool
}

func needsOf(cfg config.Config) needs {
	return needs{
		upstream: cfg.Upstream, cluster: cfg.Cluster, clients: cfg.Routing.Clients, zone: cfg.Routing.Zone,
		indices: len(cfg.Bulk.SingleShard)+len(cfg.Bulk.RoutingSize) > 0, aliases: len(cfg.Bulk.RoutingSize) > 0,
	}
}

// monitorFor returns the current monitor if it is made from n, else one that is not started yet. What it finds out
// about nodes is reported to what outlives it in a.
func (a *App) monitorFor(n needs, current *monitor) (*monitor, error) {
	if current != nil && reflect.DeepEqual(n, current.needs) {
		return current, nil
	}
	m := &monitor{needs: n, metrics: prometheus.NewRegistry()}
	var err error
	if m.to, err = connections("upstream.tls", n.upstream.TLS, n.upstream, a.files); err != nil {
		return nil, err
	}
	logChange := proxy.LogChange(a.logger)
	m.selector = selection.New(selection.Options{
		Clients:    n.clients,
		Seed:       randomSeed(),
		Epoch:      time.Now(),
		Zone:       n.zone.Local,
		ZoneFactor: n.zone.Factor,
		OnChange: func(c selection.Change) {
			logChange(c)
			a.recorder.Look()
			m.receiver.Load().NodeChanged(c)
		},
	})
	return m, m.prepare(a)
}

// prepare makes the polls, with sidestep's own account.
func (m *monitor) prepare(a *App) (err error) {
	n := m.needs
	polls := newTransport(m.to)
	polls.DisableCompression = true // nodes have other things to do
	seeds := n.upstream.Parsed()    // the scheme of all is alike
	if m.account, err = newPollClient(n.upstream.Auth, seeds[0], polls, a.files); err != nil {
		return fmt.Errorf("upstream.auth: %w", err)
	}
	source, err := relayOptions(n, a.files)
	if err != nil {
		return err
	}
	m.relay = source.Client
	m.store = cluster.NewStore(cluster.StoreOptions{
		Logger:     a.logger,
		Registerer: m.metrics,
		OnSnapshot: func(s *cluster.Snapshot) { m.receiver.Load().UseSnapshot(s) },
	})
	o := poll.Options{
		Seeds:             seeds,
		Static:            n.upstream.Discovery == "static",
		Client:            m.account,
		DiscoveryInterval: n.cluster.DiscoveryInterval,
		PlacementInterval: n.cluster.PlacementInterval,
		PlacementMaxAge:   n.cluster.PlacementMaxAge,
		StatsInterval:     n.cluster.StatsInterval,
		StatsIdleInterval: n.cluster.StatsIdleInterval,
		StatsTimeout:      n.cluster.StatsTimeout,
		PollTimeout:       n.cluster.PollTimeout,
		Logger:            a.logger,
		Registerer:        m.metrics,
		Needed:            func(node string) bool { return m.receiver.Load().NeedsPolls(node) },
		OnStats: func(s cluster.NodeStats) {
			m.receiver.Load().UseStats(s)
			a.recorder.History().Poll(s)
		},
	}
	if source.URL != nil {
		source.Prober = sharing{m.selector}
		o.Source = relay.NewFollower(source)
	}
	m.poller = poll.New(m.store, o)
	m.indices = newIndices(n, m.poller)
	m.snapshots = relay.NewServer(m.poller, sharing{m.selector}, m.metrics)
	return nil
}

// reportTo has p told from now on what is found out, and first what is known.
func (m *monitor) reportTo(p *proxy.Proxy) {
	m.receiver.Store(p)
	if m.store.Snapshot() != nil {
		m.store.Publish()
	}
}

// start starts polling the cluster, until stop.
func (m *monitor) start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	m.poller.Start(ctx)
	if m.indices != nil {
		m.indices.Start(ctx)
	}
}

// stop ends polls and closes idle connections.
func (m *monitor) stop() {
	if m.indices != nil {
		m.indices.Stop()
	}
	m.poller.Stop()
	m.account.CloseIdleConnections()
	if m.relay != nil {
		m.relay.CloseIdleConnections()
	}
}
