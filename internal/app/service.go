package app

import (
	"context"
	"errors"
	"time"

	"sidestep/internal/admin"
	"sidestep/internal/admission"
	"sidestep/internal/proxy"
)

// service is an App as the admin pages see it.
type service struct{ app *App }

// Ready implements admin.Service.
func (s service) Ready() error { return s.app.Ready() }

// Serving implements admin.Service.
func (s service) Serving() bool { return s.app.Serving() }

// Nodes implements admin.Service.
func (s service) Nodes() any { return s.app.current.Load().proxy.Nodes() }

// Status implements admin.Service.
func (s service) Status() admin.Status {
	p := s.app.current.Load()
	totals, spikes := p.proxy.Totals(), s.app.recorder.Spikes()
	status := admin.Status{
		Mode:      string(p.proxy.Mode()),
		Nodes:     p.proxy.Nodes(),
		Requests:  totals.Requests,
		Decisions: totals.Decisions,
		Observed:  totals.Observed,
		Outcomes:  totals.Outcomes,
		Failovers: totals.Failovers,
		Hedges:    totals.Hedges,
		Spikes:    spikes.Newest(statusSpikes),
		SpikesOff: spikes.Off,
	}
	if mode, writes := p.proxy.AdmissionMode(), p.proxy.WritesMode(); mode != admission.Off || writes != admission.Off {
		status.Admission = &admin.Admission{Mode: string(mode), Writes: string(writes), Waiting: totals.Waiting, Refused: totals.Refused, Dropped: totals.Dropped, Classes: p.proxy.AdmissionClasses()}
	}
	if p.indices != nil {
		index, skew := p.proxy.BulkSkew()
		status.Bulks = &admin.Bulks{
			Mode: string(p.proxy.BulkMode()), Results: totals.Bulks, Operations: totals.BulkOperations,
			Indices: p.proxy.BulkIndices(), Index: index, Skew: skew,
		}
	}
	if known := p.store.Snapshot(); known != nil {
		status.Engine = admin.Engine{Name: known.Engine.Distribution, Version: known.Engine.Version}
	}
	return status
}

// statusSpikes is how many spikes the status has, beside those that last.
const statusSpikes = 20

// Check implements admin.Service.
func (s service) Check(ctx context.Context) any { return s.app.current.Load().check.Run(ctx) }

// Slow implements admin.Service.
func (s service) Slow(limit int) any { return s.app.logs.records.Last(limit) }

// Drain implements admin.Service.
func (s service) Drain(node string, length time.Duration) (admin.Drained, error) {
	var now admin.Drained
	err := s.app.change(func(p *proxy.Proxy) error {
		now.Mode = string(p.Mode())
		if err := p.Drain(node, length); err != nil {
			return err
		}
		for _, n := range p.Nodes() {
			if n.ID == node || n.Name == node {
				now.Leaving = n.Leaving
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, proxy.ErrNoNode):
		err = admin.NoNode(err.Error())
	case errors.Is(err, proxy.ErrSeveralNodes):
		err = admin.SeveralNodes(err.Error())
	}
	return now, err
}

// Reload implements admin.Service.
func (s service) Reload() error { return s.app.ReloadConfig() }
