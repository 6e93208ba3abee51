package selection

import "time"

// NodeView is what an operator sees of a node.
type NodeView struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	// Since is when the state began, null while the node was never seen.
	Since *time.Time `json:"since"`
	// Why says what spoke against the node when it was sent away, while it is Slow,
	// Failing or Ramping.
	Why         string   `json:"why,omitempty"`
	Rank        *float64 `json:"rank"` // null without statistics
	Parts       Parts    `json:"parts"`
	Overhead    float64  `json:"http_overhead_ms"`
	Outstanding int64    `json:"outstanding"`
	Searches    int64    `json:"searches"` // whose list had the node
	Failures    int64    `json:"failures"`
	Share       float64  `json:"share_last_minute"` // of expected shard queries, 0..1
	// PollAge is how long ago, in seconds, the node last answered a poll; null if
	// it never did.
	PollAge *float64 `json:"poll_age_s"`
	// Probes of the node that were answered, or not within ProbeTimeout, and the time
	// that they took together.
	Probes    int64         `json:"probes"`
	ProbeTime time.Duration `json:"-"`

	LastError *NodeError `json:"last_error"`
}

// View describes nodes at now, in the order given.
func (s *Selector) View(nodes []*Node, now time.Time) []NodeView {
	at := s.since(now)
	out := make([]NodeView, len(nodes))
	var all int64
	sent := make([]int64, len(nodes))
	for i, n := range nodes {
		sent[i] = n.sent.total(at)
		all += sent[i]
	}
	for i, n := range nodes {
		out[i] = s.view(n, at)
		if all > 0 {
			out[i].Share = float64(sent[i]) / float64(all)
		}
	}
	return out
}

func (s *Selector) view(n *Node, at int64) NodeView {
	p, ok := n.parts()
	v := NodeView{
		ID:          n.ID,
		Name:        n.Name,
		State:       n.State().String(),
		Parts:       p,
		Overhead:    n.overheadAt(at),
		Outstanding: n.Outstanding(),
		Searches:    n.searches.Load(),
		Failures:    n.failures.Load(),
		Probes:      n.probe.timed.Load(),
		ProbeTime:   time.Duration(n.probe.spent.Load()),
		LastError:   n.lastError.Load(),
	}
	if why := n.health.why.Load(); why != nil && n.health.condition() != Fine {
		v.Why = *why
	}
	if changed := n.stateAt.Load(); changed != 0 {
		since := s.epoch.Add(time.Duration(changed)).UTC().Truncate(time.Millisecond)
		v.Since = &since
	}
	if polled := n.polledAt.Load(); polled != 0 {
		age := max(0, time.Duration(at-polled).Seconds())
		v.PollAge = &age
	}
	if _, polled := n.queue.value(); !ok && !polled {
		return v
	}
	// The same under every policy: it has a meaning from one moment to the next.
	r := p.Rank(s.n)
	v.Rank = &r
	return v
}
