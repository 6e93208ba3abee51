package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/internal/diagnosis"
	simcluster "sidestep/internal/sim/cluster"
	loadgen "sidestep/internal/sim/load"
)

// TestSpikesNameTheirNodeAndCause gives one of five simulated nodes trouble of every
// kind, under load, and expects a record of it that names the node and the cause.
func TestSpikesNameTheirNodeAndCause(t *testing.T) {
	for name, tc := range map[string]struct {
		fault simcluster.Fault
		// lasts is how long the node stays so, until the record names the cause if zero.
		lasts time.Duration
		cause diagnosis.Cause
	}{
		"slow transport": {simcluster.Fault{Extra: 250 * time.Millisecond}, 0, diagnosis.CauseTransport},
		"silent HTTP":    {simcluster.Fault{Hang: true}, 0, diagnosis.CauseHTTP},
		"pause":          {simcluster.Fault{Pause: true}, 2 * time.Second, diagnosis.CausePause},
		"collection":     {simcluster.Fault{Pause: true, Collecting: true}, 2 * time.Second, diagnosis.CauseGC},
		"CPU quota":      {simcluster.Fault{Factor: 100, Throttled: true}, 0, diagnosis.CauseCPU},
		"merge":          {simcluster.Fault{Factor: 100, Merging: true}, 0, diagnosis.CauseMerge},
		"fetches":        {simcluster.Fault{Factor: 100, Fetching: 0.95}, 0, diagnosis.CauseFetch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // mostly it waits
			c, s := patientlyInFrontOfFive(t)
			victim := c.Nodes()[2]
			enough := keepSearching(t, s, 40)
			// A reading of each node, to compare with.
			require.Eventually(t, func() bool { return s.counter("sidestep_spike_baselines_total", "ok") >= 5 }, patience, 100*time.Millisecond)
			var began time.Time
			inject := func() {
				victim.SetFault(tc.fault)
				began = time.Now()
				if tc.lasts > 0 {
					over := time.AfterFunc(tc.lasts, func() { victim.SetFault(simcluster.Fault{}) })
					t.Cleanup(func() { over.Stop() })
				}
			}
			inject()
			var found diagnosis.Spike
			named := func() bool {
				for _, spike := range s.spikes() {
					if spike.Node == victim.Name() && spike.Cause == tc.cause {
						found = spike
						return true
					}
				}
				// What is over in a moment in which the whole machine stood still is no
				// node's own trouble: it comes again.
				if tc.lasts > 0 && time.Since(began) > 6*tc.lasts {
					inject()
				}
				return false
			}
			if !assert.Eventually(t, named, patience, 100*time.Millisecond) {
				for _, spike := range s.spikes() {
					t.Log(s.get(s.adminURL("/spikes/" + spike.ID)).body)
				}
				t.FailNow()
			}
			victim.SetFault(simcluster.Fault{})
			enough()
			record := s.spike(found.ID)
			require.NotEmpty(t, record.Evidence)
			require.Len(t, record.Samples.Nodes, 2)
			t.Log(record.Summary)
		})
	}
}

// patientlyInFrontOfFive is inFrontOfFive with the timeouts of a real cluster: a machine
// that is slow for a moment is to be no spike.
func patientlyInFrontOfFive(t *testing.T) (*simcluster.Cluster, *sidestep) {
	t.Helper()
	c := fiveNodes(t)
	cfg := settings(c.URLs()...)
	cfg.Upstream.Discovery = "sniff"
	cfg.Cluster.StatsInterval = 100 * time.Millisecond
	return c, startReady(t, cfg, nil)
}

// keepSearching searches in the background until the function that it returns is
// called: no search may have failed.
func keepSearching(t *testing.T, s *sidestep, rate float64) (enough func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *loadgen.Result, 1)
	go func() {
		result, err := loadgen.Run(ctx, itemsLoad(s, "/items/_search", rate, 10*time.Minute))
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		done <- result
	}()
	return func() {
		cancel()
		if result := <-done; result != nil {
			require.Zero(t, result.Failed, "%v", result.FirstErrors)
		}
	}
}

// spikes reads the list of records.
func (s *sidestep) spikes() []diagnosis.Spike {
	s.t.Helper()
	page := s.get(s.adminURL("/spikes"))
	require.Equal(s.t, http.StatusOK, page.status)
	var list diagnosis.Spikes
	require.NoError(s.t, json.Unmarshal([]byte(page.body), &list))
	return list.Spikes
}

// spike reads one record and its folded stacks.
func (s *sidestep) spike(id string) diagnosis.Record {
	s.t.Helper()
	page := s.get(s.adminURL("/spikes/" + id))
	require.Equal(s.t, http.StatusOK, page.status)
	var record diagnosis.Record
	require.NoError(s.t, json.Unmarshal([]byte(page.body), &record))
	folded := s.get(s.adminURL("/spikes/" + id + "/folded"))
	require.Equal(s.t, http.StatusOK, folded.status)
	for line := range strings.Lines(folded.body) {
		require.Regexp(s.t, `^[^;]+(;[^;]+)+ \d+\n$`, line)
	}
	return record
}

// A reload that replaces everything behind the listeners keeps history and records.
func TestReloadKeepsRecords(t *testing.T) {
	c := fiveNodes(t)
	cfg := settings(c.URLs()...)
	cfg.Upstream.Discovery = "sniff"
	s := startReady(t, cfg, nil)
	c.Nodes()[2].SetFault(simcluster.Fault{Refuse: true})
	require.Eventually(t, func() bool { return len(s.spikes()) == 1 }, patience, 20*time.Millisecond)
	before := s.spikes()[0]
	require.Equal(t, "node-3", before.Node)
	c.Nodes()[2].SetFault(simcluster.Fault{})
	cfg.Cluster.StatsInterval = 30 * time.Millisecond
	require.NoError(t, s.Reload(cfg))
	s.awaitReady()
	require.Equal(t, before.ID, s.spikes()[0].ID)
	require.Equal(t, before.ID, s.spike(before.ID).ID)

	cfg.Diagnosis.Enabled = false
	require.ErrorContains(t, s.Reload(cfg), "diagnosis: cannot change while running")
}
