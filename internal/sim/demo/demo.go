// Package demo shows what sidestep does: the same load on a cluster with one slow
// node, once round robin over all nodes, once with the engine's own adaptive
// replica selection, once through sidestep.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Cluster is what the demo needs of a cluster: simulated, or a real one.
type Cluster interface {
	// URLs returns the HTTP addresses of all nodes.
	URLs() []string
	// SlowNode returns the node that is made slow.
	SlowNode() (id, name string)
	// SetAdaptive switches the engine's own adaptive replica selection.
	SetAdaptive(ctx context.Context, on bool) error
	// Close ends the cluster if the demo is to end it.
	Close() error
}

// Options say how the demo runs. The zero value is the demo of `sidestep-lab demo`,
// which takes less than a minute.
type Options struct {
	Out io.Writer // where progress and the table go; default: nowhere
	// Cluster to use. Run closes it. Default: a simulated one of five nodes.
	Cluster Cluster
	// Duration is how long each of the three cases is measured, default 8 s, in
	// Rounds slices, default 2, that take turns so that noise hits all alike.
	Duration time.Duration
	Rounds   int
	// LeadIn is the load before each slice that is not measured, default 1.5 s: what
	// a case has learned is stale or spoilt after the turns of the others. WarmUp
	// goes before everything, default 6 s.
	LeadIn time.Duration
	WarmUp time.Duration
	Rate   float64 // searches per second, default 150
	// Request makes the search number i, see loadgen.Options. Default: a search on
	// the index products.
	Request func(i int) *http.Request
	Version string       // of sidestep
	Logger  *slog.Logger // of sidestep and the simulated cluster; default: none
}

func (o Options) withDefaults() Options {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Duration <= 0 {
		o.Duration = 8 * time.Second
	}
	if o.Rounds <= 0 {
		o.Rounds = 2
	}
	if o.LeadIn <= 0 {
		o.LeadIn = 1500 * time.Millisecond
	}
	if o.WarmUp <= 0 {
		o.WarmUp = 6 * time.Second
	}
	if o.Rate <= 0 {
		o.Rate = 150
	}
	if o.Request == nil {
		o.Request = func(int) *http.Request {
			return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/" + index + "/_search"}}
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrFailures says that searches through sidestep failed or came back partial.
var ErrFailures = errors.New("searches through sidestep failed")

// Run runs the demo and prints the table. It returns [ErrFailures] if sidestep
// lost a search, another error if something broke, and the error of ctx, with
// everything ended, if that was cancelled.
func Run(ctx context.Context, o Options) (err error) {
	o = o.withDefaults()
	cluster := o.Cluster
	if cluster == nil {
		if cluster, err = startSimulated(o.Logger); err != nil {
			return fmt.Errorf("start the simulated cluster: %w", err)
		}
	}
	defer func() {
		if closeErr := cluster.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("close the cluster: %w", closeErr)
		}
	}()
	_, slow := cluster.SlowNode()
	o.say("A cluster of %d nodes; %s is slow.", len(cluster.URLs()), slow)

	front, err := startSidestep(ctx, cluster.URLs(), o)
	if err != nil {
		return err
	}
	defer front.stop(ctx)
	o.say("sidestep is in front of it at %s.", front.url())

	cmp := newComparison(cluster, front.url(), o)
	defer cmp.close()
	if err := cmp.run(ctx); err != nil {
		return err
	}
	return cmp.report()
}

func (o Options) say(format string, args ...any) {
	fmt.Fprintf(o.Out, format+"\n", args...)
}
