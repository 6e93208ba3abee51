package app

import (
	"sidestep/internal/check"
	"sidestep/internal/config"
)

// newChecker returns the checker of the cluster of p.
func newChecker(cfg config.Config, p *pipeline) *check.Checker {
	return check.New(check.Options{
		Client:  p.account,
		Seeds:   cfg.Upstream.Parsed(),
		Static:  cfg.Upstream.Discovery == "static",
		Account: cfg.Upstream.Auth.Kind() != config.AuthNone,
		Zone:    cfg.Routing.Zone.Attribute,
		Facts: func() check.Facts {
			totals := p.proxy.Totals()
			return check.Facts{
				Snapshot:  p.cluster.Snapshot(),
				Missing:   p.cluster.Ready(),
				Mode:      string(p.proxy.Mode()),
				Decisions: totals.Decisions,
				Observed:  totals.Observed,
				Sniffed:   totals.Sniffs["passed"],
			}
		},
	})
}
