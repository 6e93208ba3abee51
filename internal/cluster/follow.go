package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// defaultSilence is for how long a relay may say nothing.
	defaultSilence = 3 * time.Second
	// firstReturn and lastReturn bound the pauses between attempts to reach a relay
	// that does not answer.
	firstReturn = 200 * time.Millisecond
	lastReturn  = 2 * time.Second
)

// Relay is where another sidestep's view of the cluster is read.
type Relay struct {
	// URL of its snapshot, http://relay:9211/snapshot. Nil: there is none, and the
	// cluster is polled.
	URL *url.URL
	// Client asks the relay: its TLS and the token are in its RoundTripper.
	Client *http.Client
	// Silence is after which time without an answer the cluster is polled instead;
	// default 3 s.
	Silence time.Duration
}

// Sources of what is known. The set is closed: used as a metric label.
const (
	sourceRelay = "relay"
	sourcePolls = "polls"
)

// followLoop reads reports of the relay. While it is silent the cluster is polled,
// as if there were none.
func (c *Cluster) followLoop(ctx context.Context) {
	f := newFollower(c)
	pace := c.newPace(newNeed(c.o.StatsInterval))
	heard, pause := time.Now(), firstReturn
	stopPolls := func() {}
	defer func() { stopPolls() }() //nolint:gocritic // the one of then, not of now
	for {
		started := time.Now()
		r, err := f.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if !c.following() {
				stopPolls()
				stopPolls = func() {}
				c.sourceIs(sourceRelay)
				c.o.Logger.Info("the relay answers: the cluster is not polled from here", "relay", f.base.Redacted())
			}
			f.apply(r)
			f.tellUses(ctx)
			heard, pause = time.Now(), firstReturn
			if !pace.wait(ctx, started, PollOK) {
				return
			}
			continue
		case c.sourceNow() != sourcePolls && time.Since(heard) >= c.o.Relay.Silence:
			c.o.Logger.Warn("the relay does not answer: the cluster is polled from here", "relay", f.base.Redacted(), "err", err)
			f.forget()
			c.believe()
			c.sourceIs(sourcePolls)
			stopPolls = c.pollOwn(ctx)
		default:
			c.o.Logger.Debug("the relay does not answer", "err", err)
		}
		if !sleep(ctx, jitter(pause)) {
			return
		}
		pause = min(2*pause, lastReturn)
	}
}

// pollOwn polls the cluster until the function returned is called.
func (c *Cluster) pollOwn(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){c.discoverLoop, c.placeLoop, c.measureLoop} {
		loops.Go(func() { loop(ctx) })
	}
	if c.Snapshot() != nil {
		hint(c.remeasure)
	}
	return func() {
		cancel()
		loops.Wait()
	}
}

// sourceIs notes where what is known comes from.
func (c *Cluster) sourceIs(now string) {
	c.source.Store(&now)
	c.metrics.sourceChanges.WithLabelValues(now).Inc()
	c.metrics.sourceIs(now)
}

// sourceNow returns where what is known comes from, empty while nothing is.
func (c *Cluster) sourceNow() string {
	if now := c.source.Load(); now != nil {
		return *now
	}
	return ""
}

// following reports whether a relay tells what is known.
func (c *Cluster) following() bool { return c.sourceNow() == sourceRelay }

// follower keeps what is known in step with a relay.
type follower struct {
	c    *Cluster
	base *url.URL
	page string

	relay    string // whose report seq was the last one; empty: none was
	seq      int64
	epoch    time.Time // when the relay's clock was 0, by ours
	ids      []string
	last     map[string]*baseline // by node id
	placedAt time.Time
	version  int64     // of the cluster state
	usesAt   time.Time // when the relay is to be told what is searched
	uses     map[string]time.Time

	own   string // uuid of the cluster that searches are sent to
	ownAt time.Time
}

func newFollower(c *Cluster) *follower {
	f := &follower{c: c, last: map[string]*baseline{}}
	f.base, f.page = c.o.Relay.page()
	return f
}

// page returns the address of the relay and, without a leading slash, the path of
// its snapshot.
func (r Relay) page() (*url.URL, string) {
	return &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host}, strings.Trim(r.URL.EscapedPath(), "/")
}

func (c *Cluster) relayClient() *client { return &client{http: c.o.Relay.Client, metrics: c.metrics} }

// forget makes the next report that of everything.
func (f *follower) forget() { f.relay, f.seq = "", 0 }

