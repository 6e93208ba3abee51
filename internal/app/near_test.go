package app_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

var coordinatorTold = regexp.MustCompile(`coordinator=(\S+)`)

// throughWhom asks, and returns the name of the node that the request was sent through.
func (s *sidestep) throughWhom(request string) string {
	s.t.Helper()
	through, _ := s.answerThrough(request)
	return through
}

// answerThrough is throughWhom, with the answer.
func (s *sidestep) answerThrough(request string) (through, body string) {
	s.t.Helper()
	got, err := ask(s.t, s.client, request, "", "X-Sidestep-Explain", "1")
	require.NoError(s.t, err)
	require.Less(s.t, got.status, 500, got.body)
	told := coordinatorTold.FindStringSubmatch(got.header.Get("X-Sidestep-Decision"))
	require.NotNil(s.t, told, got.header)
	return told[1], got.body
}

// On 20 nodes, searches of one shard and reads by id through one sidestep are served by the node that they are sent to,
// whether there is a choice of copies or not: nothing travels between nodes in 99 of 100.
func TestWhatOneNodeCanAnswerGoesToThatNode(t *testing.T) {
	t.Parallel()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 20, ServiceTime: 5 * time.Millisecond, Sigma: -1, Adaptive: true, Seed: 1,
		Indices: []simcluster.IndexSpec{{Name: "one", Replicas: 1}, {Name: "alone"}, {Name: "many", Shards: 10, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	// A busy machine is late to answer polls: a node that does not answer them coordinates nothing.
	s := inFrontOf(t, c, func(cfg *config.Config) { cfg.Cluster.StatsTimeout = 10 * time.Second })
	searches := []string{"/one/_search?explain=true", "/alone/_search?explain=true", "/many/_search?routing=1&explain=true"}
	for _, path := range append([]string{"/one/_doc/1", "/alone/_doc/1", "/many/_doc/1"}, searches...) {
		s.eventually(func() bool { return s.reason(path) == "ranked" || s.reason(path) == "no_choice" }, path)
	}
	node := func(is func(*simcluster.Node) bool) *simcluster.Node {
		return c.Nodes()[slices.IndexFunc(c.Nodes(), is)]
	}
	const all = 100
	// A busy machine may make the HTTP side of a node slow for a while.
	mostly := func(near func(i int) bool, what string) {
		s.eventually(func() bool {
			count := 0
			for i := range all {
				if near(i) {
					count++
				}
			}
			t.Logf("%s: nothing travels between nodes in %d of %d", what, count, all)
			return count >= all*99/100
		}, what)
	}
	for _, path := range searches {
		mostly(func(int) bool {
			through, body := s.answerThrough("GET " + s.dataURL(path))
			serving := slices.Collect(maps.Values(servingNodes(t, body)))
			require.Len(t, serving, 1)
			return node(func(n *simcluster.Node) bool { return n.Name() == through }).ID() == serving[0]
		}, path)
	}
	for _, index := range []string{"one", "alone", "many"} {
		mostly(func(i int) bool {
			before := map[string]int64{}
			for _, n := range c.Nodes() {
				before[n.Name()] = n.Gets()
			}
			through := s.throughWhom(fmt.Sprintf("GET %s", s.dataURL(fmt.Sprintf("/%s/_doc/%d", index, i))))
			return node(func(n *simcluster.Node) bool { return n.Gets() > before[n.Name()] }).Name() == through
		}, index)
	}
}
