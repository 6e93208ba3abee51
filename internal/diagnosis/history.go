package diagnosis

import (
	"math"
	"slices"
	"sync"
	"time"

	"sidestep/internal/cluster"
)

const (
	// Span is how far back the history goes.
	Span = 15 * time.Minute
	// grain is the time between two points of it.
	grain = time.Second
	// maxSamples bounds the samples of all nodes and points together: 15 minutes of 100
	// nodes, 48 bytes each, 4.3 MB. With more nodes points are further apart.
	maxSamples = 100 * int(Span/grain)
)

// The figures of a node at one point. Durations are in milliseconds.
const (
	fieldResponse = iota
	fieldShare
	fieldQueue
	fieldActive
	fieldService
	fieldPoll
	fieldProbe
	fieldSeen
	fields
)

// Reading is what sidestep knows of a node at one moment. Durations are in
// milliseconds; what is not known is NaN.
type Reading struct {
	ID, Name string
	// State is that of the selection, Why the evidence against the node.
	State, Why string
	Since      time.Time // when State began
	Response   float64   // of a shard search, as seen from outside the node
	Service    float64   // of a shard query, on the node
	Share      float64   // of the shard queries of the last minute, 0..1
	Queue      float64
}

// sample is one node at one point.
type sample struct {
	values [fields]float32
	state  string // of a closed set: the text is not copied
}

// named is a node by its id and name.
type named struct{ id, name string }

// point is all nodes at one moment. It shares its list of nodes with the point before it
// while they are the same.
type point struct {
	at      time.Time
	nodes   []named
	samples []sample
	middles [fields]middle
}

// History holds the figures of the nodes of the last 15 minutes, in memory: a point a
// second, or fewer in clusters of more than 100 nodes. It is safe for concurrent use.
type History struct {
	mu       sync.Mutex
	points   []point
	held     int           // samples in points
	interval time.Duration // between points: grain, doubled as often as needed
	pending  map[string]*pending
}

// pending is what polls and probes measured of a node since the last point.
type pending struct {
	poll, probe, queue, seen float64 // the largest, NaN if there is none
	active                   float64
	service                  time.Duration // the sum
	queries                  int64
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{interval: grain, pending: map[string]*pending{}}
}

// Poll adds a poll of a node.
func (h *History) Poll(s cluster.NodeStats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(s.Node)
	if s.State != cluster.PollUnreachable { // a connection that is refused at once is no quick answer
		p.poll = larger(p.poll, millis(s.Took))
	}
	if s.Err != nil {
		return
	}
	p.queue = larger(p.queue, float64(s.Queue))
	p.active = s.Active
	p.service += s.ServiceTime * time.Duration(s.Queries)
	p.queries += s.Queries
	for id, seen := range s.Coordinated {
		if id != s.Node { // a node's figure of itself contains no network time
			other := h.of(id)
			other.seen = larger(other.seen, millis(seen.Now))
		}
	}
}

// Probe adds a probe of a node: how long it took, or was waited for.
func (h *History) Probe(node string, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(node)
	p.probe = larger(p.probe, millis(took))
}

func (h *History) of(node string) *pending {
	p := h.pending[node]
	if p == nil {
		nan := math.NaN()
		p = &pending{poll: nan, probe: nan, queue: nan, seen: nan, active: nan}
		h.pending[node] = p
	}
	return p
}

// add appends a point of these readings, if one is due.
func (h *History) add(readings []Reading, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The ticker may fire a little early.
	if n := len(h.points); n > 0 && now.Sub(h.points[n-1].at) < h.interval-grain/2 {
		return
	}
	p := point{at: now, nodes: h.sameNodes(readings), samples: make([]sample, len(readings))}
	for i, r := range readings {
		p.samples[i] = h.sampleOf(r)
	}
	clear(h.pending)
	values := make([]float32, 0, len(p.samples))
	for field := range p.middles {
		values = values[:0]
		for i := range p.samples {
			if v := p.samples[i].values[field]; v == v { // not NaN
				values = append(values, v)
			}
		}
		p.middles[field] = middleOf(values)
	}
	h.points = append(h.points, p)
	h.held += len(p.samples)
	h.trim(now)
}

func (h *History) sampleOf(r Reading) sample {
	p := h.of(r.ID)
	service, queue := r.Service, r.Queue
	if p.queries > 0 {
		service = millis(p.service) / float64(p.queries)
	}
	if !math.IsNaN(p.queue) {
		queue = p.queue
	}
	s := sample{state: r.State}
	for field, v := range [fields]float64{r.Response, r.Share, queue, p.active, service, p.poll, p.probe, p.seen} {
		s.values[field] = float32(v)
	}
	return s
}

// sameNodes returns the nodes of the last point if they are the ones in readings.
func (h *History) sameNodes(readings []Reading) []named {
	if n := len(h.points); n > 0 && len(h.points[n-1].nodes) == len(readings) {
		last, same := h.points[n-1].nodes, true
		for i, r := range readings {
			same = same && last[i] == named{r.ID, r.Name}
		}
		if same {
			return last
		}
	}
	nodes := make([]named, len(readings))
	for i, r := range readings {
		nodes[i] = named{r.ID, r.Name}
	}
	return nodes
}

