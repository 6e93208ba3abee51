package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// eastern is a sidestep in the zone east.
func eastern(cfg *config.Config) {
	cfg.Routing.Zone = config.Zone{Attribute: "zone", Local: "east", Factor: 1.5}
}

// shares loads s for a while and returns each node's share of the shard queries.
func shares(t *testing.T, c *simcluster.Cluster, s *sidestep) []float64 {
	t.Helper()
	before := searches(c)
	found := load(t, s, 25, time.Second)
	require.Zero(t, found.Failed, "%v", found.FirstErrors)
	after := searches(c)
	out := make([]float64, len(after))
	for i := range after {
		out[i] = float64(after[i]-before[i]) / float64(sum(after)-sum(before))
	}
	return out
}

func TestReadsStayInTheZoneWhileItsCopiesAreWell(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFour(t, eastern)
	west := func() float64 { all := shares(t, c, s); return all[1] + all[3] }
	s.eventually(func() bool { return west() < 0.05 }, "reads stay in the zone")

	c.Nodes()[0].SetFault(simcluster.Fault{Factor: 10})
	// Of the other node of the zone not half as before: the list is one for all shards, so the
	// western copies of its shards are on it, too.
	s.eventually(func() bool { all := shares(t, c, s); return all[0] < 0.1 && all[1]+all[3] > 0.25 && all[2] > 0.2 },
		"reads leave the zone where its copy is ten times slower, and there alone")

	c.Nodes()[0].SetFault(simcluster.Fault{})
	s.eventually(func() bool { return west() < 0.05 }, "reads are back")
}

func TestReadsLeaveAZoneThatIsGone(t *testing.T) {
	t.Parallel()
	c, s := inFrontOfFour(t, eastern)
	c.Nodes()[0].Kill()
	c.Nodes()[2].Kill()
	s.eventually(func() bool {
		got := s.get(s.dataURL("/one/_search?explain=true&size=1"))
		return got.status == 200
	}, "searches are served")
	all := shares(t, c, s)
	require.InDelta(t, 1, all[1]+all[3], 0.001)
	s.eventually(func() bool { return strings.Contains(s.log.String(), "no node is in sidestep's own zone") }, "it is told")
}
