package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
)

const (
	// defaultSilence is for how long a relay may say nothing.
	defaultSilence = 3 * time.Second
	// firstReturn and lastReturn bound the pauses between attempts to reach a relay
	// that does not answer.
	firstReturn = 200 * time.Millisecond
	lastReturn  = 2 * time.Second
)

// Options say where another sidestep's view of the cluster is read.
type Options struct {
	// URL of its snapshot, http://relay:9211/snapshot.
	URL *url.URL
	// Client asks the relay: its TLS and the token are in its RoundTripper.
	Client *http.Client
	// Silence is after which time without an answer the cluster is polled instead;
	// default 3 s.
	Silence time.Duration
	// Prober learns from the relay's probes, and says which nodes it is to probe; may be nil.
	Prober Prober
}

// Follower keeps what is known in step with a relay. It is the [poll.Source] of one poller.
// Make it with [NewFollower].
type Follower struct {
	o    Options
	p    *poll.Poller
	base *url.URL
	page string

	relay   string // that the report with number seq was of; empty: none was
	seq     int64
	epoch   time.Time // when the relay's clock was 0, by ours
	ids     []string
	last    map[string]*poll.Baseline // by node id
	usesAt  time.Time                 // when the relay is to be told what is searched
	uses    map[string]time.Time
	telling chan struct{} // holds one while the relay is told: it may have to ask the cluster first

	own   string // uuid of the cluster that searches are sent to
	ownAt time.Time
}

// NewFollower returns a follower of the relay that the options name.
func NewFollower(o Options) *Follower {
	o.Client = cmp.Or(o.Client, http.DefaultClient)
	o.Silence = cmp.Or(o.Silence, defaultSilence)
	return &Follower{
		o: o, last: map[string]*poll.Baseline{}, telling: make(chan struct{}, 1),
		base: &url.URL{Scheme: o.URL.Scheme, Host: o.URL.Host}, page: strings.Trim(o.URL.EscapedPath(), "/"),
	}
}

// Follow implements [poll.Source]: it reads reports of the relay. While it is silent the
// cluster is polled, as if there were none.
func (f *Follower) Follow(ctx context.Context, p *poll.Poller) {
	f.p = p
	pace := p.NewPace()
	asked, pause := time.Now(), firstReturn // asked in vain since then
	stopPolls := func() {}
	defer func() {
		stopPolls()
		f.telling <- struct{}{} // nothing is being told any more
	}()
	for {
		started := time.Now()
		r, err := f.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if !p.Follows() {
				stopPolls()
				stopPolls = func() {}
				p.SetSource(poll.FromRelay)
				f.logger().Info("the relay answers: the cluster is not polled from here", "relay", f.base.Redacted())
			}
			f.apply(r)
			f.tellUses(ctx)
			if !pace.Wait(ctx, started, nil) {
				return
			}
			asked, pause = time.Now(), firstReturn
			continue
		case p.Source() != poll.FromPolls && time.Since(asked) >= f.o.Silence:
			f.logger().Warn("the relay does not answer: the cluster is polled from here", "relay", f.base.Redacted(), "err", err)
			f.forget()
			if p.Follows() {
				p.Store().ContinueRelayed()
			}
			p.SetSource(poll.FromPolls)
			stopPolls = p.Poll(ctx)
		default:
			f.logger().Debug("the relay does not answer", "err", err)
		}
		if !poll.Sleep(ctx, poll.Jitter(pause)) {
			return
		}
		pause = min(2*pause, lastReturn)
	}
}

func (f *Follower) logger() *slog.Logger { return f.p.Options().Logger }

// forget makes the next report that of everything.
func (f *Follower) forget() { f.relay, f.seq = "", 0 }

