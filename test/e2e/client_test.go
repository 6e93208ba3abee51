package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// search is one request as a client sends it.
type search struct {
	method  string // default POST, GET without a body
	path    string // default: /{target}/_search, or /_search
	target  string
	query   string // URL query
	body    string
	headers map[string]string
}

func (s search) uri() string {
	path := s.path
	if path == "" {
		path = "/_search"
		if s.target != "" {
			path = "/" + s.target + path
		}
	}
	if s.query != "" {
		path += "?" + s.query
	}
	return path
}

func (s search) String() string {
	return fmt.Sprintf("%s %s %.300s", s.method, s.uri(), s.body)
}

// answer is what came back.
type answer struct {
	status   int
	header   http.Header
	body     []byte
	decision harness.Decision
}

var client = &http.Client{ // one connection pool for all tests
	Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true},
}

// send sends the request to base and reads the whole answer.
func send(ctx context.Context, base string, s search) (*answer, error) {
	return sendBy(ctx, client, base, s)
}

// sendBy is send with a client of one's own.
func sendBy(ctx context.Context, client *http.Client, base string, s search) (*answer, error) {
	if s.method == "" {
		s.method = http.MethodPost
		if s.body == "" {
			s.method = http.MethodGet
		}
	}
	req, err := http.NewRequestWithContext(ctx, s.method, base+s.uri(), strings.NewReader(s.body))
	if err != nil {
		return nil, err
	}
	if s.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Sidestep-Explain", "1")
	for key, value := range s.headers {
		req.Header.Set(key, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return &answer{res.StatusCode, res.Header, body, harness.ParseDecision(res.Header.Get(harness.DecisionHeader))}, nil
}

// through sends the request through sidestep, directly sends it to a node.
func through(t *testing.T, s search) *answer { return sendTo(t, shared.sidestep.URL, s) }

func directly(t *testing.T, s search) *answer {
	return sendTo(t, shared.Cluster.Nodes[0].DirectURL, s)
}

func sendTo(t *testing.T, base string, s search) *answer {
	t.Helper()
	a, err := send(t.Context(), base, s)
	require.NoError(t, err, s)
	return a
}

// stable is the answer's JSON without what differs from one run to the next.
func (a *answer) stable(t *testing.T) any {
	t.Helper()
	var content any
	require.NoError(t, json.Unmarshal(a.body, &content), "%s", a.body)
	return stable(content)
}

func stable(content any) any {
	switch content := content.(type) {
	case map[string]any:
		delete(content, "took")
		delete(content, "node") // in errors: who served may differ
		for key, value := range content {
			content[key] = stable(value)
		}
	case []any:
		for i, value := range content {
			content[i] = stable(value)
		}
	}
	return content
}

// requireSame requires that a client sees the same through sidestep as directly,
// and returns what came through sidestep.
func requireSame(t *testing.T, s search) *answer {
	t.Helper()
	got, want := through(t, s), directly(t, s)
	require.Equal(t, want.status, got.status, "%s\n%s", s, got.body)
	require.Equal(t, want.header.Get("Content-Type"), got.header.Get("Content-Type"), s)
	require.Equal(t, want.stable(t), got.stable(t), s)
	return got
}

// results is the part of an answer that tests look into.
type results struct {
	Hits struct {
		Total struct {
			Value int `json:"value"`
		} `json:"total"`
		Hits []struct {
			ID string `json:"_id"`
		} `json:"hits"`
	} `json:"hits"`
	Shards struct {
		Total  int `json:"total"`
		Failed int `json:"failed"`
	} `json:"_shards"`
	ScrollID string `json:"_scroll_id"`
	ES       string `json:"id"`     // of an opened point in time, Elasticsearch
	OS       string `json:"pit_id"` // the same, OpenSearch
}

func (a *answer) results(t *testing.T) (r results) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	require.NoError(t, json.Unmarshal(a.body, &r), "%s", a.body)
	return r
}

// queries returns how many shard queries each node has served, by its own count.
func queries(t *testing.T) map[string]int { return counts(t, "search", "query_total") }

// counts returns a counter of a section of each node's own statistics of indices.
func counts(t *testing.T, section, counter string) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for _, node := range shared.Cluster.Nodes {
		var stats struct {
			Nodes map[string]struct {
				Indices map[string]map[string]json.RawMessage `json:"indices"`
			} `json:"nodes"`
		}
		require.NoError(t, node.Do(t.Context(), http.MethodGet, "/_nodes/_local/stats/indices/"+section, nil, &stats))
		for _, n := range stats.Nodes {
			count, err := strconv.Atoi(string(n.Indices[section][counter]))
			require.NoError(t, err)
			counts[node.Name] = count
		}
	}
	return counts
}

// served returns the difference of two counts, without nodes that served nothing.
func served(before, after map[string]int) map[string]int {
	difference := make(map[string]int)
	for name, count := range after {
		if count != before[name] {
			difference[name] = count - before[name]
		}
	}
	return difference
}
