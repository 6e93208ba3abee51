package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	loadgen "sidestep/internal/sim/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// short is a demo of a few seconds.
func short(out io.Writer) Options {
	return Options{
		Out: out, Duration: 2 * time.Second, Rounds: 1, LeadIn: 300 * time.Millisecond,
		WarmUp: 600 * time.Millisecond, Rate: 60,
	}
}

func TestDemoOnTheSimulatedCluster(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), short(&out)), "%s", &out)
	text := out.String()
	require.Contains(t, text, "A cluster of 5 nodes; node-3 is slow.\n")
	require.Regexp(t, `round 1/1 +sidestep +p50 .* ms +p99 .* ms +0s left\n`, text)
	require.Regexp(t, `case +searches/s +p50 +p90 +p99 +failures +share of node-3\n`, text)
	for _, name := range []string{"round robin", "engine's own selection", "sidestep"} {
		row := regexp.MustCompile(`(?m)^ *` + name + ` +[0-9.]+( +[0-9.]+ ms){3} +0 +[0-9.]+ %$`)
		require.Regexp(t, row, text)
	}
	require.Regexp(t, `p99 through sidestep is [0-9.]+ ms: [0-9.]+ × the engine's own selection, [0-9.]+ × round robin.\n$`, text)
	require.NotContains(t, text, "\x1b", "no terminal is needed")
}

func TestDemoEndsWhenCancelled(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		var closed atomic.Int64
		c, err := startSimulated(short(nil).withDefaults().Logger)
		require.NoError(t, err)
		o := short(nil)
		o.Cluster = closing{c, &closed}
		err = Run(ctx, o)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, closed.Load())
	}
}

// closing counts how often a cluster is closed.
type closing struct {
	Cluster
	count *atomic.Int64
}

func (c closing) Close() error {
	c.count.Add(1)
	return c.Cluster.Close()
}

// fake is a cluster of one server that counts queries and answers as told.
type fake struct {
	url      string
	adaptive atomic.Bool
}

func (f *fake) URLs() []string              { return []string{f.url} }
func (f *fake) SlowNode() (id, name string) { return "b", "node-b" }
func (f *fake) Close() error                { return nil }
func (f *fake) SetAdaptive(_ context.Context, on bool) error {
	f.adaptive.Store(on)
	return nil
}

func startFake(t *testing.T, search string) *fake {
	t.Helper()
	var queries atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_search") {
			queries.Add(1)
			_, _ = io.WriteString(w, search)
			return
		}
		total := queries.Load()
		node := func(n int64) any {
			return map[string]any{"indices": map[string]any{"search": map[string]any{"query_total": n}}}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"nodes": map[string]any{"a": node(3 * total), "b": node(total)}})
	}))
	t.Cleanup(s.Close)
	return &fake{url: s.URL}
}

const (
	complete = `{"took":1,"timed_out":false,"_shards":{"total":2,"successful":2,"skipped":0,"failed":0}}`
	partial  = `{"took":1,"timed_out":false,"_shards":{"total":2,"successful":1,"skipped":0,"failed":1}}`
)

// compare runs the comparison alone, with the cluster itself in the place of
// sidestep.
func compare(t *testing.T, c Cluster) (*comparison, string, error) {
	t.Helper()
	var out bytes.Buffer
	o := short(&out).withDefaults()
	o.Duration, o.LeadIn, o.WarmUp = 200*time.Millisecond, 50*time.Millisecond, 60*time.Millisecond
	cmp := newComparison(c, c.URLs()[0], o)
	defer cmp.close()
	require.NoError(t, cmp.run(t.Context()))
	err := cmp.report()
	return cmp, out.String(), err
}

func TestSharesComeFromTheNodesCounters(t *testing.T) {
	c := startFake(t, complete)
	cmp, text, err := compare(t, c)
	require.NoError(t, err)
	require.True(t, c.adaptive.Load())
	for _, k := range cmp.contenders {
		require.EqualValues(t, 12, k.result.OK)
		require.Equal(t, map[string]int64{"a": 36, "b": 12}, k.queries, k.name)
		require.InDelta(t, 0.25, k.share("b"), 1e-9)
	}
	require.Equal(t, 3, strings.Count(text, "25.0 %"))
}

func TestLostSearchesAreAnError(t *testing.T) {
	k := &contender{name: "sidestep"}
	k.take(&loadgen.Result{Sent: 3, OK: 1, Partial: 1, Failed: 1, FirstErrors: []string{"status 500"}}, nil, nil)
	var out bytes.Buffer
	c := &comparison{Options: Options{Out: &out}, cluster: &fake{}}
	c.contenders = []*contender{{name: "round robin"}, {name: "engine"}, k}
	err := c.report()
	require.ErrorIs(t, err, ErrFailures)
	require.EqualError(t, err, "searches through sidestep failed: 2 of 3")
	require.Contains(t, out.String(), "Failures of sidestep, the first: status 500")
	require.Zero(t, k.share("b"))
}

func TestNoAnswersAtAllBreakTheDemo(t *testing.T) {
	c := startFake(t, partial)
	o := short(nil).withDefaults()
	cmp := newComparison(c, c.URLs()[0], o)
	defer cmp.close()
	require.ErrorContains(t, cmp.run(t.Context()), "load for round robin: no search succeeded")
}

func TestNoCountersBreakTheDemo(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	cmp := newComparison(&fake{url: s.URL}, s.URL, short(nil).withDefaults())
	defer cmp.close()
	_, err := cmp.counters(t.Context())
	require.ErrorContains(t, err, "status 404")
}
