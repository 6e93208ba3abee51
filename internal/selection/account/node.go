package account

import (
	"time"

	"sidestep/internal/selection"
)

// Nodes describes nodes at now, in the order given.
func Nodes(s *selection.Selector, nodes []*selection.Node, now time.Time) []selection.Figures {
	out := make([]selection.Figures, len(nodes))
	var all float64
	for i, n := range nodes {
		out[i] = s.Figures(n, now)
		all += out[i].Sent
	}
	for i := range out {
		if all > 0 {
			out[i].Share = out[i].Sent / all
		}
	}
	return out
}
