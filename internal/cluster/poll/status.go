package poll

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// State says how the conversation with the cluster is going. The set is closed.
type State string

// States of the conversation.
const (
	StateConnecting   State = "connecting"    // nothing has answered or failed yet
	StateOK           State = "ok"            // an engine answers
	StateUnreachable  State = "unreachable"   // no seed and no known node answers
	StateUnauthorized State = "unauthorized"  // sidestep's own account is refused
	StateNotAnEngine  State = "not_an_engine" // what answers is neither Elasticsearch nor OpenSearch
	StateNoShardsAPI  State = "no_shards_api" // serverless: no shards to steer to
)

// Status is a [State], since when, and why.
type Status struct {
	State State     `json:"state"`
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since"`
}

// stateError is an error that knows the state it means.
type stateError struct {
	state State
	err   error
}

func (e *stateError) Error() string { return e.err.Error() }
func (e *stateError) Unwrap() error { return e.err }

// stateOf returns the state that an error means; nil means [StateOK].
func stateOf(err error) State {
	if err == nil {
		return StateOK
	}
	if stated, ok := errors.AsType[*stateError](err); ok {
		return stated.state
	}
	if status, ok := errors.AsType[*httpError](err); ok &&
		(status.code == http.StatusUnauthorized || status.code == http.StatusForbidden) {
		return StateUnauthorized
	}
	return StateUnreachable
}

// task is a part of the background work that has a say in the status.
type task int

const (
	discovering task = iota
	placing
	tasks
)

// statusBoard joins what the tasks report into one status, and logs when its
// state changes.
type statusBoard struct {
	logger  *slog.Logger
	metrics *metrics

	mu     sync.Mutex
	errs   [tasks]error
	status Status
}

func newStatusBoard(logger *slog.Logger, m *metrics) *statusBoard {
	m.stateIs(StateConnecting)
	return &statusBoard{logger: logger, metrics: m, status: Status{State: StateConnecting, Since: time.Now()}}
}

// report says how a task's last attempt ended. Discovery speaks first: what it
// reports explains why the others fail.
func (b *statusBoard) report(t task, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs[t] = err
	worst := cmp.Or(b.errs[:]...)
	state, text := stateOf(worst), ""
	if worst != nil {
		text = worst.Error()
	}
	if state == b.status.State {
		b.status.Error = text
		return
	}
	b.status = Status{State: state, Error: text, Since: time.Now()}
	b.metrics.stateIs(state)
	if worst != nil {
		b.logger.Warn("cluster state changed", "state", state, "err", worst)
		return
	}
	b.logger.Info("cluster state changed", "state", state)
}

func (b *statusBoard) get() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// AnsweredByRelay says that a relay answers in place of the cluster.
func (p *Poller) AnsweredByRelay() {
	p.status.report(discovering, nil)
	p.status.report(placing, nil)
	p.strangerSince.Store(nil)
}
