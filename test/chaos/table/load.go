package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/selection"
	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// Ways to send the searches; the variants of sidestep are further ones.
const (
	loadSidestep = "sidestep"
	loadOracle   = "oracle"
	loadEngine   = "engine"
	// loadControl is the engine's way once more: it tells what the same differs by.
	loadControl = "control"
)

// oracle sends each search to a good node, for good nodes alone.
type oracle struct {
	good *atomic.Pointer[[]*harness.Node]
	next atomic.Uint64
	base http.RoundTripper
}

func (o *oracle) RoundTrip(r *http.Request) (*http.Response, error) {
	good := *o.good.Load()
	node := good[o.next.Add(1)%uint64(len(good))]
	ids := make([]string, len(good))
	for i, n := range good {
		ids[i] = n.ID
	}
	out := r.Clone(r.Context())
	out.URL.Host = strings.TrimPrefix(node.HTTPURL, "http://")
	out.URL.RawQuery = "preference=_only_nodes:" + strings.Join(ids, ",")
	return o.base.RoundTrip(out)
}

// sample is what sidestep did with one search.
type sample struct {
	due     time.Time     // when it was to be sent
	at      time.Time     // when it was sent
	latency time.Duration // from due to the last byte
	status  int           // 0: no answer
	// decision is what sidestep says it did, or why there was no answer.
	decision string
	// nodes are the names in the list, empty if the search passed; answered is
	// false if there was no answer to tell.
	nodes       []string
	coordinator string // empty if sidestep does not tell
	answered    bool
}

// witness asks sidestep for its decisions and keeps them.
type witness struct {
	base http.RoundTripper
	// schedule returns when the search number i was to be sent; nil: there is none.
	schedule func(i int) time.Time

	mu      sync.Mutex
	samples []sample
}

// numbered is a request's body that knows the number of its search, which is how
// a number gets from the load generator to its transport.
type numbered struct {
	io.ReadCloser
	number int
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	s := sample{at: time.Now()}
	s.due = s.at
	if body, ok := r.Body.(numbered); ok && w.schedule != nil {
		s.due = w.schedule(body.number)
	}
	out := r.Clone(r.Context())
	out.Header.Set("X-Sidestep-Explain", "1")
	res, err := w.base.RoundTrip(out)
	if err != nil {
		s.decision = fmt.Sprintf("%.160s", err.Error())
		w.keep(s)
		return nil, err
	}
	s.answered, s.status = true, res.StatusCode
	s.decision = res.Header.Get(harness.DecisionHeader)
	s.nodes, s.coordinator = parseDecision(s.decision)
	res.Body = &watched{ReadCloser: res.Body, end: func() { w.keep(s) }}
	return res, nil
}

// keep takes in a sample that has just ended.
func (w *witness) keep(s sample) {
	s.latency = time.Since(s.due)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
}

// watched is a body that tells when it is closed.
type watched struct {
	io.ReadCloser
	end func()
}

func (b *watched) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// parseDecision returns the nodes of the list, none if the search was sent without one.
func parseDecision(header string) (nodes []string, coordinator string) {
	d := harness.ParseDecision(header)
	if !selection.Reason(d.Reason).Lists() {
		return nil, d.Coordinator
	}
	return d.Nodes, d.Coordinator
}

// shot is one load of one scenario.
type shot struct {
	load     string
	tenant   *tenant       // whose searches they are; nil: the usual ones
	lead     time.Duration // of the same load before, which counts for nothing
	duration time.Duration
	rate     float64 // searches per second of an open loop; 0: as many as there are to be
	first    int     // number of the first search
	begun    func()  // called when what counts begins; may be nil
}

// leadNumbers is where the numbers of lead-ins begin: not those of what follows.
const leadNumbers = 1 << 24

// line is a load ready to be sent.
type line struct {
	loadgen.Options
	lead loadgen.Options // its lead-in
	seen *witness        // nil: not through sidestep
	done func()          // closes its connections
}

func (s *stage) line(sc scenario, at shot) *line {
	base := loadgen.NewTransport(max(512, sc.connections))
	l := &line{done: base.CloseIdleConnections, Options: loadgen.Options{
		Duration: at.duration, Timeout: sc.timeout, Connections: sc.connections, Transport: base,
	}}
	for _, node := range s.dataNodes() {
		l.Targets = append(l.Targets, node.HTTPURL)
	}
	request := func(i int) *http.Request { return harness.Search(index, i) }
	switch {
	case at.tenant != nil:
		l.Connections, l.Rate, request = 0, at.tenant.rate, at.tenant.request
	case sc.connections == 0:
		l.Rate = cmp.Or(at.rate, sc.rate, s.rate)
	}
	if at.load == loadOracle {
		l.Transport = &oracle{good: &s.good, base: base}
	}
	front := s.Front(at.load)
	if front != nil {
		l.Targets = []string{front.URL}
	}
	l.lead = l.Options
	l.lead.Duration = at.lead
	l.lead.Request = func(i int) *http.Request { return request(leadNumbers + at.first + i) }
	l.Request = func(i int) *http.Request {
		r := request(at.first + i)
		r.Body = numbered{r.Body, i}
		return r
	}
	if front != nil {
		l.seen = &witness{base: base}
		l.Transport = l.seen
	}
	return l
}

// follow tells the witness when its load begins, and with it when each search of
// an open loop is due.
func (l *line) follow(began time.Time) {
	if l.seen == nil || l.Rate == 0 {
		return
	}
	l.seen.schedule = func(i int) time.Time {
		return began.Add(time.Duration(float64(i) * float64(time.Second) / l.Rate))
	}
}
