package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
)

const (
	// seenPerReport bounds how much a report tells of what coordinating nodes saw.
	seenPerReport = 5000
	// keptBodies is how many reports since different ones are kept encoded: of many
	// readers nearly all ask for the same.
	keptBodies = 16
	// fullFor is for how long a report of everything is given to others who ask for
	// one: making it is the dearest of all.
	fullFor = 2 * time.Second
	// readersOver is over how many reports readers are counted.
	readersOver = 8
	// longestHeld is how long a question may wait for a report where nodes are polled more rarely: those that ask take a
	// relay that says nothing for cluster.source.silence for dead.
	longestHeld = time.Second
	// maxGone bounds the deleted indices that are remembered.
	maxGone = 10_000
)

// feed makes reports of what a cluster knows. Everything in it carries the sequence
// number of the report in which it last changed, so that what changed since any
// other report can be told without remembering who asked before. Reports are
// made when somebody asks, at most one in an interval.
type feed struct {
	snapshot func() *cluster.Snapshot // what is known
	shortest time.Duration            // between reports
	relay    string
	born     time.Time

	// polling guards fresh alone: pollers do not wait for a report to be written.
	polling sync.Mutex
	fresh   map[string]*polled // since the last report

	mu         sync.Mutex
	interval   time.Duration // between reports
	seq        int64
	madeAt     time.Time
	told       *cluster.Snapshot // what the report tells of
	clusterSeq int64
	drained    []string // ids of nodes, sorted
	ids        []string
	idSeqs     []int64
	numbers    map[string]int
	indices    map[string]*fedIndex
	gone       []goneIndex // in the order of their deletion
	floor      int64       // what was deleted before is not known any more
	stats      map[string]*polled
	bodies     map[int64][]byte // of report seq, by the report asked after
	full       []byte
	fullAt     time.Time
	given      int     // reports since the last one was made
	readers    float64 // the mean of that over some reports: each reader takes each report once

	prober   Prober // nil: nothing is probed from here
	found    int64  // the number of the last finding
	findings []fedFinding
}

type fedIndex struct {
	index    *cluster.Index
	believed bool
	seq      int64
	there    int64 // the last report in which it was
}

type goneIndex struct {
	name string
	seq  int64
}

// polled is how the last poll of a node ended.
type polled struct {
	stats cluster.NodeStats
	raw   *poll.RawStats // nil if it failed
	seq   int64
}

func newFeed(snapshot func() *cluster.Snapshot, shortest time.Duration, prober Prober) *feed {
	shortest = min(shortest, longestHeld)
	return &feed{
		snapshot: snapshot, prober: prober, shortest: shortest, interval: shortest, relay: rand.Text(), born: time.Now(), fresh: map[string]*polled{},
		numbers: map[string]int{}, indices: map[string]*fedIndex{}, stats: map[string]*polled{},
	}
}

// poll takes in a poll of a node.
func (f *feed) poll(stats cluster.NodeStats, raw *poll.RawStats) {
	s := f.snapshot()
	f.polling.Lock()
	defer f.polling.Unlock()
	if s != nil && len(f.fresh) > 2*len(s.Nodes)+100 { // nobody reads reports, and nodes come and go
		maps.DeleteFunc(f.fresh, func(id string, _ *polled) bool {
			_, known := s.Position(id)
			return !known
		})
	}
	f.fresh[stats.Node] = &polled{stats: stats, raw: raw}
}

