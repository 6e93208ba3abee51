package chaos

import (
	"context"
	"errors"

	"sidestep/test/harness"
)

// Desk is everything an operator has before him, about one sidestep.
type Desk struct {
	Surfaces   []Surface
	Prometheus *harness.Prometheus
	page       *Page
}

// OpenDesk starts a Prometheus and a browser beside the sidestep of a stage. root is the
// folder of the repository.
func OpenDesk(ctx context.Context, s *Stage, root string) (d *Desk, err error) {
	d = &Desk{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.Prometheus, err = startPrometheus(ctx, root, s.Sidestep.AdminURL); err != nil {
		return d, err
	}
	dashboard, err := Dashboard(root, d.Prometheus)
	if err != nil {
		return d, err
	}
	if d.page, err = OpenPage(ctx, s.Sidestep.AdminURL); err != nil {
		return d, err
	}
	d.Surfaces = []Surface{d.page.Surface(), dashboard, s.Top(), s.Explain(), s.Spikes()}
	return d, nil
}

// Close closes what was opened.
func (d *Desk) Close() error {
	if d.page != nil {
		d.page.Close()
	}
	if d.Prometheus != nil {
		return d.Prometheus.Stop()
	}
	return nil
}