// ask reads what changed since the last report.
func (f *follower) ask(ctx context.Context) (*report, error) {
	if f.own == "" {
		if err := f.recognise(ctx); err != nil {
			return nil, err
		}
	}
	path := f.page + "?version=" + strconv.Itoa(relayVersion)
	if f.relay != "" {
		path += "&relay=" + url.QueryEscape(f.relay) + "&after=" + strconv.FormatInt(f.seq, 10)
	}
	if idle, _ := f.c.attention.look(time.Now()); !idle {
		path += "&busy=true"
	}
	r := &report{}
	err := f.c.relayClient().get(ctx, f.base, query{kind: pollRelay, path: path, deadline: f.c.o.Relay.Silence, decode: decodeJSON(r)})
	if err != nil {
		return nil, err
	}
	if err := f.check(ctx, r); err != nil {
		f.forget() // what is refused was not taken in: the next one cannot continue it
		return nil, fmt.Errorf("relay %s: %w", f.base.Redacted(), err)
	}
	return r, nil
}

// check returns why a report cannot be used.
func (f *follower) check(ctx context.Context, r *report) error {
	if err := r.valid(len(f.ids)); err != nil {
		return err
	}
	if !r.Full && r.Relay != f.relay {
		return errors.New("the report continues another one")
	}
	if r.Cluster == nil {
		return nil
	}
	return f.checkCluster(ctx, r.Cluster.UUID)
}

// checkCluster makes sure that the relay tells of the cluster that searches are
// sent to: what is told of another would be taken for it.
func (f *follower) checkCluster(ctx context.Context, uuid string) error {
	if uuid != f.own && time.Since(f.ownAt) >= f.c.o.DiscoveryInterval {
		if err := f.recognise(ctx); err != nil { // it may be a new one itself
			return err
		}
	}
	if uuid != f.own {
		return errForeign
	}
	return nil
}

// recognise asks the cluster who it is.
func (f *follower) recognise(ctx context.Context) error {
	found, _, err := f.c.recognise(ctx)
	if err != nil {
		return fmt.Errorf("whether the relay tells of this cluster is not known: %w", err)
	}
	f.own, f.ownAt = found.clusterUUID, time.Now()
	return nil
}

var errForeign = errors.New("it tells of another cluster than the upstream")

// apply takes in a report.
func (f *follower) apply(r *report) {
	now := time.Now()
	if r.Full {
		f.ids, f.epoch, f.usesAt, f.uses = nil, time.Time{}, time.Time{}, map[string]time.Time{}
	}
	f.ids = append(f.ids[:r.IDsFrom], r.IDs...)
	if r.Full {
		f.last = f.lastOf(f.ids)
	}
	f.tick(now, r.Now)
	f.relay, f.seq = r.Relay, r.Seq
	if r.Cluster != nil {
		f.applyCluster(r.Cluster)
	}
	f.applyPlacement(r)
	f.applyPolls(r)
	f.c.status.report(discovering, nil)
	f.c.status.report(placing, nil)
}

// lastOf returns what is to be compared with the next statistics of these nodes.
func (f *follower) lastOf(ids []string) map[string]*baseline {
	last := make(map[string]*baseline, len(ids))
	for _, id := range ids {
		if before := f.last[id]; before != nil {
			last[id] = before
		}
	}
	return last
}

// tick sets the own time of the relay's clock: a report that came sooner than the
// others was less late. Clocks that run apart are followed slowly.
func (f *follower) tick(now time.Time, relays int64) {
	epoch := now.Add(-time.Duration(relays) * time.Millisecond)
	if late := epoch.Sub(f.epoch); !f.epoch.IsZero() && late > 0 {
		epoch = f.epoch.Add(late / 16)
	}
	f.epoch = epoch
}

// time returns the own time of a time that the relay tells.
func (f *follower) time(relays int64) time.Time {
	return f.epoch.Add(time.Duration(relays) * time.Millisecond)
}

func (f *follower) id(number int) string {
	if number < 0 || number >= len(f.ids) {
		return ""
	}
	return f.ids[number]
}

// applyCluster takes in engine and nodes.
func (f *follower) applyCluster(r *reportedCluster) {
	nodes, urls := make([]*Node, len(r.Nodes)), map[string]string{}
	for i, told := range r.Nodes {
		nodes[i] = &Node{ID: told.ID, Name: told.Name, Roles: told.Roles, Processors: told.Processors, SearchQueue: told.SearchQueue, Attributes: told.Attributes}
		if told.URL != "" && !f.c.o.Static {
			urls[told.ID] = told.URL
		}
	}
	slices.SortFunc(nodes, byID)
	f.c.addresses.assign(nodes, urls)
	before := f.c.nodesBefore()
	for i, n := range nodes {
		if same := before[n.ID]; reflect.DeepEqual(same, n) {
			nodes[i] = same
		}
	}
	unsupported := map[string]bool{}
	for _, index := range r.Unsupported {
		unsupported[index] = true
	}
	f.c.fleet.use(nodes)
	f.c.discovered(&info{engine: r.Engine, clusterName: r.Name, clusterUUID: r.UUID}, nodes, nil, unsupported)
}

