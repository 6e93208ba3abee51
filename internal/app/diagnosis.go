package app

import (
	"context"
	"math"
	"time"

	"sidestep/internal/diagnosis"
	"sidestep/internal/proxy"
)

// use makes p the pipeline in use, and the source of the records.
func (a *App) use(p *pipeline) {
	a.current.Store(p)
	a.recorder.Use(diagnosis.Source{
		Read:     func() []diagnosis.Reading { return readings(p.proxy.Nodes()) },
		Snapshot: p.store.Snapshot,
		Interval: p.poller.Interval,
		Follows:  p.poller.Follows,
		Seeds:    p.recipe.Upstream.Parsed(),
		Client:   p.account,
	})
}

// stopRecorder saves the records of spikes, as far as that is possible in time.
func (a *App) stopRecorder() {
	ctx, cancel := context.WithTimeout(context.Background(), logGrace)
	defer cancel()
	if err := a.recorder.Stop(ctx); err != nil {
		a.logger.Warn("records of spikes are lost", "err", err)
	}
}

// readings converts the state of the nodes for the recorder.
func readings(nodes []proxy.NodeStatus) []diagnosis.Reading {
	out := make([]diagnosis.Reading, len(nodes))
	for i, n := range nodes {
		out[i] = diagnosis.Reading{
			ID: n.ID, Name: n.Name, State: n.State, Why: n.Why,
			Response: math.NaN(), Service: math.NaN(), Queue: math.NaN(), Share: n.Share,
		}
		if n.Since != nil {
			out[i].Since = *n.Since
		}
		if n.Rank != nil { // it has been measured
			out[i].Response, out[i].Service, out[i].Queue = n.Parts.ResponseTime, n.Parts.ServiceTime, n.Parts.Queue
		}
	}
	return out
}

// History implements admin.Diagnosis.
func (s service) History(from time.Time) any { return s.app.recorder.History().Since(from) }

// Spikes implements admin.Diagnosis.
func (s service) Spikes() any { return s.app.recorder.Spikes() }

// Spike implements admin.Diagnosis.
func (s service) Spike(id string) (any, bool) { return s.app.recorder.Spike(id) }

// Folded implements admin.Diagnosis.
func (s service) Folded(id string) (string, bool) { return s.app.recorder.Folded(id) }
