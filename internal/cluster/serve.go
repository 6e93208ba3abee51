package cluster

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// maxReaders bounds how many others are answered at a time.
	maxReaders = 2000
	// readerPatience is how long a reader may take to take its answer.
	readerPatience = 10 * time.Second
	// maxUses bounds the names of indices that are read, in bytes.
	maxUses = 8 << 20
	// lookUpsAtOnce bounds the look-ups for others that are under way at once.
	lookUpsAtOnce = 8
	// relayedAge is how old a placement may be to be told.
	relayedAge = 10 * time.Second
)

// relay serves what a cluster knows to others, as the protocol in relay.go says.
type relay struct {
	c        *Cluster
	feed     *feed
	readers  chan struct{} // as many as are being answered
	patience time.Duration // with a reader
	lookUps  chan struct{} // as many as are under way
	flights  singleflight.Group
	placing  sync.Mutex // what one found out need not be asked for the next
}

func newRelay(c *Cluster) *relay {
	return &relay{
		c: c, feed: newFeed(c), readers: make(chan struct{}, maxReaders), patience: readerPatience,
		lookUps: make(chan struct{}, lookUpsAtOnce),
	}
}

// ServeHTTP implements http.Handler.
func (y *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	result := y.serve(w, r)
	y.c.metrics.relayed.WithLabelValues(result).Inc()
}

// Results of a request to a relay. The set is closed: used as a metric label.
const (
	relayedReport  = "report"
	relayedTarget  = "target"
	relayedUses    = "uses"
	relayedRefused = "refused" // 4xx, too many readers, nothing good to tell
	relayedFailed  = "failed"  // the reader went away, or a look-up failed
)

func (y *relay) serve(w http.ResponseWriter, r *http.Request) string {
	if v := r.URL.Query().Get("version"); v != strconv.Itoa(relayVersion) {
		return refuse(w, http.StatusBadRequest, fmt.Sprintf("this relay speaks version %d, not %q", relayVersion, v))
	}
	if err := y.fit(); err != nil {
		return refuse(w, http.StatusServiceUnavailable, err.Error())
	}
	select {
	case y.readers <- struct{}{}:
		defer func() { <-y.readers }()
	default:
		return refuse(w, http.StatusServiceUnavailable, "too many readers")
	}
	switch {
	case strings.HasSuffix(r.URL.Path, usesPage):
		return y.takeUses(w, r)
	case strings.HasSuffix(r.URL.Path, targetPage):
		return y.tellTarget(w, r)
	default:
		return y.tellReport(w, r)
	}
}

// fit returns why there is nothing good to tell.
func (y *relay) fit() error {
	if y.c.o.Relay.URL != nil {
		return errors.New("this sidestep has a relay itself")
	}
	if err := y.c.Ready(); err != nil {
		return err
	}
	s := y.c.Snapshot()
	if s.table == nil {
		return errors.New("the cluster shows no placement")
	}
	if age := time.Since(s.PlacedAt); age > max(relayedAge, 5*y.c.placementInterval()) {
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
func (y *relay) tellReport(w http.ResponseWriter, r *http.Request) string {
	query := r.URL.Query()
	var after int64
	if text := query.Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return refuse(w, http.StatusBadRequest, "after is not the number of a report")
		}
	}
	if query.Get("busy") == "true" {
		y.c.Touch()
		y.c.demand.all.Store(true)
	}
	body, err := y.feed.next(r.Context(), query.Get("relay"), after)
	if err != nil {
		return y.failed(w, r, err)
	}
	return y.write(w, body, relayedReport)
}

// failed answers a request that cannot be answered.
func (y *relay) failed(w http.ResponseWriter, r *http.Request, err error) string {
	if r.Context().Err() == nil {
		y.c.o.Logger.Debug("not relayed", "path", r.URL.Path, "err", err)
		refuse(w, http.StatusServiceUnavailable, "the cluster did not answer")
	}
	return relayedFailed
}

