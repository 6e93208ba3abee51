// Package proxy is the data plane: it takes a client's request through the steps
// classify → resolve → choose → rewrite → attempts → judge → answer → account, one file
// a step, in the order that [Proxy.ServeHTTP] shows.
//
// A client never gets a worse answer than it would have got directly: what cannot
// be improved passes as it came, and the reason is counted.
package proxy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"sidestep/internal/attempt"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
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

// Modes returns the closed set.
func Modes() []Mode { return []Mode{ModeRoute, ModeObserve, ModeOff} }

// When says which steerable searches are rewritten.
type When string

// Values of [When].
const (
	WhenAlways  When = "always"
	WhenOutlier When = "outlier" // only while some node is slow, silent or gone
)

// Options configures a [Proxy].
type Options struct {
	// Seeds receive requests while no node address is known, always under static
	// discovery, and when no node can be reached at its own address.
	Seeds []*url.URL
	// Transport is the template from which each node's pool is cloned.
	Transport *http.Transport
	Selector  *selection.Selector
	// Learn asks for a target to be resolved in the background.
	Learn func(target, routing string)
	// LearnLayout asks for the layout of an index, by name or alias, in the same way.
	LearnLayout func(index string)
	// Refresh says that the placement proved wrong.
	Refresh func()
	// Touch is called for each search that is about to be decided: statistics
	// matter. May be nil.
	Touch func()
	// Use is called with the plan of each search. May be nil.
	Use  func(*cluster.Plan)
	Mode Mode
	// When is WhenAlways if empty.
	When When
	// PreferNodes writes _prefer_nodes where _only_nodes would do: the engine's own
	// fallback instead of sidestep's.
	PreferNodes bool
	// Off are the operations that are not steered although they could be: names of
	// [es.Operation].
	Off  []string
	Bulk Bulk
	// Admission says what waits, and in which order; its mode is Off if empty.
	Admission Admission
	Affinity  Affinity
	Zone      Zone
	Sniff     Sniff
	// MaxHeldBody is how many bytes of a request body are held for a second try, and
	// MaxHeldBodies how many of all bodies together.
	MaxHeldBody, MaxHeldBodies int64
	// BodyTimeout is how long a client may send nothing of a body, WriteTimeout how long
	// it may read nothing of an answer; 0: any time.
	BodyTimeout, WriteTimeout time.Duration
	// Explain says who is told what was decided.
	Explain Explain
	// Open reports whether the cluster answers anybody, as it has no security. Nil: it
	// is not known to.
	Open func() bool
	// HedgeBudget is how many second attempts may be made for overdue searches, as
	// a share of all steered ones; 0 means none.
	HedgeBudget float64
	// MaxPlacementAge is how old a placement may be to be used.
	MaxPlacementAge time.Duration
	// Probes sends probes, with sidestep's own account; nil: none are sent.
	Probes *http.Client
	// OnProbe, if set, is told how long a probe that told something of its node took.
	OnProbe func(node string, took time.Duration)
	// Records takes what happened to requests; nil: nothing is recorded.
	Records *record.Recorder
	// Tracer records requests as spans; nil: nothing is recorded.
	Tracer     record.Tracer
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Proxy is the handler of the data plane. It is safe for concurrent use and must
// be served bare: a ServeMux would redirect paths that the engine accepts.
type Proxy struct {
	o        Options
	mode     atomic.Value // Mode
	bulkMode atomic.Value // Mode
	view     atomic.Pointer[view]
	viewMu   sync.Mutex // serialises UseSnapshot and Close
	seeds    []*upstream
	reverse  *httputil.ReverseProxy // of upgrades
	metrics  *metrics
	hedges   *selection.Hedges
	probes   probes
	held     atomic.Int64 // bytes of bodies held
	// What repetitions of searches, and of other requests, may fail.
	searchBudget, otherBudget attempt.Budget

	affinity  affinity
	admission *admissions
	// zoneMissing says that no node is in the own zone; guarded by viewMu.
	zoneMissing bool
	suspended   suspension
	// complaints keeps a cluster that is down from filling the log.
	complaints rate.Sometimes
	sniffed    sync.Once // a client that goes around is told of once
	undivided  sync.Map  // names of indices without slots of the size wanted, which are told of once
	// impatient is until when no read waits for what its indices are, in Unix nanoseconds.
	impatient atomic.Int64
}

// complainEvery is how often at most the log says that requests find no upstream.
const complainEvery = 10 * time.Second

// New returns a Proxy that passes everything to the seeds until
// [Proxy.UseSnapshot] is called.
func New(o Options) (*Proxy, error) {
	if len(o.Seeds) == 0 {
		return nil, fmt.Errorf("no upstream given")
	}
	if o.MaxHeldBody <= 0 {
		o.MaxHeldBody = 1 << 20
	}
	if o.MaxHeldBodies <= 0 {
		o.MaxHeldBodies = 64 << 20
	}
	o.MaxHeldBodies = max(o.MaxHeldBodies, o.MaxHeldBody)
	if o.Explain == "" {
		o.Explain = ExplainOn
	}
	if o.Open == nil {
		o.Open = func() bool { return false }
	}
	if o.MaxPlacementAge <= 0 {
		o.MaxPlacementAge = time.Minute
	}
	if o.Touch == nil {
		o.Touch = func() {}
	}
	if o.Use == nil {
		o.Use = func(*cluster.Plan) {}
	}
	if o.OnProbe == nil {
		o.OnProbe = func(string, time.Duration) {}
	}
	p := &Proxy{o: o, hedges: selection.NewHedges(o.HedgeBudget), affinity: newAffinity(o.Affinity), admission: newAdmissions(o.Admission)}
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
		n := &selection.Node{NodeInfo: selection.NodeInfo{ID: u.Host, Name: u.Host}}
		p.seeds = append(p.seeds, newUpstream(n, u, o.Transport))
	}
	p.view.Store(&view{})
	p.metrics = newMetrics(o.Registerer, p)
	p.reverse = p.newUpgrader()
	return p, nil
}

