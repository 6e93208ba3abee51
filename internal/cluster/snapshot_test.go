package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodeRoles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		roles              []string
		data, coordinating bool
	}{
		{nil, true, true},
		{[]string{}, false, true},
		{[]string{"data"}, true, true},
		{[]string{"data_hot", "remote_cluster_client"}, true, true},
		{[]string{"search"}, true, true},
		{[]string{"master"}, false, false},
		{[]string{"cluster_manager", "ingest"}, false, true},
		{[]string{"master", "voting_only"}, false, false},
		{[]string{"ml", "remote_cluster_client"}, false, false},
		{[]string{"remote_cluster_client"}, false, true},
	}
	for _, tt := range tests {
		n := &Node{Roles: tt.roles}
		require.Equal(t, tt.data, n.Data(), tt.roles)
		require.Equal(t, tt.coordinating, n.Coordinating(), tt.roles)
	}
}

// indexOn makes an index whose shard i has a started copy on each node of copies[i],
// the first of them the primary.
func indexOn(name string, copies ...[]string) Index {
	index := Index{Name: name}
	for number, nodes := range copies {
		shard := Shard{Number: number}
		for i, node := range nodes {
			kind := byte('r')
			if i == 0 {
				kind = 'p'
			}
			shard.Copies = append(shard.Copies, Copy{Node: node, Kind: kind, State: Started})
		}
		index.Shards = append(index.Shards, shard)
	}
	return index
}

// servingIDs returns the ids of the nodes that serve each shard of a target.
func servingIDs(s *Snapshot, target, routing string) [][]string {
	plan, _ := s.Resolve(target, routing)
	if plan == nil {
		return nil
	}
	ids := make([][]string, len(plan.Shards))
	for i, positions := range plan.Shards {
		for _, at := range positions {
			ids[i] = append(ids[i], s.Nodes[at].ID)
		}
	}
	return ids
}
