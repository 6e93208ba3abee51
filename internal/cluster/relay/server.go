package relay

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
)

const (
	// maxReaders bounds how many others are told reports at a time, and besides how many are answered what they ask.
	maxReaders = 2000
	// readerPatience is how long a reader may take to take its answer.
	readerPatience = 10 * time.Second
	// maxUses bounds the names of indices that are read, in bytes, maxMissing how many of those of which
	// nothing is known are asked for. What is left out is asked for when a search misses it.
	maxUses    = 8 << 20
	maxMissing = 1000
	// lookUpsAtOnce bounds the look-ups for others that are under way at once, lookUpWait how long one waits for its turn.
	lookUpsAtOnce = 8
	lookUpWait    = defaultSilence
	// relayedAge is how old a placement may be to be told while the cluster does not answer. While it does, what it costs
	// to read the placement forbids to confirm it sooner, and would forbid those that are told.
	relayedAge = 10 * time.Second
)

// errNoList is why a list of names is refused.
var errNoList = errors.New("no list")

// Server serves what a poller found out to others, as the protocol in protocol.go says.
// It has no accounts and tells no credentials.
type Server struct {
	p        *poll.Poller
	metrics  *serverMetrics
	feed     *feed
	readers  chan struct{} // as many as are being told a report
	askers   chan struct{} // as many as are being answered anything else, which may wait for the cluster
	patience time.Duration // with a reader
	lookUps  chan struct{} // as many as are under way
	flights  singleflight.Group
	placing  chan struct{} // holds one while indices are placed: what one found out need not be asked for the next
}

// NewServer returns a handler that serves what p finds out, and what prober does; nil: nothing is
// probed. It is called before p is started.
func NewServer(p *poll.Poller, prober Prober, reg prometheus.Registerer) *Server {
	srv := &Server{
		p: p, metrics: newServerMetrics(reg), feed: newFeed(p.Snapshot, p.Options().StatsInterval, prober),
		readers: make(chan struct{}, maxReaders), askers: make(chan struct{}, maxReaders), patience: readerPatience,
		lookUps: make(chan struct{}, lookUpsAtOnce), placing: make(chan struct{}, 1),
	}
	p.Listen(srv.feed.poll)
	return srv
}

// ServeHTTP implements http.Handler.
func (srv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	result := srv.serve(w, r)
	srv.metrics.answers.WithLabelValues(result).Inc()
}

func (srv *Server) serve(w http.ResponseWriter, r *http.Request) string {
	if v := r.URL.Query().Get("version"); v != strconv.Itoa(relayVersion) {
		return refuse(w, http.StatusBadRequest, fmt.Sprintf("this relay speaks version %d, not %q", relayVersion, v))
	}
	if err := srv.fit(); err != nil {
		return refuse(w, http.StatusServiceUnavailable, err.Error())
	}
	slots, answer := srv.readers, srv.tellReport
	switch {
	case strings.HasSuffix(r.URL.Path, usesPage):
		slots, answer = srv.askers, srv.takeUses
	case strings.HasSuffix(r.URL.Path, targetPage):
		slots, answer = srv.askers, srv.tellTarget
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		return refuse(w, http.StatusServiceUnavailable, "too many readers")
	}
	return answer(w, r)
}

// fit returns why there is nothing good to tell.
func (srv *Server) fit() error {
	if srv.p.Options().Source != nil {
		return errors.New("this sidestep has a relay itself")
	}
	if err := srv.p.Ready(); err != nil {
		return err
	}
	s := srv.p.Snapshot()
	if !s.HasPlacement() {
		return errors.New("the cluster shows no placement")
	}
	oldest := srv.p.Options().PlacementMaxAge
	if srv.p.Status().State != poll.StateOK {
		oldest = min(oldest, max(relayedAge, 5*srv.p.PlacementInterval()))
	}
	if age := time.Since(s.PlacedAt); age > oldest {
		return fmt.Errorf("the placement was last confirmed %s ago", age.Round(time.Second))
	}
	return nil
}

func refuse(w http.ResponseWriter, status int, why string) string {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, why+"\n") // who asked may be gone
	return relayedRefused
}

// tellReport answers with what changed since the report that the reader has.
func (srv *Server) tellReport(w http.ResponseWriter, r *http.Request) string {
	query := r.URL.Query()
	var after int64
	if text := query.Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return refuse(w, http.StatusBadRequest, "after is not the number of a report")
		}
	}
	busy := query.Get("busy") == "true"
	if busy {
		srv.p.TouchAll()
	}
	srv.feed.suspected(query.Get("relay"), query.Get("suspects"), busy)
	body, err := srv.feed.next(r.Context(), query.Get("relay"), after)
	if err != nil {
		return srv.failed(w, r, err)
	}
	return srv.write(w, body, relayedReport)
}

// failed answers a request that cannot be answered.
func (srv *Server) failed(w http.ResponseWriter, r *http.Request, err error) string {
	if r.Context().Err() == nil {
		srv.p.Options().Logger.Debug("not relayed", "path", r.URL.Path, "err", err)
		refuse(w, http.StatusServiceUnavailable, err.Error())
	}
	return relayedFailed
}

