package poll

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"sidestep/internal/cluster"
)

// Kind names what a poll asks for. The set is closed: used as a metric label.
type Kind string

const (
	kindInfo         Kind = "info"
	kindNodes        Kind = "nodes"
	kindMembers      Kind = "members"
	kindVersion      Kind = "version"
	kindRoutingTable Kind = "routing_table"
	kindSearchShards Kind = "search_shards"
	kindMetadata     Kind = "metadata"
	kindAliases      Kind = "aliases"
	kindSettings     Kind = "settings"
	kindExclusions   Kind = "exclusions"
	kindShutdowns    Kind = "shutdowns"
	kindCounts       Kind = "counts"
	kindStats        Kind = "stats"
	KindRelay        Kind = "relay"
)

const (
	// localDeadline bounds polls that the node asked answers by itself.
	localDeadline = time.Second
	// maxBody bounds every answer but those about the whole placement, for which maxPlacement does. Those of nodes are read
	// as they come, a relay's is held as a whole.
	// The routing table of 500,000 shards with two copies takes about 75 MB, the report of a relay about them 60 MB.
	maxBody      = 64 << 20
	maxPlacement = 160 << 20
	// maxErrorBody is how much of an error's body is kept for the message.
	maxErrorBody = 300
)

// Query is one GET, or a POST if it has a body.
type Query struct {
	Kind     Kind
	Path     string // escaped, with its query string, no leading slash
	Deadline time.Duration
	Decode   func(io.Reader) error
	Body     []byte // JSON, compressed; the answer is 204, and not decoded
	longest  int64  // bound of the answer, in bytes; default maxBody
	ofName   bool   // another node would say the same of a name that is not there, or is behind
	// began is set, if not nil, to when the address was asked that is asked last. That is the one that answers.
	began *time.Time
}

// DecodeJSON returns a decoder into v for a query.
func DecodeJSON(v any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(v) }
}

// httpError is an HTTP error status.
type httpError struct {
	code int
	body string
}

func (e *httpError) Error() string {
	if e.body == "" {
		return fmt.Sprintf("HTTP status %d %s", e.code, http.StatusText(e.code))
	}
	return fmt.Sprintf("HTTP status %d: %s", e.code, e.body)
}

// client makes polls and counts them.
type client struct {
	http    *http.Client
	metrics *metrics
}

// get asks one address.
func (c *client) get(ctx context.Context, base *url.URL, q Query) error {
	start := time.Now()
	err := c.exchange(ctx, base, q)
	if ctx.Err() != nil {
		return err // stopped: says nothing about the cluster
	}
	c.metrics.polls.WithLabelValues(string(q.Kind), string(pollState(err))).Inc()
	c.metrics.pollDuration.WithLabelValues(string(q.Kind)).Observe(time.Since(start).Seconds())
	if err != nil {
		return fmt.Errorf("poll %s from %s: %w", q.Kind, base.Redacted(), err)
	}
	return nil
}

func (c *client) exchange(ctx context.Context, base *url.URL, q Query) error {
	ctx, cancel := context.WithTimeout(ctx, q.Deadline)
	defer cancel()
	address := strings.TrimSuffix(base.String(), "/") + "/" + q.Path
	req, err := newPoll(ctx, address, q.Body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unwrapURL(err)
	}
	defer resp.Body.Close()
	expected := http.StatusOK
	if q.Body != nil {
		expected = http.StatusNoContent
	}
	if resp.StatusCode != expected {
		head, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // as much as there is: the status is what counts
		return &httpError{code: resp.StatusCode, body: strings.TrimSpace(string(head))}
	}
	if q.Body != nil {
		return nil
	}
	longest := cmp.Or(q.longest, maxBody)
	body := &boundedBody{r: resp.Body, left: longest, longest: longest}
	if err := q.Decode(body); err != nil {
		return err
	}
	// What follows the value is read so that the connection can be used again.
	_, err = io.Copy(io.Discard, body)
	return err
}

func newPoll(ctx context.Context, address string, body []byte) (*http.Request, error) {
	if body == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err == nil {
			req.Header.Set("Accept", "application/json")
		}
		return req, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Content-Encoding", "gzip")
	}
	return req, err
}

// unwrapURL drops the URL from an error of net/http: the caller names the address.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// boundedBody is an io.LimitReader that fails, where that one ends.
type boundedBody struct {
	r             io.Reader
	left, longest int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("answer is longer than %d MiB", b.longest>>20)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// pollState tells how a poll ended from its error.
func pollState(err error) cluster.PollState {
	switch {
	case err == nil:
		return cluster.PollOK
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return cluster.PollUnresponsive
	case isConnectionError(err) && !cluster.OwnLack(err):
		return cluster.PollUnreachable
	}
	return cluster.PollFailed
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func isConnectionError(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// stranger reports whether err is an answer that no engine gives: something else has the address that a node publishes, as
// where addresses of pods or containers mean other machines outside of their network. Errors of engines are JSON that
// begins with "error".
func stranger(err error) bool {
	if status, ok := errors.AsType[*httpError](err); ok {
		return strange(status.code) && !strings.HasPrefix(strings.Join(strings.Fields(status.body), ""), `{"error"`)
	}
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	return ok && syntax.Offset <= 8 && strings.HasSuffix(syntax.Error(), "looking for beginning of value") // a page of HTML
}

// missing reports whether an error says that the engine has no such API, or not for
// us, be it a gateway that says so. A timeout does not, nor does a refusal of the account, which says nothing of what was
// asked.
func missing(err error) bool {
	status, ok := errors.AsType[*httpError](err)
	return ok && status.code < 500 && status.code != http.StatusTooManyRequests && status.code != http.StatusUnauthorized
}

// notFound reports whether the engine says that what was asked about is not there.
func notFound(err error) bool {
	status, ok := errors.AsType[*httpError](err)
	return ok && status.code == http.StatusNotFound && !stranger(err)
}

// unauthorized reports whether the account is not known. Each such answer costs the engine the check of a password.
func unauthorized(err error) bool {
	status, ok := errors.AsType[*httpError](err)
	return ok && status.code == http.StatusUnauthorized
}

// settled reports whether it is an answer or a refusal of an engine's, and not the node's own trouble.
func settled(err error) bool {
	return err == nil || (missing(err) || unauthorized(err)) && !stranger(err)
}

// Get asks a relay with a client of its own. The answer may tell of the whole placement.
func (p *Poller) Get(ctx context.Context, with *http.Client, base *url.URL, q Query) error {
	q.longest = maxPlacement
	return (&client{http: with, metrics: p.metrics}).get(ctx, base, q)
}
