package app_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
)

var coordinatorTold = regexp.MustCompile(`coordinator=(\S+)`)

// throughWhom asks, and returns the name of the node that the request was sent through.
func (s *sidestep) throughWhom(request string) string {
	s.t.Helper()
	got, err := ask(s.t, s.client, request, "", "X-Sidestep-Explain", "1")
	require.NoError(s.t, err)
	require.Less(s.t, got.status, 500, got.body)
	told := coordinatorTold.FindStringSubmatch(got.header.Get("X-Sidestep-Decision"))
	require.NotNil(s.t, told, got.header)
	return told[1]
}

// On 20 nodes, searches of one shard and reads by id go to a node that has the copy, whether there
// is a choice of copies or not: nothing travels between nodes.
func TestWhatOneNodeCanAnswerGoesToThatNode(t *testing.T) {
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 20, ServiceTime: time.Millisecond, Sigma: -1, Adaptive: true, Seed: 1,
		Indices: []simcluster.IndexSpec{{Name: "one", Replicas: 1}, {Name: "alone"}, {Name: "many", Shards: 10, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	s := inFrontOf(t, c, nil)
	names := map[string]string{}
	for _, n := range c.Nodes() {
		names[n.ID()] = n.Name()
	}
	for _, path := range []string{"/one/_search", "/alone/_search", "/many/_search?routing=1", "/one/_doc/1", "/alone/_doc/1", "/many/_doc/1"} {
		s.eventually(func() bool { return s.reason(path) == "ranked" || s.reason(path) == "no_choice" }, path)
	}
	const all = 100
	for _, path := range []string{"/one/_search", "/alone/_search"} {
		var serving map[string]bool
		s.eventually(func() bool { // which copies there are
			serving = map[string]bool{}
			for range 20 {
				for _, id := range s.servedBy(path + "?explain=true") {
					serving[names[id]] = true
				}
			}
			return len(serving) > 0
		}, path)
		for range all {
			require.Contains(t, serving, s.throughWhom("GET "+s.dataURL(path)), path)
		}
	}
	for _, index := range []string{"one", "alone", "many"} {
		near := 0
		for i := range all {
			before := map[string]int64{}
			for _, n := range c.Nodes() {
				before[n.Name()] = n.Gets()
			}
			through := s.throughWhom(fmt.Sprintf("GET %s", s.dataURL(fmt.Sprintf("/%s/_doc/%d", index, i))))
			for _, n := range c.Nodes() {
				if n.Gets() > before[n.Name()] && n.Name() == through {
					near++
				}
			}
		}
		require.GreaterOrEqual(t, near, all*99/100, index)
	}
}
