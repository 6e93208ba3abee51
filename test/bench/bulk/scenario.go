package main

import (
	"context"
	"fmt"
	"time"

	"sidestep/test/harness"
)

const (
	latency = 200 * time.Millisecond
	quota   = 0.1 // of a core
)

// role is what the degraded node holds of its shards.
type role string

// The roles.
const (
	holdsPrimaries role = "primaries"
	holdsReplicas  role = "replicas"
	holdsBoth      role = "primaries and replicas" // no node is degraded
)

// scenario is one case.
type scenario struct {
	name, title string
	role        role
	// begin degrades the node, repair ends that. Both are nil if nothing is done.
	begin  func(*harness.Node) error
	repair func(context.Context, *harness.Node) error
}

// scenarios are the cases. Those with a degraded node share their indices.
func scenarios() []scenario {
	cpu := fmt.Sprintf("%g of a core", quota)
	return []scenario{
		{name: "healthy", title: "healthy", role: holdsBoth},
		{name: "primary-cpu", title: "the node with primaries has " + cpu, role: holdsPrimaries, begin: limitCPU, repair: unlimitCPU},
		{name: "primary-transport", title: fmt.Sprintf("the node with primaries answers other nodes %s late", latency), role: holdsPrimaries, begin: slowTransport, repair: resetToxics},
		{name: "replica-cpu", title: "the node with replicas has " + cpu, role: holdsReplicas, begin: limitCPU, repair: unlimitCPU},
		{name: "replica-transport", title: fmt.Sprintf("the node with replicas answers other nodes %s late", latency), role: holdsReplicas, begin: slowTransport, repair: resetToxics},
	}
}

func nameOf(sc scenario) string { return sc.name }

func scenarioNames() []string { return harness.Names(scenarios(), nameOf) }

// chooseScenarios returns the scenarios of a comma list.
func chooseScenarios(list string) ([]scenario, error) {
	return harness.Choose("case", list, scenarios(), nameOf)
}

func limitCPU(n *harness.Node) error                      { return n.LimitCPU(quota) }
func unlimitCPU(_ context.Context, n *harness.Node) error { return n.UnlimitCPU() }
func slowTransport(n *harness.Node) error                 { return n.SlowTransport(latency, 0) }
func resetToxics(ctx context.Context, n *harness.Node) error {
	return n.ResetToxics(ctx)
}
