package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

func TestSkew(t *testing.T) {
	require.Zero(t, skew(nil))
	require.Zero(t, skew([]float64{0, 0}))
	require.Equal(t, 1.0, skew([]float64{5, 5, 5}))
	require.Equal(t, 1.5, skew([]float64{0, 0, 3, 3, 3, 3}), "two of six shards are avoided from the beginning on")
}

func TestPerBulk(t *testing.T) {
	require.Zero(t, perBulk(10, 0))
	require.Equal(t, 6.0, perBulk(600, 100))
}

func TestLayouts(t *testing.T) {
	names := []string{"slow", "a", "b"}
	for _, r := range []role{holdsPrimaries, holdsReplicas, holdsBoth} {
		l := newLayout(r, names)
		copies, held := map[string]int{}, map[string]int{}
		for shard := range shards {
			require.NotEqual(t, l.primary[shard], l.replica[shard])
			copies[l.primary[shard]]++
			copies[l.replica[shard]]++
			if l.primary[shard] == "slow" {
				held["p"]++
			}
			if l.replica[shard] == "slow" {
				held["r"]++
			}
		}
		switch r {
		case holdsPrimaries:
			require.Equal(t, map[string]int{"p": affected}, held)
		case holdsReplicas:
			require.Equal(t, map[string]int{"r": affected}, held)
		default:
			require.Equal(t, map[string]int{"p": 2, "r": 2}, held)
		}
		require.Equal(t, copies["a"], copies["b"])
	}
	require.Equal(t, "a: 0p 2p 3r 4p 5r, b: 1p 2r 3p 4r 5p, slow: 0r 1r", newLayout(holdsReplicas, names).String())

	primaries, replicas := newLayout(holdsReplicas, names).commands("x")
	require.Len(t, primaries, shards)
	require.Equal(t, map[string]any{"allocate_empty_primary": map[string]any{"index": "x", "shard": 1, "node": "b", "accept_data_loss": true}}, primaries[1])
	require.Equal(t, map[string]any{"allocate_replica": map[string]any{"index": "x", "shard": 1, "node": "slow"}}, replicas[1])
}

func TestSwapped(t *testing.T) {
	names := []string{"slow", "a", "b"}
	primaries, replicas, both := newLayout(holdsPrimaries, names), newLayout(holdsReplicas, names), newLayout(holdsBoth, names)
	require.Equal(t, []int{0, 1}, primaries.swapped(replicas))
	require.Equal(t, []int{0, 1}, replicas.swapped(primaries))
	require.Equal(t, []int{}, primaries.swapped(primaries), "it is laid out so")
	require.Nil(t, both.swapped(primaries))
	require.Nil(t, layout{}.swapped(primaries))
}

func TestChooseCases(t *testing.T) {
	all, err := chooseScenarios("")
	require.NoError(t, err)
	require.Len(t, all, len(scenarioNames()))
	for i, sc := range all {
		require.Equal(t, sc.begin == nil, sc.repair == nil, sc.name)
		require.Equal(t, sc.begin == nil, sc.role == holdsBoth, sc.name)
		require.True(t, i == 0 || sc.begin != nil, "the others share their indices")
	}
	some, err := chooseScenarios("replica-cpu,healthy")
	require.NoError(t, err)
	require.Equal(t, "healthy", some[0].name)
	_, err = chooseScenarios("nine")
	require.ErrorContains(t, err, `no case "nine"`)
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-engine", "elasticsearch", "-rounds", "2", "-out", "x", "-seed", "7"})
	require.NoError(t, err)
	require.Equal(t, harness.DefaultVersion(harness.Elasticsearch), o.Version)
	require.Equal(t, "bin/bulk -engine elasticsearch -rounds 2 -seed 7", o.command)
	for _, bad := range [][]string{{"-engine", "solr"}, {"-rounds", "0"}, {"-turn", "0s"}, {"-cases", "x"}, {"more"}} {
		_, err := parse(bad)
		require.Error(t, err, bad)
	}
}

func TestChoosesShards(t *testing.T) {
	for version, want := range map[string]bool{"3.6.0": true, "3.5.0": true, "4.0.0": true, "3.4.0": false, "2.19.6": false, "x": false} {
		require.Equal(t, want, choosesShards(version), version)
	}
}

