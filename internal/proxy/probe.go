package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/record"
	"sidestep/internal/selection"
)

const (
	// probeInterval is how often the selector is asked for probes that are due: a
	// node under suspicion is to be probed while the search that waits still waits.
	probeInterval = 10 * time.Millisecond
	// maxProbes is how many probes are under way at once.
	maxProbes = 16
	// refusedFor is how long no probe is sent after the cluster refused sidestep's
	// account one.
	refusedFor = time.Minute
	// probeID marks probes in the engines' task lists and slow logs.
	probeID = "sidestep-probe"
)

// Results of a probe. The set is closed: it is a metric label.
const (
	probeAnswered = "answered"
	probeFailed   = "failed"
	probeUnfit    = "unfit"
)

// probes is what the proxy remembers for its probes.
type probes struct {
	recent recentPlans
	turn   atomic.Uint64
	// refusedUntil is when probes may be sent again, in Unix nanoseconds.
	refusedUntil atomic.Int64
	refused      atomic.Bool // the last answer was a refusal
}

// prober says which probes are due and learns from them.
type prober interface {
	Probes(dst []selection.Probe, nodes []*selection.Node, now time.Time) []selection.Probe
	ObserveProbe(p selection.Probe, o selection.ProbeOutcome, now time.Time)
}

// Probe sends the probes that the selector wants until ctx ends, and returns when
// none is under way any more. Call it once: the selector counts on being asked,
// also where Options.Probes is nil and it learns that none can be sent.
func (p *Proxy) Probe(ctx context.Context) { p.sendProbes(ctx, p.o.Selector) }

func (p *Proxy) sendProbes(ctx context.Context, from prober) {
	end := func(probe selection.Probe, o selection.ProbeOutcome, state selection.State) {
		p.metrics.probes.WithLabelValues(probeResult(o)).Inc()
		if o.Timed() && !probe.AboutVia() {
			p.metrics.probeTime.WithLabelValues(state.String()).Observe(o.Took.Seconds())
		}
		from.ObserveProbe(probe, o, time.Now())
		if !o.Unfit && !probe.AboutVia() {
			p.o.OnProbe(probe.Node.ID, o.Took)
		}
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	free := make(chan struct{}, maxProbes)
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	var due []selection.Probe
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.Mode() == ModeOff {
			continue
		}
		v := p.view.Load()
		due = from.Probes(due[:0], v.nodes, time.Now())
		for _, probe := range due {
			state := probe.Node.State()
			select {
			case free <- struct{}{}:
				sending.Go(func() {
					end(probe, p.probe(ctx, v, probe), state)
					<-free
				})
			default:
				end(probe, unfit("too many probes are under way"), state)
			}
		}
	}
}

func probeResult(o selection.ProbeOutcome) string {
	switch {
	case o.Unfit:
		return probeUnfit
	case o.Failed:
		return probeFailed
	default:
		return probeAnswered
	}
}

// unfit is the outcome of a probe that tells nothing of its node.
func unfit(why string) selection.ProbeOutcome {
	return selection.ProbeOutcome{Unfit: true, Message: why}
}

// failedProbe is the outcome of a probe that its node did not answer well.
func failedProbe(took time.Duration, why string) selection.ProbeOutcome {
	return selection.ProbeOutcome{Failed: true, Took: took, Message: why}
}

// probe finds a shard to search and a node to send the search through, and sends
// it.
func (p *Proxy) probe(ctx context.Context, v *view, probe selection.Probe) selection.ProbeOutcome {
	now := time.Now()
	switch {
	case p.o.Probes == nil:
		return unfit("probes are switched off")
	case p.suspended.holdsProbe(now):
		return unfit("the cluster forbids node preferences")
	case now.UnixNano() < p.probes.refusedUntil.Load():
		return unfit("not permitted")
	}
	shard, ok := p.probes.shard(v.snapshot, probe.Node.ID)
	if !ok {
		return unfit("the node serves no shard")
	}
	via := p.probeVia(v, probe, now)
	if via == nil {
		return unfit("no other coordinating node")
	}
	if probe.AboutVia() && via.node != probe.Via {
		return unfit("the node has no address")
	}
	o := p.exchangeBurst(ctx, via, probe, shard)
	if probe.AboutVia() && !o.Unfit {
		o.Took = time.Since(now) // the way to the coordinating node is what counts
	}
	return o
}

