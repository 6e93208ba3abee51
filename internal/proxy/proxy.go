// Package proxy is the data plane. It takes a client's request through the steps classify
// → hold → resolve → choose → admit → rewrite → attempts → judge → answer → account, one
// file a step, in the order that [Proxy.ServeHTTP] shows.
//
// A client never gets a worse answer than it would have got directly. What cannot be
// improved passes unchanged, and the reason is counted.
package proxy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"sidestep/internal/attempt"
	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/leg"
	"sidestep/internal/record"
	"sidestep/internal/selection"
)

// Mode says what the proxy does with its decisions.
type Mode string

// Modes of the run-time switch.
const (
	ModeRoute   Mode = "route"   // decide and rewrite
	ModeObserve Mode = "observe" // decide and count, change nothing
	ModeOff     Mode = "off"     // pass everything
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{ModeRoute, ModeObserve, ModeOff} }

// When says which steerable searches are rewritten.
type When string

// Values of [When].
const (
	WhenAlways  When = "always"
	WhenOutlier When = "outlier" // only while a node is ejected or about to be
)

// Options configures a [Proxy].
type Options struct {
	// Seeds receive requests while no node address is known, always under static
	// discovery, and if no node can be reached at its own address.
	Seeds []*url.URL
	// Leg says how connections to nodes are made and kept. Its Address is not looked at.
	Leg      leg.Options
	Selector *selection.Selector
	// Learn asks for a target to be looked up in the background.
	Learn func(target, routing string)
	// LearnLayout asks for the layout of an index, by name or alias, in the background.
	LearnLayout func(index string)
	// Refresh says that the placement proved outdated.
	Refresh func()
	// Touch is called for each search before the decision, so that statistics are polled.
	Touch func()
	// Use is called with the plan of each search.
	Use  func(*cluster.Plan)
	Mode Mode
	// When is WhenAlways if empty.
	When When
	// PreferNodes writes _prefer_nodes in place of _only_nodes, so that the engine's own
	// fallback is used instead of sidestep's.
	PreferNodes bool
	// Off are the operations for which steering is switched off: names of [es.Operation].
	Off  []string
	Bulk Bulk
	// Admission says which searches wait, and in which order; off if its mode is empty.
	Admission Admission
	Affinity  Affinity
	// CoordinatingOnly says that requests may be sent through nodes without data.
	CoordinatingOnly bool
	Zone             Zone
	Sniff            Sniff
	// MaxHeldBody bounds the bytes held of a request body for further attempts, and
	// MaxHeldBodies the bytes held of all bodies together.
	MaxHeldBody, MaxHeldBodies int64
	// Held counts the bytes of bodies that are held, by all proxies that are given it; nil: by this one.
	Held *atomic.Int64
	// BodyTimeout is how long a client may send nothing of a body, WriteTimeout how long
	// it may read nothing of an answer; 0: without limit.
	BodyTimeout, WriteTimeout time.Duration
	// Explain says which clients may ask for decisions.
	Explain Explain
	// Open reports whether the cluster answers without credentials, as it has no
	// security.
	Open func() bool
	// HedgeBudget is the share of steered searches that may be hedged; 0: none.
	HedgeBudget float64
	// MaxPlacementAge is how old a placement may be to be used.
	MaxPlacementAge time.Duration
	// Probes sends probes, with sidestep's own account; nil: none are sent.
	Probes *http.Client
	// Probers returns how many sidesteps probe the same nodes, as far as somebody tells.
	Probers func() int
	// OnProbe is called with the time of each conclusive probe.
	OnProbe func(node string, took time.Duration)
	// Records receives the trails of requests; nil: nothing is recorded.
	Records *record.Recorder
	// Tracer records requests as spans; nil: nothing is recorded.
	Tracer     record.Tracer
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Proxy is the handler of the data plane. It is safe for concurrent use. Do not serve it
// through a ServeMux, which would redirect paths that the engine accepts.
type Proxy struct {
	o        Options
	mode     atomic.Value // Mode
	bulkMode atomic.Value // Mode
	view     *views
	seeds    []*upstream
	metrics  *metrics
	hedges   *attempt.Hedges
	probes   *probes
	// The budgets of repetitions, of searches and of other requests.
	searchBudget, otherBudget attempt.Budget

	affinity  affinity
	admission *admissions
	writes    *admissions // admission of writes
	// zoneMissing says that no node is in sidestep's own zone; guarded by view.mu.
	zoneMissing bool
	suspended   suspension
	// complaints limits log lines while the cluster is down.
	complaints rate.Sometimes
	sniffed    sync.Once // one log line about clients that may go around sidestep
	undivided  sync.Map  // names of indices without slots of the configured size, logged once each
	// unreadable are the codings that cannot be read in which answers have come although others were accepted, as from a
	// gateway. There are as few as it knows.
	unreadable sync.Map
	// unknownUntil is until when no read waits for unknown indices; nil: they wait.
	unknownUntil atomic.Pointer[time.Time]
}

// complainEvery is the least time between log lines about unreachable upstreams.
const complainEvery = 10 * time.Second

// New returns a Proxy that passes everything to the seeds until
// [Proxy.UseSnapshot] is called.
func New(o Options) (*Proxy, error) {
	if len(o.Seeds) == 0 {
		return nil, fmt.Errorf("no upstream given")
	}
	o.Bulk.Books = cmp.Or(o.Bulk.Books, &bulk.Books{})
	o.Held = cmp.Or(o.Held, new(atomic.Int64))
	p := &Proxy{
		o: o, view: &views{}, probes: &probes{asks: make(chan selection.Asking, maxAsks)}, hedges: attempt.NewHedges(o.HedgeBudget), affinity: newAffinity(o.Affinity),
		admission: newSearchAdmissions(o.Admission), writes: newWriteAdmissions(o.Admission.Writes),
	}
	p.complaints.Interval = complainEvery
	if err := p.SetMode(o.Mode); err != nil {
		return nil, err
	}
	if err := p.SetBulkMode(cmp.Or(o.Bulk.Mode, ModeRoute)); err != nil {
		return nil, err
	}
	for _, name := range o.Off {
		if es.Operation(name).Steering() == es.SteerNone {
			return nil, fmt.Errorf("operation %q is not steered: it cannot be switched off", name)
		}
	}
	for _, u := range o.Seeds {
		n := selection.NewNode(selection.NodeInfo{ID: u.Host, Name: u.Host})
		p.seeds = append(p.seeds, newUpstream(n, u, o))
	}
	p.view.Store(&view{})
	p.metrics = newMetrics(o.Registerer, p)
	return p, nil
}

// Mode returns the current mode.
func (p *Proxy) Mode() Mode { return p.mode.Load().(Mode) }

// SetMode switches the mode at run time. The error about an unknown mode names the valid
// ones.
func (p *Proxy) SetMode(m Mode) error {
	if err := setMode(&p.mode, m); err != nil {
		return err
	}
	p.admission.follow(p)
	p.writes.follow(p)
	return nil
}

// setMode sets a mode.
func setMode(mode *atomic.Value, m Mode) error {
	if !slices.Contains(Modes(), m) {
		return fmt.Errorf("unknown mode %q, valid are route, observe, off", m)
	}
	mode.Store(m)
	return nil
}

// Close closes idle upstream connections. Requests in flight continue.
func (p *Proxy) Close() {
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	for _, u := range p.seeds {
		u.leg.Close()
	}
	for _, u := range p.view.Load().upstreams {
		if u != nil {
			u.leg.Close()
		}
	}
}

// UseSnapshot makes the proxy use s from the next request on.
func (p *Proxy) UseSnapshot(s *cluster.Snapshot) {
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	before, now := p.view.Load(), time.Now()
	v := newView(s, before, p.o, now)
	p.o.Selector.EndMarks(before.nodes, now, func(n *selection.Node, why string) {
		p.o.Logger.Info("a node is drained no longer", "node", n.Name, "why", why)
	})
	p.view.Store(v)
	p.admission.update(s)
	p.writes.update(s)
	p.checkZone(s)
}

// UseStats adds one poll of one node to the statistics.
func (p *Proxy) UseStats(st cluster.NodeStats) {
	poll := selection.Poll{
		State:       pollState(st.State),
		Took:        st.Took,
		Queue:       float64(st.Queue),
		ServiceTime: st.ServiceTime,
		Queries:     st.Queries,
		Elapsed:     st.Elapsed,
		Rejected:    st.Rejected,
		Quota:       st.Quota,
		Used:        st.Used,
		Throttled:   st.Throttled,
	}
	if st.Err != nil {
		poll.Message = st.Err.Error()
	}
	if len(st.Coordinated) > 0 {
		poll.Coordinated = make(map[string]selection.Seen, len(st.Coordinated))
		for id, c := range st.Coordinated {
			poll.Coordinated[id] = selection.Seen(c)
		}
	}
	p.o.Selector.ObservePoll(st.Node, poll, st.At)
	p.admission.observe(st)
	p.writes.observe(st)
}

// NodeChanged is to be told of changes of nodes' states. What waits for a node that is ejected, or cannot be reached, is decided
// anew: others may have room.
func (p *Proxy) NodeChanged(c selection.Change) {
	switch c.After {
	case selection.Slow, selection.Failing, selection.Unreachable:
		p.admission.reconsider(c.Node.ID)
	}
}

// LogChange returns a function that logs changes of nodes' states.
func LogChange(logger *slog.Logger) func(selection.Change) {
	return func(c selection.Change) {
		level := slog.LevelWarn
		switch {
		case c.After == selection.Fine && c.Before == selection.Unknown:
			level = slog.LevelDebug // the first poll of a node
		case c.After == selection.Fine || c.After == selection.Busy || c.After == selection.Ramping:
			level = slog.LevelInfo
		}
		logger.Log(context.Background(), level, "node state changed", "node", c.Node.Name, "node_id", c.Node.ID,
			"state", c.After.String(), "was", c.Before.String(), "why", c.Why)
	}
}

// pollState returns the state of a node after a poll.
func pollState(s cluster.PollState) selection.State {
	switch s {
	case cluster.PollOK:
		return selection.Fine
	case cluster.PollUnresponsive:
		return selection.Unresponsive
	case cluster.PollUnreachable:
		return selection.Unreachable
	default:
		return selection.Unknown
	}
}
