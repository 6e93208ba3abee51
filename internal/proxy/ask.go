package proxy

import (
	"context"
	"net/http"
	"strings"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/selection"
)

// Results of asking a node. The set is closed: it is a metric label.
const (
	askAnswered   = "answered"
	askUnanswered = "unanswered"
)

// ask has the nodes that a late search waits for asked whether they answer at all, if the
// budget allows it. Nodes behind one address cannot be asked.
func (p *Proxy) ask(d *selection.Decision, now time.Time) {
	if p.o.Probes == nil || p.probes.senders.Load() == 0 || len(d.Nodes) == 0 || p.view.Load().upstream(d.Nodes[0]) == nil {
		return
	}
	for _, a := range attempt.ToAsk(p.hedges, func() []selection.Asking { return p.o.Selector.Ask(nil, d, now) }) {
		select {
		case p.probes.asks <- a:
		default:
			p.asked(a, false, now) // too many wait
		}
	}
}

// asked notes how a time that a node was asked ended.
func (p *Proxy) asked(a selection.Asking, answered bool, now time.Time) {
	p.o.Selector.Asked(a, answered, now)
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
