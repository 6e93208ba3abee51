package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// published are the figures of one of Elastic's three tables (2018): searches a
// second and p50, p90, p99 in ms, without and with adaptive selection, which took the service time for the rate.
type published struct {
	title    string
	off, ars [4]float64
}

// base is the cluster of most scenarios: five nodes with four CPUs, five shards
// with two copies in a ring, shard queries of 10 ms.
func base(name, about string) Scenario {
	return Scenario{
		Name: name, About: about,
		machine: machine{cpus: 4, threads: 7, queue: 1000},
		nodes:   5, indices: 1, shards: 5, copies: 2,
		demand: 10 * time.Millisecond, sigma: 0.6, reduce: time.Millisecond,
		load: 0.4, sidecars: 1,
		pollInterval: 200 * time.Millisecond, pollTimeout: time.Second,
		warmup: 10 * time.Second, length: time.Minute,
	}
}

// blog is the cluster of Elastic's tables as their own figures pin it down. Round
// robin with a stressed node is bound by that node, on which one shard query of
// each search lands: c·K = 41.16/s, with K the shard queries a healthy node does a
// second and c the part that is left of the stressed one. Adaptive selection does
// 87.82 searches, so (4 + c)·K ≥ 439, and 97.6 on the unloaded cluster, so
// K ≥ 97.6: K = 100 and c = 0.41, that is 160 ms of CPU for a shard query.
// Rotations start so that the two shards of the stressed node move in phase.
func blog(name, about string, p published) Scenario {
	sc := base(name, about)
	sc.machine = machine{cpus: 16, threads: 25, queue: 1000}
	sc.demand, sc.sigma, sc.reduce = 160*time.Millisecond, 0.5, 0
	sc.dedicated, sc.inPhase = true, true
	sc.connections, sc.load = 100, 0
	sc.warmup, sc.length = 20*time.Second, 140*time.Second
	sc.published = &p
	return sc
}

// Of the faults of most scenarios.
const (
	badFrom = 15 * time.Second
	badTo   = 40 * time.Second
	badNode = 2
)

// faulty is base with one thing wrong with one node for a while.
func faulty(name, about string, set func(*node, bool)) Scenario {
	sc := base(name, about)
	sc.faults = []fault{{nodes: []int{badNode}, from: badFrom, to: badTo, set: set, avoided: true}}
	return sc
}

// Scenarios returns all scenarios, in the order of the tables.
func Scenarios() []Scenario {
	var list []Scenario
	list = append(list, blogScenarios()...)
	for _, percent := range []int{60, 80} {
		sc := base(fmt.Sprintf("healthy_%d", percent), fmt.Sprintf("nothing is wrong, load %d %%", percent))
		sc.load = float64(percent) / 100
		list = append(list, sc)
	}
	list = append(list, faultScenarios()...)
	list = append(list, wholeClusterScenarios()...)
	return append(list, sizeScenarios()...)
}

func blogScenarios() []Scenario {
	unloaded := blog("blog_1_unloaded", "Elastic's first table: 100 connections, nothing is wrong", published{
		title: "no load", off: [4]float64{95.79, 1003, 1340, 1648}, ars: [4]float64{98.54, 970, 1327, 1649},
	})
	stressed := blog("blog_2_stressed", "Elastic's second table: one node has 41 % of its speed", published{
		title: "one node under stress", off: [4]float64{41.16, 412, 5215, 6181}, ars: [4]float64{87.82, 1007, 1839, 2434},
	})
	// Not to be avoided: what is left of the node is needed.
	stressed.faults = []fault{{nodes: []int{badNode}, to: forever, set: slower(1 / 0.41)}}
	spread := blog("blog_3_no_coordinator", "Elastic's third table: clients go round robin over the data nodes", published{
		title: "no coordinating node", off: [4]float64{89.63, 1089, 1706, 2481}, ars: [4]float64{95.95, 1014, 1424, 1784},
	})
	spread.dedicated, spread.reduce = false, 32*time.Millisecond
	return []Scenario{unloaded, stressed, spread}
}

