package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
)

// A pipeline that runs probes: a node that failed searches is asked how it is
// without any client.
func TestProbesAreSent(t *testing.T) {
	simulated, err := simcluster.Start(simcluster.Options{
		Nodes: 3, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 3, Replicas: 2}},
	})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	cfg := settings(simulated.URLs()...)
	cfg.Upstream.Discovery = "sniff"
	cfg.Routing.When = "always"
	s := startReady(t, cfg, nil)
	simulated.Nodes()[1].SetFault(simcluster.Fault{FailFast: http.StatusServiceUnavailable})
	require.Eventually(t, func() bool {
		s.get(s.dataURL("/logs/_search"))
		return s.probes("failed") > 0
	}, patience, 5*time.Millisecond)
	simulated.Nodes()[1].SetFault(simcluster.Fault{})
	require.Eventually(t, func() bool { return s.probes("answered") > 0 }, patience, 5*time.Millisecond)
}

// probes returns how many probes ended so.
func (s *sidestep) probes(result string) float64 { return s.counter("sidestep_probes_total", result) }

// counter returns the value of the series whose first label has the value given.
func (s *sidestep) counter(name, label string) (n float64) {
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == label {
				n = m.GetCounter().GetValue()
			}
		}
	}
	return n
}
