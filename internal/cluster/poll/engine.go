package poll

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sidestep/internal/cluster"
)

const (
	// infoDeadline bounds `GET /`, which every node answers by itself.
	infoDeadline = 2 * time.Second
	// longestPass is how long all addresses are asked what they are, one after the other. After that it is
	// the seeds alone: all others may be gone.
	longestPass = 5 * time.Second
	selfPath    = "_nodes/_local/http?filter_path=cluster_name,nodes.*.version,nodes.*.build_flavor"
)

// errNoShardsAPI is the state of serverless.
var errNoShardsAPI = &stateError{
	state: StateNoShardsAPI,
	err:   errors.New("the upstream is Elasticsearch serverless, which shows no shards: all requests pass unchanged"),
}

// Recognise asks every address what it is until one is an engine, and returns
// which one. Once the cluster is known one of another cluster is passed over, see [foreign]. If none is, the error tells the most that is known: a refusal says
// more than a stranger, a stranger more than silence.
func (p *Poller) Recognise(ctx context.Context) (*cluster.Identity, *url.URL, error) {
	var refused, stranger, silent error
	var other foreign
	if s := p.Snapshot(); s != nil {
		other.known = s.ClusterUUID
	}
	started := time.Now()
	for _, u := range p.endpoints.candidates(nil) {
		if time.Since(started) > longestPass && !has(p.endpoints.seeds, u) {
			continue
		}
		found, err := p.recogniseOne(ctx, u)
		if err == nil && (other.known == "" || found.ClusterUUID == other.known) {
			p.strangerSince.Store(nil)
			return found, u, nil
		}
		if err == nil {
			if other.found == nil {
				other.found, other.from = found, u
			}
			continue
		}
		switch stateOf(err) {
		case StateUnauthorized:
			refused = alsoFailed(refused, err)
		case StateNotAnEngine:
			stranger = alsoFailed(stranger, err)
		default:
			silent = alsoFailed(silent, err)
		}
	}
	failed := cmp.Or(refused, stranger, silent)
	if other.found != nil {
		return p.believe(&other, failed)
	}
	return nil, nil, cmp.Or(failed, errNoAddress)
}

// foreign is a cluster found behind the addresses of the one that is known: an address that was given to another one, a
// node that has lost its disk and begun a cluster of its own. Or the cluster was replaced.
type foreign struct {
	known string // uuid; empty: nothing is known
	found *cluster.Identity
	from  *url.URL
}

// believe returns the other cluster if the known one is gone: nothing that was asked failed to answer, or nothing of the
// known one has for [Options.PlacementMaxAge]. Until then it is an error: what merely does not answer for a moment must not
// lose its clients to what does.
func (p *Poller) believe(f *foreign, failed error) (*cluster.Identity, *url.URL, error) {
	p.strangerSince.CompareAndSwap(nil, new(time.Now()))
	if since := p.strangerSince.Load(); failed != nil && since != nil && time.Since(*since) < p.o.PlacementMaxAge {
		return nil, nil, fmt.Errorf("%s is of another cluster (%s, uuid %s), and none of the known one (uuid %s) answers: %w",
			f.from.Redacted(), f.found.ClusterName, f.found.ClusterUUID, f.known, failed)
	}
	p.o.Logger.Warn("another cluster is behind the addresses", "from", f.from.Redacted(), "name", f.found.ClusterName, "uuid", f.found.ClusterUUID, "before", f.known)
	p.strangerSince.Store(nil)
	p.newest.Store(nil) // it is of the one before
	return f.found, f.from, nil
}

func (p *Poller) recogniseOne(ctx context.Context, u *url.URL) (*cluster.Identity, error) {
	var found *cluster.Identity
	deadline := min(infoDeadline, p.o.PollTimeout)
	err := p.endpoints.askOne(ctx, u, Query{Kind: kindInfo, Deadline: deadline, Decode: func(r io.Reader) error {
		var err error
		found, err = parseInfo(r)
		return err
	}})
	if status, ok := errors.AsType[*httpError](err); ok && strange(status.code) {
		// Elasticsearch 8 serves `GET /` from a module that not every build has.
		var errNodes error
		if found, errNodes = p.recogniseByNodes(ctx, u, deadline); errNodes != nil {
			return nil, &stateError{state: StateNotAnEngine, err: fmt.Errorf("neither Elasticsearch nor OpenSearch: %w", err)}
		}
		return found, nil
	}
	if err == nil && !found.Engine.Serverless() && (found.ClusterUUID == "" || found.ClusterUUID == "_na_") {
		return nil, fmt.Errorf("node %s has not joined a cluster yet", u.Redacted())
	}
	return found, err
}