func faultScenarios() []Scenario {
	slow := faulty("slow_10x", "one of five nodes has a tenth of its speed for 25 s, load 40 %", slower(10))
	slow60 := faulty("slow_10x_60", "the same at load 60 %: its neighbours barely carry what it leaves", slower(10))
	slow60.load = 0.6
	slow80 := faulty("slow_3x_80", "one of five nodes has a third of its speed for 25 s, load 80 %: what it can carry is needed", slower(3))
	slow80.load, slow80.faults[0].avoided = 0.8, false
	far80 := faulty("transport_80", "transport_300ms at load 80 %: the others cannot carry all", transportLatency(300*time.Millisecond))
	far80.load, far80.faults[0].avoided = 0.8, false
	transport := faulty("transport_300ms", "what reaches one node from the others takes 300 ± 50 ms longer", transportLatency(300*time.Millisecond))
	http := faulty("http_300ms", "what reaches one node from clients takes 300 ± 50 ms longer", httpLatency(300*time.Millisecond))
	pauses := faulty("pauses", "one node stands still for 1.5 s, runs for 2.5 s, again and again", pausing)
	pauses.faults[0].on, pauses.faults[0].off = 1500*time.Millisecond, 2500*time.Millisecond
	flapping := faulty("flapping_3s", "one node has a tenth of its speed for 3 s, all of it for 3 s, again and again", slower(10))
	flapping.faults[0].on, flapping.faults[0].off = 3*time.Second, 3*time.Second
	beside := faulty("pauses_beside", "transport_300ms while the next node, which has its shard's other copy, stands still for 0.7 s every 5 s", transportLatency(300*time.Millisecond))
	beside.faults = append(beside.faults, fault{
		nodes: []int{badNode + 1}, from: badFrom, to: badTo, set: pausing, on: 700 * time.Millisecond, off: 4300 * time.Millisecond, hidden: true,
	})
	refuses := faulty("fails_fast_429", "one node refuses every shard query at once", rejecting)
	fails := faulty("fails_fast_503", "one node answers everything with 503 at once", failing)
	cold := base("cold_node", "a node joins after 15 s, with a fifth of its speed, all of it 16 s later")
	cold.faults = []fault{{nodes: []int{badNode}, to: badFrom, set: missing, avoided: true, hidden: true}}
	for i := range 4 {
		from := badFrom + time.Duration(i)*4*time.Second
		cold.faults = append(cold.faults, fault{
			nodes: []int{badNode}, from: from, to: from + 4*time.Second, set: slower(5 / float64(i+1)),
		})
	}
	return []Scenario{slow, slow60, slow80, transport, far80, http, pauses, flapping, beside, refuses, fails, cold}
}

func wholeClusterScenarios() []Scenario {
	var list []Scenario
	for _, every := range []time.Duration{500 * time.Millisecond, 2 * time.Second} {
		sc := base("bimodal_"+every.String(), "each node has half or one and a half times its speed, by lot, again every "+every.String()+", load 50 %")
		sc.vary, sc.load = every, 0.5
		list = append(list, sc)
	}
	overload := base("step_overload", "load 60 %, for 10 s 120 %, then 60 % again")
	overload.load = 0.6
	overload.steps = []step{{badFrom, 2}, {badFrom + 10*time.Second, 1}}
	return append(list, overload)
}

func sizeScenarios() []Scenario {
	var list []Scenario
	for _, m := range []int{5, 10, 20} {
		sc := faulty(fmt.Sprintf("slow_10x_%d_sidecars", m), fmt.Sprintf("slow_10x with the load spread over %d sidecars", m), slower(10))
		sc.sidecars = m
		list = append(list, sc)
	}
	herd := base("healthy_60_20_sidecars", "nothing is wrong, load 60 %, 20 sidecars")
	herd.load, herd.sidecars = 0.6, 20
	list = append(list, herd)
	for _, k := range []int{3, 5} {
		sc := faulty(fmt.Sprintf("one_shard_%d_copies", k), fmt.Sprintf("five indices of one shard with %d copies, one node with a tenth of its speed", k), slower(10))
		sc.indices, sc.shards, sc.copies = 5, 1, k
		sc.length = 50 * time.Second
		list = append(list, sc)
	}
	large := faulty("nodes_1000", "1,000 nodes, 100 indices of ten shards, 20 nodes with a tenth of their speed for 8 s, load 30 %", slower(10))
	large.machine = machine{cpus: 1, threads: 2, queue: 1000}
	large.nodes, large.indices, large.shards, large.scattered = 1000, 100, 10, true
	large.load = 0.3
	large.warmup, large.length = 4*time.Second, 20*time.Second
	f := &large.faults[0]
	f.from, f.to, f.nodes = 6*time.Second, 14*time.Second, nil
	for n := range 20 {
		f.nodes = append(f.nodes, n)
	}
	return append(list, large)
}

// choose returns the scenarios whose name is in names, all if there are none.
func choose(names []string) ([]Scenario, error) {
	return named("scenario", Scenarios(), func(sc Scenario) string { return sc.Name }, names)
}

// named returns those of all that have their name in names, all if there are none. Names may leave out the prefix of the
// production policies.
func named[T any](what string, all []T, nameOf func(T) string, names []string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []T
	for _, name := range names {
		i := slices.IndexFunc(all, func(v T) bool { return nameOf(v) == name || nameOf(v) == ownPrefix+name })
		if i < 0 {
			var valid []string
			for _, v := range all {
				valid = append(valid, nameOf(v))
			}
			return nil, fmt.Errorf("unknown %s %q, valid are %s", what, name, strings.Join(valid, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}