// applyPlacement takes in where the copies are.
func (f *follower) applyPlacement(r *report) {
	at := f.time(min(r.Placement.At, r.Now))
	if !r.Full && len(r.Indices)+len(r.Gone) == 0 && r.Placement.Version == f.version && at.Sub(f.placedAt) < f.c.o.PlacementInterval/2 {
		return
	}
	f.placedAt, f.version = at, r.Placement.Version
	told := toldPlacement{source: r.Placement.Source, version: r.Placement.Version, asOf: at, whole: r.Full, gone: r.Gone}
	told.indices = make([]Index, len(r.Indices))
	told.stale = make([]bool, len(r.Indices))
	for i, index := range r.Indices {
		told.indices[i], told.stale[i] = index.index(f.id), index.Stale
	}
	f.c.told(told)
	f.c.remind()
}

// applyPolls takes in how nodes answered the relay.
func (f *follower) applyPolls(r *report) {
	for _, told := range r.Failures {
		id := f.id(told.Node)
		if id == "" || !told.valid() {
			continue
		}
		text := cmp.Or(told.Error[:min(len(told.Error), maxReportedText)], string(told.State))
		f.c.hand(NodeStats{
			Node: id, At: f.time(min(told.At, r.Now)), Took: time.Duration(told.Took) * time.Microsecond,
			State: told.State, Err: errors.New(text),
		})
	}
	seen := make(map[int64]map[string]Seen, len(r.Seen))
	for _, told := range r.Seen {
		seen[int64(told.Node)] = f.seen(told.Others)
	}
	for _, told := range r.Stats {
		id := f.id(int(told[0]))
		if id == "" || !told.valid() {
			continue
		}
		stats := NodeStats{Node: id, At: f.time(min(told[1], r.Now)), Took: time.Duration(told[2]) * time.Microsecond, State: PollOK}
		next, err := told.raw().measure(id, f.last[id], &stats)
		if err != nil {
			continue // cannot be: the pool is there
		}
		f.last[id] = next
		stats.Coordinated = seen[told[0]]
		f.c.measured.Store(true)
		f.c.hand(stats)
	}
}

// seen reads what a coordinating node saw of others.
func (f *follower) seen(others []int64) map[string]Seen {
	seen := make(map[string]Seen, len(others)/3)
	for ; len(others) >= 3; others = others[3:] {
		if id := f.id(int(others[0])); id != "" && min(others[1], others[2]) >= 0 && max(others[1], others[2]) <= maxCounter {
			seen[id] = Seen{Now: time.Duration(others[1]) * time.Microsecond, Before: time.Duration(others[2]) * time.Microsecond}
		}
	}
	return seen
}

// relayError hides the status with which a relay refused: it is not the cluster's.
type relayError struct{ err error }

func (e relayError) Error() string { return e.err.Error() }

// askTarget asks the relay what a target stands for.
func (c *Cluster) askTarget(ctx context.Context, t topic, l *lesson) error {
	values := url.Values{
		"version": {strconv.Itoa(relayVersion)}, "about": {t.about()}, "expression": {t.Expression}, "routing": {t.Routing},
	}
	var told relayLesson
	base, page := c.o.Relay.page()
	err := c.relayClient().get(ctx, base, query{
		kind: pollRelay, path: page + targetPage + "?" + values.Encode(), deadline: c.o.Relay.Silence, decode: decodeJSON(&told),
	})
	if err == nil {
		err = told.valid(t.of)
	}
	if err != nil {
		return relayError{err}
	}
	l.version = min(l.version, told.StateVersion) // another relay may be behind
	l.unknown, l.incomplete, l.shards = told.Unknown, told.Incomplete, unpackShards(told.Shards)
	if t.of == aboutLayout && told.Layout != nil {
		l.layout = *told.Layout
	}
	return nil
}

// tellUses says now and then which indices are searched here: those of which the relay
// was not told lately.
func (f *follower) tellUses(ctx context.Context) {
	now := time.Now()
	if now.Before(f.usesAt) {
		return
	}
	f.usesAt = now.Add(jitter(usesPause))
	names := f.c.namesInUse(now.Add(-useExpiry))
	told := make(map[string]time.Time, len(names))
	var untold []string
	for _, name := range names {
		at, ok := f.uses[name]
		if !ok || now.Sub(at) >= usesInterval {
			at = now
			untold = append(untold, name)
		}
		told[name] = at
	}
	f.uses = told
	if len(untold) > 0 {
		f.c.tellUses(ctx, untold)
	}
}

// tellUses says to the relay that these indices are searched. The next report tells
// where they are.
func (c *Cluster) tellUses(ctx context.Context, names []string) {
	body, err := encodeBody(names)
	if err == nil {
		base, page := c.o.Relay.page()
		err = c.relayClient().get(ctx, base, query{
			kind: pollRelay, path: page + usesPage + "?version=" + strconv.Itoa(relayVersion), deadline: c.o.Relay.Silence, body: body,
		})
	}
	if err != nil && ctx.Err() == nil {
		c.o.Logger.Debug("the relay was not told what is searched", "indices", len(names), "err", err)
	}
}