func TestBodies(t *testing.T) {
	bodies := newBodies(200)
	require.Len(t, bodies, distinct)
	lines := bytes.Count(bodies[0], []byte("\n"))
	require.Equal(t, 400, lines)
	require.InDelta(t, 300, len(bodies[0])/200, 40)
	require.NotEqual(t, bodies[0], bodies[1])
	require.Equal(t, bodies[0], newBodies(200)[0])
}

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestClerk(t *testing.T) {
	for body, want := range map[string][3]int64{
		`{"took":3,"errors":false,"items":[]}`: {200, 0, 0},
		`{"took":3,"errors":true,"items":[{"index":{"status":201}},{"index":{"status":429}},{"create":{"status":400}},{"index":{"status":201}}]}`: {2, 1, 1},
		`not JSON`: {0, 0, 200},
	} {
		c := &clerk{documents: 200, base: answers(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
		})}
		res, err := c.RoundTrip(bulkOf("x", []byte("{}")))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, [3]int64{c.stored.Load(), c.rejected.Load(), c.failed.Load()}, body)
	}
	c := &clerk{documents: 200, base: answers(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Body: io.NopCloser(strings.NewReader("full"))}, nil
	})}
	res, err := c.RoundTrip(bulkOf("x", []byte("{}")))
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "full", string(text), "the load generator tells it")
	require.Zero(t, c.stored.Load()+c.rejected.Load()+c.failed.Load())
}

// newTally makes the turns of an arm, in virtual time: so many documents/s, bulks that
// take so long.
func newTally(t *testing.T, arm string, requests, perSecond float64, took time.Duration) *tally {
	t.Helper()
	one := &tally{arm: arm, began: []float64{9, 9}, ended: []float64{10, 10}, added: 2}
	synctest.Test(t, func(t *testing.T) {
		result, err := loadgen.Run(t.Context(), loadgen.Options{
			Targets: []string{"http://127.0.0.1:1"}, Connections: 1, Duration: 3 * time.Second,
			Transport: answers(func(*http.Request) (*http.Response, error) {
				time.Sleep(took)
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}),
		})
		require.NoError(t, err)
		for i := range 3 {
			slower := 1 + 0.01*float64(i)
			one.turns = append(one.turns, turn{
				perSecond: perSecond / slower, result: result, p50: took, requests: requests, counted: true,
				p99: time.Duration(float64(took) * slower),
			})
		}
	})
	return one
}

func TestReport(t *testing.T) {
	chosen := scenarios()
	well := &outcome{scenario: chosen[0], layout: newLayout(holdsBoth, []string{"n1", "n2", "n3"}), arms: []*tally{
		newTally(t, armDirect, 6, 1000, 20*time.Millisecond), newTally(t, armEven, 1, 1100, 20*time.Millisecond),
		newTally(t, armAware, 1, 930, 20*time.Millisecond), newTally(t, armControl, 6, 920, 20*time.Millisecond),
	}}
	replica := chosen[len(chosen)-1]
	require.Equal(t, holdsReplicas, replica.role)
	bad := &outcome{scenario: replica, slow: "n1", layout: newLayout(holdsReplicas, []string{"n1", "n2", "n3"}), arms: []*tally{
		newTally(t, armDirect, 6, 100, 200*time.Millisecond), newTally(t, armEngine, 1, 300, 180*time.Millisecond),
		newTally(t, armEven, 1, 200, 200*time.Millisecond), newTally(t, armAware, 1, 400, 150*time.Millisecond),
		newTally(t, armControl, 6, 100, 200*time.Millisecond),
	}, notes: []string{"odd"}}
	bad.of(armAware).choices = map[bulk.Choice]float64{bulk.ChoiceAvoided: 7}
	r := &report{options: options{Measured: harness.Measured{Engine: harness.OpenSearch, Version: "3.6.0"}, rounds: 3, command: "bin/bulk"}, outcomes: []*outcome{well, bad}}
	lines := r.verdicts()
	require.Len(t, lines, 6)
	for i, want := range []string{
		"healthy: held: 1.0 shard requests per bulk of aware, fewer than 6.0 of direct",
		"healthy: held: documents/s of aware to direct 0.93 ", // less than 0.95, but so is the control
		"replica-transport: held: documents/s of aware to direct 4.00 ",
		"replica-transport: missed: p99 of aware to direct 0.75 ",
		"replica-transport: held: documents/s of aware to engine 1.33 ",
		"replica-transport: held: p99 of aware to engine 0.83 ",
	} {
		require.True(t, strings.HasPrefix(lines[i], want), lines[i])
	}
	text := r.markdown()
	for _, want := range []string{"| direct | 99 |  | 200 |", "| aware | 396 | 4.00 [", "avoided 7", "- note: odd", "| 18 | 2 | 1.00 | 1.00 |", "n1 is degraded"} {
		require.Contains(t, text, want)
	}
	path := filepath.Join(t.TempDir(), "new", "a.svg")
	require.NoError(t, r.draw(path))
	drawn, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(drawn), "replica-transport")
}

func TestFewer(t *testing.T) {
	require.True(t, fewer(1, 6).Holds)
	require.False(t, fewer(0, 6).Holds, "nothing was measured")
	require.False(t, fewer(6, 6).Holds)
}
