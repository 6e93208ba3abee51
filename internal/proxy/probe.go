package proxy

import (
	"bytes"
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
	// probeInterval is how often the selector is asked for due probes. It is short, so
	// that a suspect node is probed while the overdue search still waits.
	probeInterval = 10 * time.Millisecond
	// maxProbes bounds the probes in flight: two rounds.
	maxProbes = 40
	// maxAsks bounds the nodes that wait to be asked whether they answer.
	maxAsks = 256
	// refusedFor is how long no probe is sent after the cluster refused one to sidestep's
	// account.
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

// probes is the state of the prober. A proxy and the one that replaces it have it in common.
type probes struct {
	recent recentPlans
	turn   atomic.Uint64
	asks   chan selection.Asking // to be asked at once whether they answer
	// senders is how many send probes and read asks: two for a moment when a proxy is replaced.
	senders atomic.Int32
	// refusedUntil is when probes may be sent again; nil: they may. Those of hidden indices may when hiddenUntil is over, too.
	refusedUntil, hiddenUntil atomic.Pointer[time.Time]
	refused                   atomic.Bool // the last answer was a refusal
}

// prober says which probes are due, and takes their outcomes.
type prober interface {
	Probers(count int)
	Probes(dst []selection.Probe, now time.Time) []selection.Probe
	ObserveProbe(p selection.Probe, o selection.ProbeOutcome, now time.Time)
}

// Probe sends the probes that the selector wants until ctx ends, and returns when none is
// in flight any more. Call it once, also if Options.Probes is nil: the selector must
// learn that no probe can be sent.
func (p *Proxy) Probe(ctx context.Context) { p.sendProbes(ctx, p.o.Selector) }

func (p *Proxy) sendProbes(ctx context.Context, from prober) {
	end := func(probe selection.Probe, o selection.ProbeOutcome, state selection.State) {
		p.metrics.probes.WithLabelValues(probeResult(o)).Inc()
		if o.Timed() {
			p.metrics.probeTime.WithLabelValues(state.String()).Observe(o.Took.Seconds())
		}
		from.ObserveProbe(probe, o, time.Now())
		if !o.Unfit {
			p.o.OnProbe(probe.Node.ID, o.Took)
		}
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	p.probes.senders.Add(1)
	defer p.probes.senders.Add(-1)
	free := make(chan struct{}, maxProbes)
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	var due []selection.Probe
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-p.probes.asks:
			sending.Go(func() { p.asked(a, p.answers(ctx, a.Node), time.Now()) })
			continue
		case <-tick.C:
		}
		if p.Mode() == ModeOff {
			continue
		}
		v := p.view.Load()
		from.Probers(p.o.Probers())
		due = from.Probes(due[:0], time.Now())
		for _, probe := range due {
			state := probe.Node.State()
			select {
			case free <- struct{}{}:
				sending.Go(func() {
					end(probe, p.probe(ctx, v, probe), state)
					<-free
				})
			default:
				end(probe, inconclusive("too many probes are under way"), state)
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

// inconclusive is the outcome of a probe that says nothing about its node.
func inconclusive(why string) selection.ProbeOutcome {
	return selection.ProbeOutcome{Unfit: true, Message: why}
}

// failedProbe is the outcome of a probe that its node failed.
func failedProbe(took time.Duration, why string) selection.ProbeOutcome {
	return selection.ProbeOutcome{Failed: true, Took: took, Message: why}
}

// probe finds a shard to search and a coordinating node, and sends the probe.
func (p *Proxy) probe(ctx context.Context, v *view, probe selection.Probe) selection.ProbeOutcome {
	now := time.Now()
	switch {
	case p.o.Probes == nil:
		return inconclusive("probes are switched off")
	case p.suspended.holdsProbe(now):
		return inconclusive("the cluster forbids node preferences")
	case isBefore(now, &p.probes.refusedUntil):
		return inconclusive("not permitted")
	}
	shard, ok := p.probes.shard(v.snapshot, probe.Node.ID, now)
	if !ok {
		return inconclusive("the node serves no shard")
	}
	if shard.Hidden() && isBefore(now, &p.probes.hiddenUntil) {
		return inconclusive("hidden indices may not be searched")
	}
	via := p.probeVia(v, probe, now)
	if via == nil {
		return inconclusive("no other coordinating node")
	}
	return p.exchangeBurst(ctx, via, probe, shard)
}

// probeVia returns where to send a probe: to the node that the selector names, else to
// another node than the probed one, so that the network between the nodes is probed, too.
// Under static discovery no addresses are known, and a seed is used.
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
		return n.Alive() && !n.Same(probe.Node)
	}, now)
	if n == nil {
		return nil
	}
	return v.upstream(n)
}

// probeURL returns the search of one shard on one node. It is tiny, but no cache may
// answer it, as it must take the way of all searches.
func probeURL(base *url.URL, shard cluster.ShardName, node string) string {
	return strings.TrimSuffix(base.String(), "/") + "/" + url.PathEscape(shard.Index) +
		"/_search?preference=_shards:" + strconv.Itoa(shard.Number) + "%7C_only_nodes:" + url.QueryEscape(node) +
		"&size=0&terminate_after=1&request_cache=false&allow_partial_search_results=false&filter_path=took,_shards"
}

// exchangeBurst sends the searches of a probe at once and returns the worst outcome: a
// failure, else the slowest answer, else an inconclusive one. Of those that ctx cuts off the answers that came tell nothing.
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
	if ctx.Err() != nil {
		return inconclusive("stopped")
	}
	return worst
}

