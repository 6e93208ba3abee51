package app

import (
	"sidestep/internal/config"
	"sidestep/internal/preflight"
)

// newChecker returns the checker of the cluster of p.
func newChecker(cfg config.Config, p *pipeline) *preflight.Checker {
	return preflight.New(preflight.Options{
		Client:  p.account,
		Seeds:   cfg.Upstream.Parsed(),
		Static:  cfg.Upstream.Discovery == "static",
		Account: cfg.Upstream.Auth.Kind() != config.AuthNone,
		Zone:    cfg.Routing.Zone.Attribute,
		Counts:  len(cfg.Bulk.SingleShard)+len(cfg.Bulk.RoutingSize) > 0,
		Facts: func() preflight.Facts {
			totals := p.proxy.Totals()
			return preflight.Facts{
				Snapshot:  p.store.Snapshot(),
				Missing:   p.poller.Ready(),
				Mode:      string(p.proxy.Mode()),
				Decisions: totals.Decisions,
				Observed:  totals.Observed,
				Sniffed:   totals.Sniffs["passed"],
			}
		},
	})
}
