package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

// contender is one way to send the searches.
type contender struct {
	name    string
	targets []string
	result  loadgen.Result
}

// table prints the results of contenders.
func (s *Stage) table(t *testing.T, contenders ...*contender) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tsearches\tp50\tp90\tp99\tmax\tfailed\tpartial\t")
	for _, c := range contenders {
		r := &c.result
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t\n", c.name, r.Sent,
			ms(r.Quantile(0.5)), ms(r.Quantile(0.9)), ms(r.Quantile(0.99)), ms(r.Quantile(1)), r.Failed, r.Partial)
	}
	require.NoError(t, w.Flush())
	t.Logf("%s, %d nodes, %.0f searches/s:\n%s", s.Cluster.Distribution, len(s.Cluster.Nodes), shared.rate, text.String())
	for _, c := range contenders {
		if len(c.result.FirstErrors) > 0 {
			t.Logf("first errors of %s: %s", c.name, strings.Join(c.result.FirstErrors, "\n  "))
		}
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", harness.Milliseconds(d)) }

// measure lets the contenders take turns, so that noise of the machine hits all
// alike.
func measure(ctx context.Context, t *testing.T, rounds int, slice time.Duration, contenders ...*contender) {
	t.Helper()
	sent := 0
	for range rounds {
		for _, c := range contenders {
			result, err := loadgen.Run(ctx, load(c.targets, slice, sent))
			require.NoError(t, err)
			sent += int(result.Sent)
			c.result.Merge(result)
		}
	}
}

// trials is how often a test about times is tried at most, or one that wants all other nodes
// well. Ten slow searches decide
// a 99th percentile, and a machine that stands still for a second makes eighty; that
// does not come three times in a row, a defect does.
const trials = 3

// A node whose connections to the others are slow costs the engine's own selection its 99th
// percentile, as long as every node coordinates searches. What sidestep exists for is that it
// does not: it is found out by sidestep's own searches, and nobody else is blamed. Then no search
// goes through it, hardly one names it, for a shard with its other copy on a silent node, and none
// is lost on the way there.
func TestSlowTransport(t *testing.T) {
	ctx := t.Context()
	s := onStage(t)
	slow := s.Cluster.Nodes[2]
	load := StartLoad(ctx, shared.rate, s.Sidestep.URL)
	end := func() {
		result, err := load.End()
		require.NoError(t, err)
		require.Zero(t, result.Failed, "failed searches: %v", result.FirstErrors)
		require.Zero(t, result.Partial, "partial answers")
	}
	t.Cleanup(func() { require.NoError(t, slow.ResetToxics(context.Background())) })
	time.Sleep(within(5*time.Second, time.Second)) // of searches while all is well
	s.requireAloneBlamed(ctx, t, slow)
	s.requireAvoided(ctx, t, slow)
	if *timed {
		end()
		s.requireFaster(ctx, t)
		load = StartLoad(ctx, shared.rate, s.Sidestep.URL)
	}
	require.NoError(t, slow.ResetToxics(ctx))
	s.awaitRecovery(ctx, t)
	end()
}

// requireAvoided requires that no search goes through a node that is slow, and hardly one to it.
func (s *Stage) requireAvoided(ctx context.Context, t *testing.T, slow *harness.Node) {
	t.Helper()
	named := 0
	for i := range 100 {
		decision := s.decide(ctx, t, i)
		require.NotEqual(t, slow.Name, decision.Coordinator, "search %d goes through the slow node: %+v", i, decision)
		if slices.Contains(decision.Nodes, slow.Name) {
			named++
			require.Less(t, len(decision.Nodes), len(s.Cluster.Nodes), "search %d names the slow node, and leaves out no other: %+v", i, decision)
		}
	}
	t.Logf("%d of 100 searches named the slow node, the other copy being silent", named)
	require.LessOrEqual(t, named, 5, "of 100 searches that name the slow node")
}

// decide sends a search through sidestep and returns what it says that it did. The answer
// must be whole.
func (s *Stage) decide(ctx context.Context, t *testing.T, number int) harness.Decision {
	t.Helper()
	r := harness.Search(Index, number).WithContext(ctx)
	r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(s.Sidestep.URL, "http://")
	r.Header.Set("X-Sidestep-Explain", "1")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	var answer struct {
		Shards struct{ Total, Successful int } `json:"_shards"`
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	require.Equal(t, answer.Shards.Total, answer.Shards.Successful, "the answer is partial")
	return harness.ParseDecision(res.Header.Get(harness.DecisionHeader))
}

// requireFaster requires that the 99th percentile through sidestep is a fraction of the
// engine's own, while a node is slow, in one of some trials.
func (s *Stage) requireFaster(ctx context.Context, t *testing.T) {
	t.Helper()
	const limit = 0.3
	ratio := 0.0
	for trial := range trials {
		engine := &contender{name: "engine, round robin", targets: s.Cluster.URLs()}
		sidestep := &contender{name: "sidestep", targets: []string{s.Sidestep.URL}}
		measure(ctx, t, 3, 7*time.Second, sidestep, engine)
		s.table(t, engine, sidestep)
		require.Zero(t, sidestep.result.Failed, "failed searches")
		require.Zero(t, sidestep.result.Partial, "partial answers")
		ratio = float64(sidestep.result.Quantile(0.99)) / float64(engine.result.Quantile(0.99))
		t.Logf("trial %d of %d: p99 through sidestep is %.2f × the engine's", trial+1, trials, ratio)
		if ratio <= limit {
			return
		}
	}
	require.LessOrEqual(t, ratio, limit, "p99 through sidestep / p99 of the engine's own selection")
}