// worse reports whether a is stronger evidence against a node than b.
func worse(a, b selection.ProbeOutcome) bool {
	switch {
	case a.Unfit || b.Unfit:
		return !a.Unfit
	case a.Failed != b.Failed:
		return a.Failed
	}
	return a.Took > b.Took
}

// exchangeProbe sends a probe of n with sidestep's own account, and judges the answer.
func (p *Proxy) exchangeProbe(ctx context.Context, via *upstream, n *selection.Node, shard cluster.ShardName) selection.ProbeOutcome {
	var connected atomic.Bool
	probing, cancel := context.WithTimeout(ctx, selection.ProbeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(probing, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), http.MethodGet, probeURL(via.url, shard, n.ID), http.NoBody)
	if err != nil {
		return inconclusive(err.Error())
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("X-Opaque-Id", probeID)
	start := time.Now()
	span := p.startProbeSpan(r)
	status, body, err := fetch(p.o.Probes, r)
	took := time.Since(start)
	if err == nil && !via.node.Alive() { // an address that was given, and is tried again
		p.o.Selector.Heard(via.node, time.Now())
	}
	if span != nil {
		p.endProbeSpan(span, r, record.Attempt{Node: via.node, Upstream: via.url, Listed: []*selection.Node{n}, End: took, Status: status, Err: err}, start)
	}
	switch {
	case err == nil:
		return p.judgeProbe(shard, status, body, took)
	case ctx.Err() != nil:
		return inconclusive("stopped")
	case probing.Err() != nil && (via.node == n || connected.Load() && via.node.Alive()):
		return failedProbe(selection.ProbeTimeout, fmt.Sprintf("no answer through %s within %s", via.node.Name, selection.ProbeTimeout))
	case via.node == n:
		return failedProbe(took, err.Error())
	}
	return inconclusive(fmt.Sprintf("through %s: %v", via.node.Name, err)) // the coordinating node's fault
}

// startProbeSpan starts the span of a probe, and adds its trace headers to r; nil if it
// is not sampled.
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

// fetch returns status and body of the answer to r. Of a long body it reads the start.
func fetch(client *http.Client, r *http.Request) (status int, body []byte, err error) {
	resp, err := client.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address, which the caller adds
		}
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, headLimit))
	return resp.StatusCode, body, err
}

