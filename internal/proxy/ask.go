package proxy

import (
	"context"
	"net/http"
	"strings"
	"time"

	"sidestep/internal/selection"
)

// Results of asking a node. The set is closed: it is a metric label.
const (
	askAnswered   = "answered"
	askUnanswered = "unanswered"
)

// ask has the nodes that a late search waits for asked whether they answer at all, if the
// budget allows it.
func (p *Proxy) ask(d *selection.Decision, now time.Time) {
	if p.o.Probes == nil || !p.hedges.Ask() {
		return
	}
	for _, n := range p.o.Selector.Ask(nil, d, now) {
		select {
		case p.probes.asks <- n:
		default:
			p.asked(n, false, now) // too many wait
		}
	}
}

// asked notes how the asking of n ended.
func (p *Proxy) asked(n *selection.Node, answered bool, now time.Time) {
	p.o.Selector.Asked(n, answered, now)
	result := askUnanswered
	if answered {
		result = askAnswered
	}
	p.metrics.asks.WithLabelValues(result).Inc()
}

// answers asks n for something that costs it next to nothing and waits in no queue, and
// reports whether it answered, whatever it said.
func (p *Proxy) answers(ctx context.Context, n *selection.Node) bool {
	u := p.view.Load().upstream(n)
	if u == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, selection.ProbeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimSuffix(u.url.String(), "/")+"/", http.NoBody)
	if err != nil {
		return false
	}
	r.Header.Set("X-Opaque-Id", probeID)
	_, _, err = fetch(p.o.Probes, r)
	return err == nil
}
