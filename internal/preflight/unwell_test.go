package preflight_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/preflight"
	simcluster "sidestep/internal/sim/cluster"
)

// A node that is too busy answers nothing in time, which is one finding and not one of each kind.
func TestABusyNodeIsOneFinding(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2}).discover()
	s.options.Static = true
	s.instead = func(path string) (int, string) {
		if path == "/" {
			return 0, ""
		}
		return http.StatusTooManyRequests, `{"error":{"type":"circuit_breaking_exception"},"status":429}`
	}
	report := s.run()
	f := s.finding(report, `^requests of the kinds members, \w+, \w+, \w+, \w+ and 7 more were not answered as expected: status 429 Too Many Requests$`)
	require.Equal(t, preflight.Note, f.Level)
	require.Equal(t, 1, strings.Count(strings.Join(lines(report), "\n"), "not answered as expected"))
}

// A replica that is to be assigned is not missing for want of index.number_of_replicas.
func TestReplicasThatAreNotAssigned(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 1, Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}, {Name: "lone", Shards: 2}}}).discover()
	report := s.run()
	require.Equal(t, preflight.Note, s.finding(report, `^2 indices, 4 shards, of which 2 \(50 %\) have replicas and only one copy that serves`).Level)
	require.Equal(t, preflight.Note, s.finding(report, `^2 indices, 4 shards, of which 2 \(50 %\) have one copy only$`).Level)
}