// judgeProbe finds out what the answer to a probe with this shard says about the probed node.
func (p *Proxy) judgeProbe(shard cluster.ShardName, status int, body []byte, took time.Duration) selection.ProbeOutcome {
	switch {
	case status == http.StatusForbidden && es.IsWeightedRoutingError(body):
		p.suspend()
		return inconclusive("the cluster forbids node preferences")
	case status == http.StatusForbidden && bytes.Contains(body, []byte(blocked)):
		return inconclusive("the index is blocked")
	case status == http.StatusForbidden && shard.Hidden(): // the engines open their own indices to few accounts
		p.probes.hiddenUntil.Store(new(time.Now().Add(refusedFor)))
		return inconclusive("hidden indices may not be searched")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		p.probes.refusedUntil.Store(new(time.Now().Add(refusedFor)))
		if p.probes.refused.CompareAndSwap(false, true) {
			p.o.Logger.Info("probing is not permitted: grant sidestep's account the privilege read on the indices; until then nodes are tested with clients' searches",
				"status", status, "again_in", refusedFor)
		}
		return inconclusive("not permitted")
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return failedProbe(took, "HTTP status "+strconv.Itoa(status))
	case status != http.StatusOK:
		return inconclusive("HTTP status " + strconv.Itoa(status)) // the index is gone or closed, or the copy has moved
	}
	if p.probes.refused.CompareAndSwap(true, false) {
		p.o.Logger.Info("probing is permitted again")
		p.o.Selector.Permitted()
	}
	p.allowed()
	head, _ := es.ScanHead(body, true)
	switch {
	case !head.HasShards || head.Total == 0:
		return inconclusive("no shard was searched")
	case head.Lost() > 0:
		return failedProbe(took, string(attempt.Partial))
	}
	if head.HasTook {
		// Took leaves out the way to the coordinating node, which the probed node is not
		// responsible for. The engine rounds it down.
		took = min(took, head.Took+time.Millisecond)
	}
	return selection.ProbeOutcome{Took: took}
}

// shard returns a shard that the node serves: if possible one that was searched lately,
// as it is in memory and will be searched again, but none of a hidden index while those are refused. Each probe of the node
// gets another shard.
func (p *probes) shard(s *cluster.Snapshot, node string, now time.Time) (cluster.ShardName, bool) {
	at, ok := s.Position(node)
	if !ok {
		return cluster.ShardName{}, false
	}
	turn, refused := p.turn.Add(1), isBefore(now, &p.hiddenUntil)
	for i := range uint64(len(p.recent.plans)) {
		plan := p.recent.plans[(turn+i)%uint64(len(p.recent.plans))].Load()
		if plan == nil {
			continue
		}
		for j := range uint64(len(plan.Names)) {
			// A plan may be of an older snapshot, whose positions are other nodes.
			if name := plan.Names[(turn+j)%uint64(len(plan.Names))]; (!refused || !name.Hidden()) && s.Serves(at, name) {
				return name, true
			}
		}
	}
	return s.AnyServed(at)
}

// rememberEvery is the least time between two plans that are stored. Targets that are
// searched more often are stored anyway, and searches then do not contend for the memory.
const rememberEvery = 100 * time.Millisecond

// recentPlans holds some plans of recent searches. It is safe for concurrent use without
// locks.
type recentPlans struct {
	addedAt atomic.Pointer[time.Time]
	next    atomic.Uint32
	plans   [8]atomic.Pointer[cluster.Plan]
}

// add stores a plan, unless one was stored a moment ago.
func (r *recentPlans) add(plan *cluster.Plan, now time.Time) {
	if !isDue(now, &r.addedAt, rememberEvery) {
		return
	}
	for i := range r.plans {
		if r.plans[i].Load() == plan {
			return
		}
	}
	r.plans[r.next.Add(1)%uint32(len(r.plans))].Store(plan)
}