// strange tells an HTTP status that no engine gives to `GET /`.
func strange(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return false
	}
	return code < 500
}

// recogniseByNodes recognises Elasticsearch, of which alone nodes tell a build flavor.
func (p *Poller) recogniseByNodes(ctx context.Context, u *url.URL, deadline time.Duration) (*cluster.Identity, error) {
	var told struct {
		ClusterName string `json:"cluster_name"`
		Nodes       map[string]struct {
			Version     string `json:"version"`
			BuildFlavor string `json:"build_flavor"`
		} `json:"nodes"`
	}
	err := p.endpoints.askOne(ctx, u, Query{Kind: kindInfo, Path: selfPath, Deadline: deadline, Decode: DecodeJSON(&told)})
	if err != nil {
		return nil, err
	}
	for _, n := range told.Nodes {
		if n.BuildFlavor == "" {
			continue
		}
		e := cluster.Engine{Distribution: cluster.Elasticsearch, Version: n.Version, BuildFlavor: n.BuildFlavor}
		if err := readVersion(&e); err != nil {
			return nil, err
		}
		var state stateVersion
		if err := p.endpoints.askOne(ctx, u, Query{Kind: kindVersion, Path: versionPath(e), Deadline: deadline, Decode: DecodeJSON(&state)}); err != nil {
			return nil, err
		}
		if state.ClusterUUID == "" {
			return nil, errors.New("no uuid told")
		}
		return &cluster.Identity{Engine: e, ClusterName: told.ClusterName, ClusterUUID: state.ClusterUUID}, nil
	}
	return nil, errors.New("no build flavor told")
}

func parseInfo(r io.Reader) (*cluster.Identity, error) {
	var answer struct {
		ClusterName string `json:"cluster_name"`
		ClusterUUID string `json:"cluster_uuid"`
		Tagline     string `json:"tagline"`
		Version     struct {
			Distribution string `json:"distribution"`
			Number       string `json:"number"`
			BuildFlavor  string `json:"build_flavor"`
		} `json:"version"`
	}
	err := json.NewDecoder(r).Decode(&answer)
	if err != nil && (errors.Is(err, context.DeadlineExceeded) || isConnectionError(err) && !errors.Is(err, io.EOF)) {
		return nil, err // cut off on the way: says nothing about what is there
	}
	if err != nil {
		return nil, notAnEngine("neither Elasticsearch nor OpenSearch: the answer to GET / does not decode: %w", err)
	}
	v := answer.Version
	e := cluster.Engine{Distribution: v.Distribution, Version: v.Number, BuildFlavor: v.BuildFlavor}
	switch {
	case v.Distribution == cluster.OpenSearch:
	case v.Distribution == "" && answer.Tagline == "The OpenSearch Project: https://opensearch.org/":
		e.Distribution = cluster.OpenSearch // with the version of an Elasticsearch: compatibility.override_main_response_version
	case v.Distribution == "" && answer.Tagline == "You Know, for Search":
		e.Distribution = cluster.Elasticsearch
	default:
		return nil, notAnEngine("neither Elasticsearch nor OpenSearch: GET / answered distribution %q, tagline %q", v.Distribution, answer.Tagline)
	}
	if err := readVersion(&e); err != nil {
		return nil, err
	}
	return &cluster.Identity{Engine: e, ClusterName: answer.ClusterName, ClusterUUID: answer.ClusterUUID}, nil
}

// readVersion sets Major and Minor from Version.
func readVersion(e *cluster.Engine) error {
	major, rest, _ := strings.Cut(e.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var errMajor, errMinor error
	e.Major, errMajor = strconv.Atoi(major)
	e.Minor, errMinor = strconv.Atoi(minor)
	if errMajor != nil || errMinor != nil {
		return notAnEngine("%s has the unreadable version %q", e.Distribution, e.Version)
	}
	if e.Distribution == cluster.Elasticsearch && e.Major < 7 {
		return notAnEngine("elasticsearch %s is too old: 7.17 is the oldest that is known to work", e.Version)
	}
	return nil
}

func notAnEngine(format string, args ...any) error {
	return &stateError{state: StateNotAnEngine, err: fmt.Errorf(format, args...)}
}