// probeVia returns where to send a probe: to the node that the selector names,
// else to another than the one that it is about, or what lies between the nodes
// would not be seen. Under static discovery no addresses are known and a seed
// must do.
func (p *Proxy) probeVia(v *view, probe selection.Probe, now time.Time) *upstream {
	if len(v.coordinating) == 0 {
		return p.pickSeed(nil, now)
	}
	if probe.Via != nil && probe.Via.Alive() {
		if u := v.upstream(probe.Via); u != nil {
			return u
		}
	}
	n := p.o.Selector.Coordinator(v.coordinating, func(n *selection.Node) bool {
		return n.Alive() && n != probe.Node
	}, now)
	if n == nil {
		return nil
	}
	return v.upstream(n)
}

// probeURL returns the search of one shard on one node. It is tiny, but goes
// where all searches go: no cache may answer it.
func probeURL(base *url.URL, shard cluster.ShardName, node string) string {
	return strings.TrimSuffix(base.String(), "/") + "/" + url.PathEscape(shard.Index) +
		"/_search?preference=_shards:" + strconv.Itoa(shard.Number) + "%7C_only_nodes:" + url.QueryEscape(node) +
		"&size=0&terminate_after=1&request_cache=false&allow_partial_search_results=false&filter_path=took,_shards"
}

// exchangeBurst sends the searches of a probe at once and returns the worst outcome:
// a failure, else the latest answer, else that none was fit.
func (p *Proxy) exchangeBurst(ctx context.Context, via *upstream, probe selection.Probe, shard cluster.ShardName) selection.ProbeOutcome {
	outcomes := make(chan selection.ProbeOutcome, max(1, probe.Burst))
	for range cap(outcomes) {
		go func() { outcomes <- p.exchangeProbe(ctx, via, probe.Node, shard) }()
	}
	worst := <-outcomes
	for range cap(outcomes) - 1 {
		if o := <-outcomes; worse(o, worst) {
			worst = o
		}
	}
	return worst
}

// worse reports whether a says more against a node than b.
func worse(a, b selection.ProbeOutcome) bool {
	switch {
	case a.Unfit || b.Unfit:
		return !a.Unfit
	case a.Failed != b.Failed:
		return a.Failed
	}
	return a.Took > b.Took
}

// exchangeProbe sends a probe of n with sidestep's own account and tells what the
// answer says of n.
func (p *Proxy) exchangeProbe(ctx context.Context, via *upstream, n *selection.Node, shard cluster.ShardName) selection.ProbeOutcome {
	var connected atomic.Bool
	probing, cancel := context.WithTimeout(ctx, selection.ProbeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(probing, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), http.MethodGet, probeURL(via.url, shard, n.ID), http.NoBody)
	if err != nil {
		return unfit(err.Error())
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("X-Opaque-Id", probeID)
	start := time.Now()
	span := p.startProbeSpan(r)
	status, body, err := fetch(p.o.Probes, r)
	took := time.Since(start)
	if span != nil {
		p.endProbeSpan(span, r, record.Attempt{Node: via.node, Upstream: via.url, Listed: []*selection.Node{n}, End: took, Status: status, Err: err}, start)
	}
	switch {
	case err == nil:
		return p.judgeProbe(status, body, took)
	case ctx.Err() != nil:
		return unfit("stopped")
	case probing.Err() != nil && (via.node == n || connected.Load() && via.node.Alive()):
		return failedProbe(selection.ProbeTimeout, fmt.Sprintf("no answer through %s within %s", via.node.Name, selection.ProbeTimeout))
	case via.node == n:
		return failedProbe(took, err.Error())
	}
	return unfit(fmt.Sprintf("through %s: %v", via.node.Name, err)) // the coordinating node's trouble
}

// startProbeSpan starts the record of a search of sidestep's own, which names itself in
// the headers of r; nil if it is not recorded.
func (p *Proxy) startProbeSpan(r *http.Request) record.ProbeSpan {
	if p.o.Tracer == nil {
		return nil
	}
	return p.o.Tracer.Probe(r.Header)
}

func (p *Proxy) endProbeSpan(span record.ProbeSpan, r *http.Request, a record.Attempt, start time.Time) {
	a.Outcome = record.Answered
	if a.Err != nil {
		a.Outcome = string(attempt.Transport)
	}
	span.End(record.Probe(record.Trail{
		Began: start, Method: r.Method, Path: r.URL.EscapedPath(), Operation: es.Search, Engine: p.view.Load().engine(),
	}, a))
}

// fetch returns status and body of the answer to r. Only the start of a long
// body is read.
func fetch(client *http.Client, r *http.Request) (status int, body []byte, err error) {
	resp, err := client.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the caller names the address
		}
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, headLimit))
	return resp.StatusCode, body, err
}

