package app

import (
	"time"

	"sidestep/internal/admin"
	"sidestep/internal/diagnosis"
	"sidestep/internal/es"
	"sidestep/internal/proxy"
)

// explanation is what would be done with a request, with the records of its nodes.
type explanation struct {
	proxy.Explanation
	// Spikes are the records of nodes with a copy that are or recently were in trouble.
	Spikes []diagnosis.Spike `json:"spikes,omitempty"`
}

// lately is how long after its end a spike is part of explanations: a node may take that
// long to get its full share again.
const lately = 30 * time.Second

// Explain implements admin.Service.
func (s service) Explain(q admin.Question) (any, error) {
	if q.Bulk != "" {
		return s.app.current.Load().proxy.ExplainBulk(q.Bulk), nil
	}
	explained, err := s.app.current.Load().proxy.Explain(proxy.Question{
		Operation: es.Operation(q.Operation), Target: q.Target, ID: q.ID, Routing: q.Routing, Preference: q.Preference,
		User: q.User, OpaqueID: q.OpaqueID,
	})
	if err != nil {
		return nil, err
	}
	return explanation{explained, concerning(explained, s.app.recorder.Spikes().Spikes, time.Now())}, nil
}

// concerning returns the spikes of nodes with a copy that are open, or ended lately.
func concerning(e proxy.Explanation, spikes []diagnosis.Spike, now time.Time) (concern []diagnosis.Spike) {
	holds := map[string]bool{}
	for _, shard := range e.Shards {
		for _, c := range shard.Copies {
			holds[c.NodeID] = true
		}
	}
	for _, spike := range spikes {
		if holds[spike.NodeID] && (spike.Ended == nil || now.Sub(spike.Ended.Time) < lately) {
			concern = append(concern, spike)
		}
	}
	return concern
}
