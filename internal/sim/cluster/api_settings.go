package simcluster

import (
	"slices"
	"strings"
	"time"
)

// indexSettings answers GET /{index}/_settings[/{names}], flat: only the indices
// that have one of the settings.
func (n *Node) indexSettings(r *request) (reply, *apiError) {
	s := n.cluster.state.Load()
	names, missing := s.resolve(r.at(0), time.Now())
	if missing != "" {
		return reply{}, noSuchIndex(missing)
	}
	var wanted []string
	if r.at(2) != "" {
		wanted = strings.Split(r.at(2), ",")
	}
	out := map[string]any{}
	for _, name := range names {
		found := map[string]any{}
		for key, value := range s.index(name).settings() {
			if key = "index." + key; wanted == nil || slices.Contains(wanted, key) {
				found[key] = value
			}
		}
		if len(found) > 0 {
			out[name] = map[string]any{"settings": found}
		}
	}
	return answer(out), nil
}
