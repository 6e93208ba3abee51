package demo

import (
	"context"
	"fmt"
	"time"

	"sidestep/internal/app"
	"sidestep/internal/config" //nolint:depguard // the demo is a program: it configures sidestep as cmd does
)

const (
	readyWithin = 30 * time.Second
	stopWithin  = 5 * time.Second
)

// front is the sidestep under test.
type front struct{ *app.App }

// startSidestep starts sidestep before the nodes, with the default configuration
// but for its addresses, and waits until it steers.
func startSidestep(ctx context.Context, nodes []string, o Options) (*front, error) {
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Upstream.URLs = nodes
	a, err := app.New(cfg, app.Options{Logger: o.Logger, Version: o.Version})
	if err != nil {
		return nil, fmt.Errorf("build sidestep: %w", err)
	}
	if err := a.Start(ctx); err != nil {
		return nil, fmt.Errorf("start sidestep: %w", err)
	}
	f := &front{a}
	if err := f.awaitReady(ctx); err != nil {
		f.stop(ctx)
		return nil, err
	}
	return f, nil
}

func (f *front) awaitReady(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		notReady := f.Ready()
		if notReady == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("sidestep is not ready after %s: %w", readyWithin, notReady)
		}
	}
}

func (f *front) url() string { return "http://" + f.DataAddr().String() }

// stop ends sidestep also when ctx has ended already. What is still under way was
// not asked for by a measurement, so that it is cut off is no error.
func (f *front) stop(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	f.SkipDrain()
	_ = f.Stop(limited)
}