// ask reads what changed since the last report.
func (f *Follower) ask(ctx context.Context) (*report, error) {
	if f.own == "" {
		if err := f.recognise(ctx); err != nil {
			return nil, err
		}
	}
	path := f.page + "?version=" + strconv.Itoa(relayVersion)
	if f.relay != "" {
		path += "&relay=" + url.QueryEscape(f.relay) + "&after=" + strconv.FormatInt(f.seq, 10) + f.suspects()
	}
	if !f.p.Idle() {
		path += "&busy=true"
	}
	r := &report{}
	err := f.get(ctx, poll.Query{Path: path, Decode: poll.DecodeJSON(r)})
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
func (f *Follower) check(ctx context.Context, r *report) error {
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
func (f *Follower) checkCluster(ctx context.Context, uuid string) error {
	if uuid != f.own && time.Since(f.ownAt) >= f.p.Options().DiscoveryInterval {
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
func (f *Follower) recognise(ctx context.Context) error {
	found, _, err := f.p.Recognise(ctx)
	if err != nil {
		return fmt.Errorf("whether the relay tells of this cluster is not known: %w", err)
	}
	f.own, f.ownAt = found.ClusterUUID, time.Now()
	return nil
}

var errForeign = errors.New("it tells of another cluster than the upstream")

// apply takes in a report.
func (f *Follower) apply(r *report) {
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
	f.applyFindings(r)
	f.p.ReadersOfRelay(r.Readers)
	f.p.AnsweredByRelay()
}

// lastOf returns what is to be compared with the next statistics of these nodes.
func (f *Follower) lastOf(ids []string) map[string]*poll.Baseline {
	last := make(map[string]*poll.Baseline, len(ids))
	for _, id := range ids {
		if before := f.last[id]; before != nil {
			last[id] = before
		}
	}
	return last
}

// tick sets the own time of the relay's clock: a report that came sooner than the
// others was less late, and much so was one of everything that others had been given before.
// Clocks that run apart are followed slowly. What is compared with next moves with the clock.
func (f *Follower) tick(now time.Time, relays int64) {
	epoch := now.Add(-time.Duration(relays) * time.Millisecond)
	if late := epoch.Sub(f.epoch); !f.epoch.IsZero() && late > 0 {
		epoch = f.epoch.Add(late / 16)
	}
	if !f.epoch.IsZero() {
		for _, last := range f.last {
			last.Move(epoch.Sub(f.epoch))
		}
	}
	f.epoch = epoch
}

// time returns the own time of a time that the relay tells.
func (f *Follower) time(relays int64) time.Time {
	return f.epoch.Add(time.Duration(relays) * time.Millisecond)
}

func (f *Follower) id(number int) string {
	if number < 0 || number >= len(f.ids) {
		return ""
	}
	return f.ids[number]
}

// applyCluster takes in engine and nodes, and which indices are left alone.
func (f *Follower) applyCluster(r *reportedCluster) {
	nodes, urls := make([]*cluster.Node, len(r.Nodes)), map[string]string{}
	for i, told := range r.Nodes {
		nodes[i] = &told.Node
		if told.URL != "" {
			urls[told.ID] = told.URL
		}
	}
	leftAlone := map[string]cluster.Miss{}
	for _, index := range r.Unsupported {
		leftAlone[index] = cluster.MissUnsupported
	}
	for _, index := range r.Closed {
		leftAlone[index] = cluster.MissClosed
	}
	f.p.DiscoveredByRelay(&cluster.Identity{Engine: r.Engine, ClusterName: r.Name, ClusterUUID: r.UUID}, nodes, urls, leftAlone)
}

// applyPlacement takes in where the copies are.
func (f *Follower) applyPlacement(r *report) {
	at := f.time(min(r.Placement.At, r.Now))
	known := f.p.Snapshot()
	if !r.Full && len(r.Indices)+len(r.Gone) == 0 && r.Placement.Version == known.Version && at.Sub(known.PlacedAt) < f.p.Options().PlacementInterval/2 {
		return
	}
	told := cluster.RelayedPlacement{Version: r.Placement.Version, AsOf: at, Whole: r.Full, Gone: r.Gone}
	told.Indices = make([]cluster.Index, len(r.Indices))
	told.Stale = make([]bool, len(r.Indices))
	for i, index := range r.Indices {
		told.Indices[i], told.Stale[i] = index.index(f.id), index.Stale
	}
	f.p.Store().PlacedByRelay(told)
	f.p.Store().LearnAgain()
}

// applyPolls takes in how nodes answered the relay.
func (f *Follower) applyPolls(r *report) {
	for _, told := range r.Failures {
		id := f.id(told.Node)
		if id == "" || !told.valid() {
			continue
		}
		text := cmp.Or(told.Error[:min(len(told.Error), maxReportedText)], string(told.State))
		f.p.Deliver(cluster.NodeStats{
			Node: id, At: f.time(min(told.At, r.Now)), Took: time.Duration(told.Took) * time.Microsecond,
			State: told.State, Err: errors.New(text),
		})
	}
	seen := make(map[int64]map[string]cluster.Seen, len(r.Seen))
	for _, told := range r.Seen {
		seen[int64(told.Node)] = f.seen(told.Others)
	}
	for _, told := range r.Stats {
		id := f.id(int(told[0]))
		if id == "" || !told.valid() {
			continue
		}
		stats := cluster.NodeStats{Node: id, At: f.time(min(told[1], r.Now)), Took: time.Duration(told[2]) * time.Microsecond, State: cluster.PollOK}
		next, err := told.raw().Measure(id, f.last[id], &stats)
		if err != nil {
			continue // cannot be: the pool is there
		}
		f.last[id] = next
		stats.Coordinated = seen[told[0]]
		f.p.Deliver(stats)
	}
}

// seen reads what a coordinating node saw of others.
func (f *Follower) seen(others []int64) map[string]cluster.Seen {
	seen := make(map[string]cluster.Seen, len(others)/3)
	for ; len(others) >= 3; others = others[3:] {
		if id := f.id(int(others[0])); id != "" && min(others[1], others[2]) >= 0 && max(others[1], others[2]) <= maxCounter {
			seen[id] = cluster.Seen{Now: time.Duration(others[1]) * time.Microsecond, Before: time.Duration(others[2]) * time.Microsecond}
		}
	}
	return seen
}

// relayError hides the status with which a relay refused: it is not the cluster's.
type relayError struct{ err error }

func (e relayError) Error() string { return e.err.Error() }

// get asks the relay.
func (f *Follower) get(ctx context.Context, q poll.Query) error {
	q.Kind, q.Deadline = poll.KindRelay, f.o.Silence
	return f.p.Get(ctx, f.o.Client, f.base, q)
}

// LookUp implements [poll.Source].
func (f *Follower) LookUp(ctx context.Context, t cluster.LookUp, into *cluster.Resolved) error {
	values := url.Values{
		"version": {strconv.Itoa(relayVersion)}, "about": {nameOf(t.Of)}, "expression": {t.Expression}, "routing": {t.Routing},
	}
	var told resolvedTarget
	err := f.get(ctx, poll.Query{Path: f.page + targetPage + "?" + values.Encode(), Decode: poll.DecodeJSON(&told)})
	if err == nil {
		err = told.valid(t.Of)
	}
	if err != nil {
		return relayError{err}
	}
	into.Version = min(into.Version, told.StateVersion) // another relay may be behind, and the look-up of a while ago
	into.At = into.At.Add(-time.Duration(told.Age) * time.Millisecond)
	into.Unknown, into.Incomplete, into.Shards = told.Unknown, told.Incomplete, unpackShards(told.Shards)
	if t.Of == cluster.OfLayout && told.Layout != nil {
		into.Layout = *told.Layout
	}
	return nil
}

// tellUses says now and then which indices are searched here: those of which the relay
// was not told lately. Reports do not wait for it.
func (f *Follower) tellUses(ctx context.Context) {
	now := time.Now()
	if now.Before(f.usesAt) {
		return
	}
	select {
	case f.telling <- struct{}{}:
	default: // after the next report
		return
	}
	f.usesAt = now.Add(poll.Jitter(usesPause))
	names := f.p.Store().NamesInUse()
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
	if len(untold) == 0 {
		<-f.telling
		return
	}
	go func() {
		defer func() { <-f.telling }()
		f.Use(ctx, untold)
	}()
}

// Use implements [poll.Source]. The next report tells where the indices are.
func (f *Follower) Use(ctx context.Context, names []string) {
	for some := range slices.Chunk(names, usesAtOnce) {
		body, err := encodeBody(some)
		if err == nil {
			err = f.get(ctx, poll.Query{Path: f.page + usesPage + "?version=" + strconv.Itoa(relayVersion), Body: body})
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil { // the others may be taken in all the same
			f.logger().Debug("the relay was not told what is searched", "indices", len(some), "err", err)
		}
	}
}