// write sends a compressed body. A reader that does not take it is dropped.
func (srv *Server) write(w http.ResponseWriter, body []byte, result string) string {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(srv.patience)) // a recorder of a test has none
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-store")
	n, err := w.Write(body)
	srv.metrics.bytes.Add(float64(n))
	if err != nil {
		return relayedFailed
	}
	_ = control.SetWriteDeadline(time.Time{}) // the connection is used again
	return result
}

// subjectOf returns what is asked of a target, by its name in the protocol.
func subjectOf(about string) (of cluster.Subject, ok bool) {
	switch about {
	case "shards":
		return cluster.OfShards, true
	case "layout":
		return cluster.OfLayout, true
	}
	return cluster.OfShards, false
}

// nameOf is the inverse of subjectOf.
func nameOf(of cluster.Subject) string {
	if of == cluster.OfLayout {
		return "layout"
	}
	return "shards"
}

// tellTarget answers what a target stands for.
func (srv *Server) tellTarget(w http.ResponseWriter, r *http.Request) string {
	query := r.URL.Query()
	of, ok := subjectOf(query.Get("about"))
	t := cluster.LookUp{Target: cluster.Target{Expression: query.Get("expression"), Routing: query.Get("routing")}, Of: of}
	if !ok || !t.Valid() {
		return refuse(w, http.StatusBadRequest, "not a target")
	}
	body, err := srv.target(r.Context(), t)
	if err != nil {
		return srv.failed(w, r, err)
	}
	return srv.write(w, body, relayedTarget)
}

var (
	errNotLearned = errors.New("the look-up failed")
	errNoTurn     = errors.New("too many look-ups are under way")
	errThrottled  = errors.New("its look-up failed lately, or too many targets that nobody knew were asked about")
)

// target returns what is told of a target, looked up at most once for all who ask at the same time.
func (srv *Server) target(ctx context.Context, t cluster.LookUp) (told []byte, err error) {
	key := fmt.Sprintf("%s\x00%s\x00%s", nameOf(t.Of), t.Expression, t.Routing)
	// Others wait for it, too: it does not end with the first who asked.
	flight := srv.flights.DoChan(key, func() (any, error) {
		found, err := srv.find(context.WithoutCancel(ctx), t)
		if err != nil {
			return nil, err
		}
		return encodeBody(tellOf(t.Of, found, time.Now()))
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case done := <-flight:
		told, _ = done.Val.([]byte)
		return told, done.Err
	}
}

// find returns what is known of a target. If that is nothing, or too old, it is looked up when it is its turn.
func (srv *Server) find(ctx context.Context, t cluster.LookUp) (*cluster.Resolved, error) {
	if found := srv.p.Store().Recall(t); found != nil {
		return found, nil
	}
	if !srv.p.Store().Targets().Admits(t) {
		return nil, errThrottled
	}
	turn := time.NewTimer(lookUpWait)
	defer turn.Stop()
	select {
	case srv.lookUps <- struct{}{}:
		defer func() { <-srv.lookUps }()
	case <-turn.C:
		return nil, errNoTurn
	}
	found := srv.p.LookUp(ctx, t)
	if found == nil {
		return nil, errNotLearned
	}
	return found, nil
}

// takeUses notes which indices are searched through others.
func (srv *Server) takeUses(w http.ResponseWriter, r *http.Request) string {
	if r.Method != http.MethodPost {
		return refuse(w, http.StatusMethodNotAllowed, "POST the names of indices")
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(srv.patience)) // a recorder of a test has none
	z, err := gzip.NewReader(http.MaxBytesReader(w, r.Body, maxUses))
	if err != nil {
		return refuse(w, http.StatusBadRequest, "the body is not compressed")
	}
	missing, err := noteUses(srv.p.Snapshot(), io.LimitReader(z, maxUses))
	if err != nil {
		return refuse(w, http.StatusBadRequest, "the body is no list of names")
	}
	_ = control.SetReadDeadline(time.Time{})
	if len(missing) > 0 {
		select {
		case srv.placing <- struct{}{}:
		case <-r.Context().Done():
			return relayedFailed
		}
		defer func() { <-srv.placing }()
		srv.p.Place(context.WithoutCancel(r.Context()), missing)
		s := srv.p.Snapshot()
		for _, name := range missing { // which can be noted now that they are placed
			s.Use(name)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return relayedUses
}

// noteUses notes a list of names of indices as used. It returns those whose copies are not known, maxMissing at
// most. What is not the name of one index is left out: whoever reads what a relay tells must not have it read the
// placement of all indices, or forget one.
func noteUses(s *cluster.Snapshot, list io.Reader) (missing []string, err error) {
	decoder := json.NewDecoder(list)
	if open, err := decoder.Token(); err != nil || open != json.Delim('[') {
		return nil, cmp.Or(err, errNoList)
	}
	for decoder.More() {
		var name string
		if err := decoder.Decode(&name); err != nil {
			return nil, err
		}
		s.Use(name)
		if len(missing) < maxMissing && cluster.IsIndexName(name) && !s.Believes(name) {
			missing = append(missing, name)
		}
	}
	_, err = decoder.Token()
	return missing, err
}