// trim drops points that are too old. When there are too many it drops every second one
// and doubles the interval; when there is much room it halves the interval.
func (h *History) trim(now time.Time) {
	old := 0
	for old < len(h.points) && now.Sub(h.points[old].at) > Span {
		h.held -= len(h.points[old].samples)
		old++
	}
	h.points = slices.Delete(h.points, 0, old)
	if h.held > maxSamples && len(h.points) > 1 {
		h.interval *= 2
		kept := h.points[:0]
		h.held = 0
		for i := len(h.points) % 2; i < len(h.points); i += 2 {
			kept = append(kept, h.points[i])
			h.held += len(h.points[i].samples)
		}
		clear(h.points[len(kept):])
		h.points = kept
	}
	if h.interval > grain && now.Sub(h.points[0].at) > Span-2*h.interval && h.held < maxSamples/3 {
		h.interval /= 2
	}
}

// Timeline is the series of nodes over time, each parallel to At.
type Timeline struct {
	Interval float64      `json:"interval_s"` // between points now
	At       []Time       `json:"at"`
	Nodes    []NodeSeries `json:"nodes"`
}

// NodeSeries is one node over time. Durations are in milliseconds.
type NodeSeries struct {
	ID       string `json:"node_id"`
	Name     string `json:"node"`
	Response Series `json:"response_ms"`
	Share    Series `json:"share"`
	Queue    Series `json:"queue"`
	Active   Series `json:"active"`
	Service  Series `json:"service_ms"`
	Poll     Series `json:"poll_ms"`
	Probe    Series `json:"probe_ms"` // the slowest since the point before
	// Seen is the largest of the averages that coordinating nodes keep of the node's
	// response times, where one changed.
	Seen  Series `json:"seen_ms"`
	State States `json:"state"`
}

func newNodeSeries(n named, points int) *NodeSeries {
	s := &NodeSeries{ID: n.id, Name: n.name, State: make(States, points)}
	for _, field := range s.figures() {
		*field = make(Series, points)
		for i := range *field {
			(*field)[i] = unknown
		}
	}
	return s
}

// figures lists the series in the order of the fields.
func (s *NodeSeries) figures() [fields]*Series {
	return [fields]*Series{&s.Response, &s.Share, &s.Queue, &s.Active, &s.Service, &s.Poll, &s.Probe, &s.Seen}
}

// Since returns the series of all nodes from a moment on. Nodes that have left come last.
func (h *History) Since(from time.Time) Timeline {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := len(h.points)
	for first > 0 && !h.points[first-1].at.Before(from) {
		first--
	}
	points := h.points[first:]
	t := Timeline{Interval: h.interval.Seconds(), At: make([]Time, len(points))}
	series := map[string]*NodeSeries{}
	var order []*NodeSeries
	for i := len(points) - 1; i >= 0; i-- { // from the newest, whose order of nodes is used
		t.At[i] = Time{points[i].at}
		for j, n := range points[i].nodes {
			s := series[n.id]
			if s == nil {
				s = newNodeSeries(n, len(points))
				series[n.id] = s
				order = append(order, s)
			}
			for field, into := range s.figures() {
				(*into)[i] = points[i].samples[j].values[field]
			}
			s.State[i] = points[i].samples[j].state
		}
	}
	t.Nodes = make([]NodeSeries, len(order))
	for i, s := range order {
		t.Nodes[i] = *s
	}
	return t
}

// around returns the series of one node and of the median of the others, over a span of
// time.
func (h *History) around(node string, from, until time.Time) Timeline {
	h.mu.Lock()
	defer h.mu.Unlock()
	points := h.points
	for len(points) > 0 && points[0].at.Before(from) {
		points = points[1:]
	}
	for len(points) > 0 && points[len(points)-1].at.After(until) {
		points = points[:len(points)-1]
	}
	own, others := newNodeSeries(named{id: node}, len(points)), newNodeSeries(named{name: "median of the others"}, len(points))
	t := Timeline{Interval: h.interval.Seconds(), At: make([]Time, len(points))}
	figures, median := own.figures(), others.figures()
	for i, p := range points {
		t.At[i] = Time{p.at}
		at := slices.IndexFunc(p.nodes, func(n named) bool { return n.id == node })
		if at >= 0 {
			own.Name, own.State[i] = p.nodes[at].name, p.samples[at].state
		}
		for field, m := range p.middles {
			v := unknown
			if at >= 0 {
				v = p.samples[at].values[field]
			}
			(*figures[field])[i], (*median[field])[i] = v, m.without(v)
		}
	}
	t.Nodes = []NodeSeries{*own, *others}
	return t
}

// middle are the two figures in the middle of those of all nodes that are known: the median of all but one is either.
// So it need not be sought for each of many nodes that are in trouble at once.
type middle struct {
	low, high float32 // NaN where there is none
	even      bool    // how many are known
}

// middleOf returns the middle of values, which it sorts.
func middleOf(values []float32) middle {
	m := middle{low: unknown, high: unknown, even: len(values)%2 == 0}
	slices.Sort(values)
	if at := (len(values) - 1) / 2; len(values) > 0 {
		m.low = values[at]
		if at+1 < len(values) {
			m.high = values[at+1]
		}
	}
	return m
}

// without returns the median of the figures but own, the upper one of two; own is NaN if it is not among them.
func (m middle) without(own float32) float32 {
	known := own == own
	if known && own <= m.low || !known && m.even {
		return m.high
	}
	return m.low
}

// larger returns the larger of two numbers, b if a is NaN.
func larger(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	return max(a, b)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Time is a moment as it is written in JSON: RFC 3339 in UTC, with milliseconds.
type Time struct{ time.Time }

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"` + timeFormat + `"`)), nil
}
