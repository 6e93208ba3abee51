package lab

import (
	"math/rand/v2"
)

// policy is a way to choose copies. Either the engine ranks them for each shard at
// the coordinating node, or a router before it lists nodes.
type policy struct {
	name, about string
	rank        ranking
	// knows: the ranking is that of the copies which a client in the know would use.
	knows  bool
	router func(*world, *rand.Rand) router
}

// oracleName is the policy that the others are held against.
const oracleName = "oracle"

// ownPrefix marks the policies that are the production selection.
const ownPrefix = "sidestep/"

// policies returns all of them, the production ones last but the oracle.
func policies() []policy {
	list := []policy{
		{name: "round_robin", about: "engine without adaptive selection", rank: rotate, router: newClients},
		{name: "least_outstanding", about: "engine, fewest of its own shard queries outstanding", rank: leastOutstanding, router: newClients},
		{name: "ars", about: "Elasticsearch 7.13 to 9.4: R - S + q^3 S", rank: adaptive(arsPublished, false), router: newClients},
		{name: "ars_opensearch", about: "OpenSearch: service time taken for the service rate", rank: adaptive(arsInverted, true), router: newClients},
		{name: "ars_9_5", about: "Elasticsearch 9.5: q^3 S", rank: adaptive(arsQueue, false), router: newClients},
		{name: "peak_ewma_shard", about: "Peak-EWMA, power of two choices, inside the engine", rank: peakOfTwo, router: newClients},
		{name: "c3_naive", about: "proxy, C3 with the whole time charged to each node of the list", rank: adaptive(arsPublished, false), router: newNaive},
		{name: "prequal", about: "proxy, probes for in-flight and latency, hot/cold rule", rank: adaptive(arsPublished, false), router: newPrequal},
		{name: "peak_ewma", about: "proxy, Peak-EWMA, power of two choices, whole time charged", rank: adaptive(arsPublished, false), router: newPeak},
	}
	for _, v := range variants() {
		list = append(list, policy{
			name: ownPrefix + "adaptive" + v.suffix, about: "package selection" + v.about,
			rank: adaptive(arsPublished, false), router: newSidestep(v),
		})
	}
	return append(list, policy{
		name: oracleName, about: "knows every node's true state, never touches a bad one",
		rank: earliestFinish, router: newKnowing,
	})
}

func newClients(w *world, rng *rand.Rand) router {
	return &simple{w: w, lister: &clients{w: w, turn: rng.IntN(len(w.entries))}}
}

func newKnowing(w *world, rng *rand.Rand) router {
	return &simple{w: w, lister: &knowing{clients{w: w, turn: rng.IntN(len(w.entries))}}}
}

// pick returns those that have their name in names, all if there are none.
func pick(names []string) ([]policy, error) {
	return named("policy", policies(), func(p policy) string { return p.name }, names)
}