// write sends a compressed body. A reader that does not take it is dropped.
func (y *relay) write(w http.ResponseWriter, body []byte, result string) string {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(y.patience)) // a recorder of a test has none
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-store")
	n, err := w.Write(body)
	y.c.metrics.relayedBytes.Add(float64(n))
	if err != nil {
		return relayedFailed
	}
	_ = control.SetWriteDeadline(time.Time{}) // the connection is used again
	return result
}

// topicAbout is the inverse of topic.about.
func topicAbout(about string) (t topic, ok bool) {
	if about == "layout" {
		t.of = aboutLayout
	}
	return t, t.about() == about
}

// about names what a topic asks, for a relay.
func (t topic) about() string {
	if t.of == aboutLayout {
		return "layout"
	}
	return "shards"
}

// tellTarget answers what a target stands for.
func (y *relay) tellTarget(w http.ResponseWriter, r *http.Request) string {
	query := r.URL.Query()
	t, ok := topicAbout(query.Get("about"))
	t.Target = Target{Expression: query.Get("expression"), Routing: query.Get("routing")}
	if !ok || !t.valid() {
		return refuse(w, http.StatusBadRequest, "not a target")
	}
	lesson, err := y.lesson(r.Context(), t)
	if err != nil {
		return y.failed(w, r, err)
	}
	body, err := encodeBody(lesson)
	if err != nil {
		return y.failed(w, r, err)
	}
	return y.write(w, body, relayedTarget)
}

// valid reports whether a topic can be looked up.
func (t topic) valid() bool {
	if len(t.Expression)+len(t.Routing) > maxTargetLength {
		return false
	}
	return t.of != aboutLayout || isOneName(t.Expression)
}

var (
	errNotLearned = errors.New("the look-up failed")
	errThrottled  = errors.New("too many targets that nobody knew were asked about")
)

// lesson returns what is known of a topic, looked up at most once for all who ask
// at the same time.
func (y *relay) lesson(ctx context.Context, t topic) (*relayLesson, error) {
	if l := y.known(t); l != nil {
		return l, nil
	}
	key := fmt.Sprintf("%s\x00%s\x00%s", t.about(), t.Expression, t.Routing)
	_, err, _ := y.flights.Do(key, func() (any, error) {
		if !y.c.school.admits(t) {
			return nil, errThrottled
		}
		// Others wait for it, too: it does not end with the first who asked.
		ctx := context.WithoutCancel(ctx)
		y.lookUps <- struct{}{}
		defer func() { <-y.lookUps }()
		y.c.teach(ctx, t)
		return nil, nil //nolint:nilnil // the school has the result
	})
	if err != nil {
		return nil, err
	}
	if l := y.known(t); l != nil {
		return l, nil
	}
	return nil, errNotLearned
}

// known returns what the school knows of a topic at the present version.
func (y *relay) known(t topic) *relayLesson {
	version := y.c.Snapshot().Version
	l, at := y.c.school.recall(t, version, time.Now().Add(-lessonMaxAge/2))
	if l == nil {
		return nil
	}
	told := &relayLesson{StateVersion: at, Unknown: l.unknown, Incomplete: l.incomplete, Shards: packShards(l.shards)}
	if t.of == aboutLayout && !l.unknown {
		told.Layout = &l.layout
	}
	return told
}

// takeUses notes which indices are searched through others.
func (y *relay) takeUses(w http.ResponseWriter, r *http.Request) string {
	if r.Method != http.MethodPost {
		return refuse(w, http.StatusMethodNotAllowed, "POST the names of indices")
	}
	z, err := gzip.NewReader(http.MaxBytesReader(w, r.Body, maxUses))
	if err != nil {
		return refuse(w, http.StatusBadRequest, "the body is not compressed")
	}
	var names []string
	if err := json.NewDecoder(io.LimitReader(z, maxUses)).Decode(&names); err != nil {
		return refuse(w, http.StatusBadRequest, "the body is no list of names")
	}
	s := y.c.Snapshot()
	for _, name := range names {
		if p := s.table.get(name); p != nil {
			p.use.mark(s)
		}
	}
	y.placing.Lock()
	defer y.placing.Unlock()
	y.c.placeUnplaced(context.WithoutCancel(r.Context()), names)
	w.WriteHeader(http.StatusNoContent)
	return relayedUses
}
