package app_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
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

// copiesOf returns the names of the nodes with a copy of an index of one shard.
func (s *sidestep) copiesOf(index string) (nodes []string) {
	s.t.Helper()
	var told struct {
		Shards []struct{ Copies []struct{ Node string } }
	}
	require.NoError(s.t, json.Unmarshal([]byte(s.get(s.adminURL("/explain?target="+index)).body), &told))
	require.Len(s.t, told.Shards, 1)
	for _, c := range told.Shards[0].Copies {
		nodes = append(nodes, c.Node)
	}
	require.NotEmpty(s.t, nodes)
	return nodes
}

// On 20 nodes, searches of one shard and reads by id go to a node that has the copy, whether there
// is a choice of copies or not: nothing travels between nodes.
func TestWhatOneNodeCanAnswerGoesToThatNode(t *testing.T) {
	t.Parallel()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 20, ServiceTime: 5 * time.Millisecond, Sigma: -1, Adaptive: true, Seed: 1,
		Indices: []simcluster.IndexSpec{{Name: "one", Replicas: 1}, {Name: "alone"}, {Name: "many", Shards: 10, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	s := inFrontOf(t, c, nil)
	for _, path := range []string{"/one/_search", "/alone/_search", "/many/_search?routing=1", "/one/_doc/1", "/alone/_doc/1", "/many/_doc/1"} {
		s.eventually(func() bool { return s.reason(path) == "ranked" || s.reason(path) == "no_choice" }, path)
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
			return count >= all*99/100
		}, what)
	}
	for _, path := range []string{"/one/_search", "/alone/_search"} {
		serving := s.copiesOf(strings.Split(path, "/")[1])
		require.LessOrEqual(t, len(serving), 2, path)
		mostly(func(int) bool { return slices.Contains(serving, s.throughWhom("GET "+s.dataURL(path))) }, path)
	}
	for _, index := range []string{"one", "alone", "many"} {
		mostly(func(i int) bool {
			before := map[string]int64{}
			for _, n := range c.Nodes() {
				before[n.Name()] = n.Gets()
			}
			through := s.throughWhom(fmt.Sprintf("GET %s", s.dataURL(fmt.Sprintf("/%s/_doc/%d", index, i))))
			return slices.ContainsFunc(c.Nodes(), func(n *simcluster.Node) bool {
				return n.Name() == through && n.Gets() > before[n.Name()]
			})
		}, index)
	}
}