// judgeProbe tells what an answer says of the node whose copy was searched.
func (p *Proxy) judgeProbe(status int, body []byte, took time.Duration) selection.ProbeOutcome {
	switch {
	case status == http.StatusForbidden && es.IsWeightedRoutingError(body):
		p.suspend()
		return unfit("the cluster forbids node preferences")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		p.probes.refusedUntil.Store(time.Now().Add(refusedFor).UnixNano())
		if p.probes.refused.CompareAndSwap(false, true) {
			p.o.Logger.Info("probing is not permitted: grant sidestep's account read on the indices; until then clients' searches find out how nodes are",
				"status", status, "again_in", refusedFor)
		}
		return unfit("not permitted")
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		o := failedProbe(took, "HTTP status "+strconv.Itoa(status))
		o.Full = status == http.StatusTooManyRequests
		return o
	case status != http.StatusOK:
		return unfit("HTTP status " + strconv.Itoa(status)) // the index is gone or closed, or the copy is elsewhere
	}
	if p.probes.refused.CompareAndSwap(true, false) {
		p.o.Logger.Info("probing is permitted again")
	}
	p.allowed()
	head, _ := es.ScanHead(body, true)
	switch {
	case !head.HasShards || head.Total == 0:
		return unfit("no shard was searched")
	case head.Failed > 0:
		return failedProbe(took, string(attempt.Partial))
	}
	if head.HasTook {
		// What the way to the coordinating node takes is not the probed node's. The
		// engine cuts fractions off.
		took = min(took, head.Took+time.Millisecond)
	}
	return selection.ProbeOutcome{Took: took}
}

// shard returns a shard that the node serves: of what was searched lately if
// there is one, for that is in memory and will be searched again. Other probes
// of the node get others.
func (p *probes) shard(s *cluster.Snapshot, node string) (cluster.ShardName, bool) {
	at, ok := s.Position(node)
	if !ok {
		return cluster.ShardName{}, false
	}
	turn := p.turn.Add(1)
	for i := range uint64(len(p.recent.plans)) {
		plan := p.recent.plans[(turn+i)%uint64(len(p.recent.plans))].Load()
		if plan == nil {
			continue
		}
		for j := range uint64(len(plan.Names)) {
			// A plan may be of an older snapshot: its positions mean nothing here.
			if name := plan.Names[(turn+j)%uint64(len(plan.Names))]; s.Serves(at, name) {
				return name, true
			}
		}
	}
	return s.AnyServed(at)
}

// rememberEvery is the least time between two plans that are remembered: what is
// searched more often is found all the same, and searches share no busy memory.
const rememberEvery = 100 * time.Millisecond

// recentPlans holds some plans of searches made lately. It is safe for
// concurrent use without locks.
type recentPlans struct {
	addedAt atomic.Int64 // Unix nanoseconds
	next    atomic.Uint32
	plans   [8]atomic.Pointer[cluster.Plan]
}

// add remembers a plan, unless it did so with one a moment ago.
func (r *recentPlans) add(plan *cluster.Plan, now time.Time) {
	last := r.addedAt.Load()
	if now.UnixNano()-last < int64(rememberEvery) || !r.addedAt.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	for i := range r.plans {
		if r.plans[i].Load() == plan {
			return
		}
	}
	r.plans[r.next.Add(1)%uint32(len(r.plans))].Store(plan)
}
