package main

import (
	"strconv"
	"strings"
	"time"

	"sidestep/test/harness"
)

// shape says which nodes a cluster has. The zero value is the usual one: five nodes of all
// roles.
type shape struct {
	name     string // part of the names of its logs; empty: the usual shape
	data     int    // nodes that hold copies, the first ones; 0: five
	managers int    // dedicated managers, the last ones; 0: every node may be elected
}

func threeNodes() shape { return shape{name: "three", data: 3} }
func managed() shape    { return shape{name: "managers", data: 3, managers: 3} }

// usualNodes is how many nodes the usual shape has.
const usualNodes = 5

// dataNodes is how many nodes hold copies.
func (s shape) dataNodes() int {
	if s.data == 0 {
		return usualNodes
	}
	return s.data
}

// takes is about how long the cluster and its index take, without the warm-up.
func (s shape) takes() time.Duration {
	return time.Duration(s.dataNodes()+s.managers)*nodeStart + indexTime
}

const (
	nodeStart = 10 * time.Second
	indexTime = 10 * time.Second
)

// apply sets the nodes of a cluster.
func (s shape) apply(o *harness.ClusterOptions) {
	o.Nodes = s.dataNodes() + s.managers
	if s.managers == 0 {
		return
	}
	bootstrap, role := "cluster.initial_cluster_manager_nodes", "cluster_manager"
	if o.Distribution == harness.Elasticsearch {
		bootstrap, role = "cluster.initial_master_nodes", "master"
	}
	var electors []string
	for i := s.dataNodes(); i < o.Nodes; i++ {
		electors = append(electors, strconv.Quote(nodeName(i)))
	}
	o.NodeSettings = nil
	for i := range o.Nodes {
		settings := map[string]string{bootstrap: "[" + strings.Join(electors, ", ") + "]", "node.roles": "[data]"}
		if i >= s.dataNodes() {
			settings["node.roles"] = "[" + role + "]"
		}
		o.NodeSettings = append(o.NodeSettings, settings)
	}
}

// nodeName is what the harness calls the node number i, from 0 on.
func nodeName(i int) string { return "node-" + strconv.Itoa(i+1) }