// next returns the report after another, encoded, as soon as there is one.
func (f *feed) next(ctx context.Context, relay string, after int64) ([]byte, error) {
	for {
		body, pause, err := f.try(relay, after)
		if body != nil || err != nil {
			return body, err
		}
		if !poll.Sleep(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// try returns the report after another, or how long to wait for it.
func (f *feed) try(relay string, after int64) (body []byte, pause time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.madeAt) >= f.interval {
		f.make(now)
	}
	if relay != f.relay || after > f.seq || after < f.floor {
		after = 0
	}
	if after == f.seq {
		return nil, f.madeAt.Add(f.interval).Sub(now), nil
	}
	f.given++
	switch {
	case after == 0 && f.full != nil && now.Sub(f.fullAt) < fullFor:
		return f.full, 0, nil
	case f.bodies[after] != nil:
		return f.bodies[after], 0, nil
	}
	if body, err = encodeBody(f.since(after)); err != nil {
		return nil, 0, err
	}
	if after == 0 {
		f.full, f.fullAt = body, now
	} else if len(f.bodies) < keptBodies {
		f.bodies[after] = body
	}
	return body, 0, nil
}

// compressors are used again: each takes a megabyte, and answers about targets are many and small.
var compressors = sync.Pool{New: func() any { //nolint:gochecknoglobals // a pool is shared by nature
	z, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // only for a level that there is not
	}
	return z
}}

// encodeBody returns v as JSON, compressed.
func encodeBody(v any) ([]byte, error) {
	var b bytes.Buffer
	z, _ := compressors.Get().(*gzip.Writer)
	z.Reset(&b)
	defer func() {
		z.Reset(io.Discard) // b may be large
		compressors.Put(z)
	}()
	if err := json.NewEncoder(z).Encode(v); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// make takes in what is known now, as the next report.
func (f *feed) make(now time.Time) {
	s := f.snapshot()
	// The list of ids grows as long as nodes come and go. Of another cluster nothing is as before, whatever is called alike.
	if len(f.ids) > 4*len(s.Nodes)+1000 || f.told != nil && f.told.ClusterUUID != s.ClusterUUID {
		f.restart()
	}
	f.seq++
	f.readers += (float64(f.given) - f.readers) / readersOver
	f.given = 0
	f.madeAt, f.bodies = now, map[int64][]byte{}
	// Where nodes are polled more rarely, as there are so many, reports are, too.
	f.interval = max(f.shortest, time.Duration(len(s.Nodes))*time.Second/poll.Budget/2)
	before := f.told
	f.told = s
	if f.takeDrained(now) || before == nil || !s.SameNodes(before) {
		f.clusterSeq = f.seq
	}
	for _, n := range s.Nodes {
		f.number(n.ID)
	}
	if before == nil || !s.SamePlacement(before) {
		f.takeIndices(s)
	}
	f.takePolls(s)
	f.takeFindings()
}

// restart makes the feed that of another relay.
func (f *feed) restart() {
	f.relay, f.seq, f.floor, f.told, f.full = rand.Text(), 0, 0, nil, nil
	f.ids, f.idSeqs, f.gone = nil, nil, nil
	f.numbers, f.indices = map[string]int{}, map[string]*fedIndex{}
	for _, p := range f.stats {
		p.seq = 1
	}
	f.findings = nil
}

// number returns the place of a node id in the list of ids, -1 for none.
func (f *feed) number(id string) int {
	if id == "" {
		return -1
	}
	n, ok := f.numbers[id]
	if !ok {
		n = len(f.ids)
		f.numbers[id] = n
		f.ids, f.idSeqs = append(f.ids, id), append(f.idSeqs, f.seq)
	}
	return n
}

// takeIndices notes which indices changed, came and went.
func (f *feed) takeIndices(s *cluster.Snapshot) {
	for index, believed := range s.Indices() {
		fed := f.indices[index.Name]
		if fed != nil && fed.index == index && fed.believed == believed { // so are nearly all
			fed.there = f.seq
			continue
		}
		switch {
		case fed == nil:
			fed = &fedIndex{seq: f.seq}
			f.indices[index.Name] = fed
		case fed.believed != believed, !fed.index.PlacedAs(index):
			fed.seq = f.seq
		}
		fed.index, fed.believed, fed.there = index, believed, f.seq
		for _, shard := range index.Shards {
			for _, c := range shard.Copies {
				f.number(c.Node)
			}
		}
	}
	for name, fed := range f.indices {
		if fed.there != f.seq {
			delete(f.indices, name)
			f.gone = append(f.gone, goneIndex{name, f.seq})
		}
	}
	if extra := len(f.gone) - maxGone; extra > 0 {
		f.floor = f.gone[extra-1].seq
		f.gone = slices.Clone(f.gone[extra:])
	}
}

// takePolls takes in the polls since the last report.
func (f *feed) takePolls(s *cluster.Snapshot) {
	f.polling.Lock()
	fresh := f.fresh
	f.fresh = map[string]*polled{}
	f.polling.Unlock()
	for id, p := range fresh {
		p.seq = f.seq
		f.stats[id] = p
	}
	maps.DeleteFunc(f.stats, func(id string, _ *polled) bool { _, known := s.Position(id); return !known })
}

// clock returns a time as reports tell it.
func (f *feed) clock(t time.Time) int64 { return t.Sub(f.born).Milliseconds() }

// since tells what changed since a report; everything since report 0.
func (f *feed) since(after int64) *report {
	s := f.told
	r := &report{
		Version: relayVersion, Relay: f.relay, Seq: f.seq, Full: after == 0, Now: f.clock(f.madeAt), Readers: int(math.Round(f.readers)),
		Placement: reportedPlacement{Version: s.Version, Source: placementSource, At: f.clock(s.PlacedAt)},
	}
	if f.clusterSeq > after {
		r.Cluster = reportCluster(s, f.drained)
	}
	r.IDsFrom, _ = slices.BinarySearch(f.idSeqs, after+1)
	r.IDs = f.ids[r.IDsFrom:]
	for _, fed := range f.indices {
		if fed.seq > after {
			told := reportIndex(fed.index, f.number)
			told.Stale = !fed.believed
			r.Indices = append(r.Indices, told)
		}
	}
	for _, gone := range f.gone {
		if gone.seq > after && after > 0 && f.indices[gone.name] == nil {
			r.Gone = append(r.Gone, gone.name)
		}
	}
	f.addPolls(r, after)
	if after > 0 {
		r.Findings = f.findingsSince(after)
	}
	return r
}

// addPolls adds the polls since a report. What coordinating nodes saw is told while
// there is room, beginning with others each time.
func (f *feed) addPolls(r *report, after int64) {
	room := seenPerReport
	first := int(f.seq) * 7
	for i := range f.ids {
		number := (first + i) % len(f.ids)
		p := f.stats[f.ids[number]]
		if p == nil || p.seq <= after {
			continue
		}
		at, took := f.clock(p.stats.At), p.stats.Took.Microseconds()
		if p.raw == nil {
			r.Failures = append(r.Failures, reportedFailure{Node: number, At: at, Took: took, State: p.stats.State, Error: p.stats.Err.Error()})
			continue
		}
		stats := reportedStats{int64(number), at, took}
		counters := countersOf(p.raw)
		copy(stats[3:], counters[:])
		r.Stats = append(r.Stats, stats)
		if len(p.stats.Coordinated) > 0 && len(p.stats.Coordinated) <= room {
			room -= len(p.stats.Coordinated)
			r.Seen = append(r.Seen, f.seen(number, p.stats.Coordinated))
		}
	}
}

func (f *feed) seen(number int, coordinated map[string]cluster.Seen) reportedSeen {
	told := reportedSeen{Node: number, Others: make([]int64, 0, 3*len(coordinated))}
	for id, seen := range coordinated {
		if n, known := f.numbers[id]; known {
			told.Others = append(told.Others, int64(n), seen.Now.Microseconds(), seen.Before.Microseconds())
		}
	}
	return told
}