// Mode returns the mode in force.
func (p *Proxy) Mode() Mode { return p.mode.Load().(Mode) }

// SetMode switches the mode at run time. An unknown mode is an error that names
// the valid ones.
func (p *Proxy) SetMode(m Mode) error {
	if err := setMode(&p.mode, m); err != nil {
		return err
	}
	p.admission.follow(m)
	return nil
}

// setMode sets one of the switches.
func setMode(mode *atomic.Value, m Mode) error {
	if !slices.Contains(Modes(), m) {
		return fmt.Errorf("unknown mode %q, valid are route, observe, off", m)
	}
	mode.Store(m)
	return nil
}

// Close closes idle upstream connections. Requests in flight go on.
func (p *Proxy) Close() {
	p.admission.close()
	p.viewMu.Lock()
	defer p.viewMu.Unlock()
	for _, u := range p.seeds {
		u.close()
	}
	for _, u := range p.view.Load().upstreams {
		if u != nil {
			u.close()
		}
	}
}

// UseSnapshot makes the proxy work with s from the next request on.
func (p *Proxy) UseSnapshot(s *cluster.Snapshot) {
	p.viewMu.Lock()
	defer p.viewMu.Unlock()
	p.view.Store(newView(s, p.view.Load(), p.o))
	p.admission.update(s)
	p.checkZone(s)
}

// UseStats feeds one poll of one node into the statistics.
func (p *Proxy) UseStats(st cluster.NodeStats) {
	poll := selection.Poll{
		State:       pollState(st.State),
		Took:        st.Took,
		Queue:       float64(st.Queue),
		ServiceTime: st.ServiceTime,
		Active:      st.Active,
		Queries:     st.Queries,
		Elapsed:     st.Elapsed,
		Rejected:    st.Rejected,
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
}

// LogChange returns a function that logs changes of nodes' states.
func LogChange(logger *slog.Logger) func(selection.Change) {
	return func(c selection.Change) {
		level := slog.LevelWarn
		switch {
		case c.After == selection.Fine && c.Before == selection.Unknown:
			level = slog.LevelDebug // every node's first poll
		case c.After == selection.Fine || c.After == selection.Ramping:
			level = slog.LevelInfo
		}
		logger.Log(context.Background(), level, "node state changed", "node", c.Node.Name, "node_id", c.Node.ID,
			"state", c.After.String(), "was", c.Before.String(), "why", c.Why)
	}
}

// pollState maps the result of a poll to the state of the node.
func pollState(s cluster.PollState) selection.State {
	switch s {
	case cluster.PollOK:
		return selection.Fine
	case cluster.PollUnresponsive:
		return selection.Unresponsive
	case cluster.PollUnreachable:
		return selection.Unreachable
	default:
		return selection.Failing
	}
}
