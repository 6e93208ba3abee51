// Package admin is the second listener: health, readiness, metrics, the state of the
// nodes, explanations of decisions, the run-time switches, reload and profiles. It only
// shows and switches; it makes no decisions.
package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
)

// Service is the running sidestep, as the pages show and switch it. The results of Nodes,
// Explain, Slow and Check are written as JSON.
type Service interface {
	// Ready returns nil if searches can be steered, otherwise what is missing.
	Ready() error
	// Serving reports whether the process has not begun to stop.
	Serving() bool
	Nodes() any
	// Status fills all fields except At, Version and Ready.
	Status() Status
	// Explain decides about a request without sending it. The error says what is wrong
	// with q.
	Explain(q Question) (any, error)
	// Slow lists the last requests that were slow or took several attempts, at most
	// limit, the newest first.
	Slow(limit int) any
	// Check checks whether the cluster is fit for sidestep, in bounded time.
	Check(ctx context.Context) any
	// Drain keeps a node from new requests for a while; 0: no longer. The error is a
	// [NoNode] if there is none of that name, and a [SeveralNodes] if there are several.
	Drain(node string, length time.Duration) (Drained, error)
	// Reload reads the configuration again; after an error the old one is kept.
	Reload() error
	Diagnosis
}

// Switch is one of the modes.
type Switch struct {
	Modes []string // the values for Set
	Get   func() string
	// Set switches to one of Modes. The error is an [Unconfigured] if that lacks
	// configuration.
	Set func(mode string) error
}

// Unconfigured is why a switch cannot be set as wanted: the configuration lacks what the
// mode needs. It says what to configure.
type Unconfigured string

// Error implements error.
func (e Unconfigured) Error() string { return string(e) }

// NoNode says that there is no node of the name given.
type NoNode string

// Error implements error.
func (e NoNode) Error() string { return string(e) }

// SeveralNodes says that there are several nodes of the name given.
type SeveralNodes string

// Error implements error.
func (e SeveralNodes) Error() string { return string(e) }

// Options configures [New].
type Options struct {
	Service  Service
	Gatherer prometheus.Gatherer
	Logger   *slog.Logger
	// Access returns the current Access; nil: nothing may be changed.
	Access func() Access
	// Switches are the modes that are switched at run time, by their name in the path.
	Switches map[string]Switch
	Version  string
	// Snapshots serves the snapshot to other sidesteps; nil: it is not served.
	Snapshots http.Handler
	// Quit is closed when the listener begins to stop. It ends the stream of events,
	// which would not end by itself.
	Quit <-chan struct{}
}

// New returns the handler of the admin listener.
func New(o Options) http.Handler {
	h := &handler{service: o.Service, access: o.Access, logger: o.Logger, version: o.Version}
	h.refusals.Interval, h.strangers.Interval = time.Minute, time.Minute
	if h.access == nil {
		h.access = func() Access { return Access{} }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", uiPage("index.html"))
	mux.HandleFunc("GET /ui/{file...}", uiFile)
	mux.HandleFunc("GET /-/healthy", h.healthy)
	mux.HandleFunc("GET /-/serving", h.serving)
	mux.HandleFunc("GET /-/ready", h.ready)
	mux.HandleFunc("GET /nodes", h.nodes)
	mux.HandleFunc("GET /status", h.status)
	mux.Handle("GET /events", newEvents(h.statusOf, o.Quit))
	mux.HandleFunc("GET /explain", h.explain)
	mux.HandleFunc("GET /slow", h.slow)
	mux.HandleFunc("GET /check", h.check)
	mux.HandleFunc("GET /history", h.history)
	mux.HandleFunc("GET /spikes", h.spikes)
	mux.HandleFunc("GET /spikes/{id}", pageOrData(uiPage("spike.html"), h.spike))
	mux.HandleFunc("GET /spikes/{id}/folded", h.folded)
	for name, s := range o.Switches {
		mux.HandleFunc("GET /-/"+name, h.modeOf(s))
		mux.HandleFunc("PUT /-/"+name, h.changing(h.switchMode(name, s)))
	}
	mux.HandleFunc("PUT /-/drain", h.changing(h.drain))
	mux.HandleFunc("POST /-/reload", h.changing(h.reload))
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
		ErrorLog:          scrapeLog{o.Logger},
		ErrorHandling:     promhttp.ContinueOnError, // one bad series must not hide the others
		EnableOpenMetrics: true,
	}))
	if o.Snapshots != nil {
		for _, page := range []string{"GET /snapshot", "GET /snapshot/target", "POST /snapshot/uses"} {
			mux.HandleFunc(page, h.guarded(o.Snapshots))
		}
	}
	mux.HandleFunc("GET /debug/pprof/", h.profile(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/cmdline", h.profile(pprof.Cmdline))
	mux.HandleFunc("GET /debug/pprof/profile", h.profile(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", h.profile(pprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", h.profile(pprof.Trace))
	// A page open in the operator's browser must not use the switch: browsers reach
	// loopback addresses, too.
	return h.named(http.NewCrossOriginProtection().Handler(mux))
}

// handler serves the pages of this package.
type handler struct {
	service Service
	access  func() Access
	logger  *slog.Logger
	version string

	profiling sync.Mutex     // held while a profile is being taken
	refusals  rate.Sometimes // for the log
	strangers rate.Sometimes // likewise, of those that ask for snapshots again and again
}
