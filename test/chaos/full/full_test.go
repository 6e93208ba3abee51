package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-engine", "elasticsearch", "-settings", "quota", "-rounds", "2", "-out", "x"})
	require.NoError(t, err)
	require.Equal(t, []setting{settings()[1]}, o.settings)
	require.Equal(t, "bin/full -engine elasticsearch -rounds 2 -settings quota", o.command)
	for _, bad := range [][]string{{"-engine", "solr"}, {"-rounds", "0"}, {"-turn", "0s"}, {"-settings", "both"}, {"more"}} {
		_, err := parse(bad)
		require.Error(t, err, bad)
	}
}

// Variants take turns with the ways through sidestep.
func TestVariants(t *testing.T) {
	o, err := parse([]string{"-variants", "rare=cluster.stats_interval:5s", "-out", "x"})
	require.NoError(t, err)
	var names []string
	for _, w := range o.ways(settings()[0]) {
		require.True(t, w.front, w.name)
		names = append(names, w.name)
	}
	require.Equal(t, []string{"off, round robin", "off, _local", "off, two nodes", "off, one node", "sidestep", "rare"}, names)
	require.False(t, o.variants[0].fixed())
	config, err := o.variants[0].variant.Config()
	require.NoError(t, err)
	require.Equal(t, "cluster:\n    stats_interval: 5s\n", config)
	for _, bad := range []string{"rare", "sidestep=a.b:c"} {
		_, err = parse([]string{"-variants", bad, "-out", "x"})
		require.Error(t, err, bad)
	}
	require.Len(t, options{}.ways(settings()[0]), len(fullWays()))
}

func TestWays(t *testing.T) {
	seen, direct, fixed := map[string]bool{}, 0, 0
	for _, w := range fullWays() {
		require.False(t, seen[w.name], w.name)
		seen[w.name] = true
		if !w.front {
			direct++
		}
		if w.fixed() {
			fixed++
		}
	}
	require.Equal(t, []int{4, 4}, []int{direct, fixed})
	require.True(t, seen[waySidestep])
}

// The verdict compares with the best way through sidestep, not with a better direct one.
func TestVerdict(t *testing.T) {
	m := measured{setting: settings()[0]}
	for _, w := range fullWays() {
		one := &tally{way: w, perSec: []float64{500}, p50: []float64{40}, p99: []float64{100}, cpu: make([]float64, nodeCount)}
		switch {
		case !w.front:
			one.perSec = []float64{2000}
		case w.name == "off, one node":
			one.perSec = []float64{1000}
		case w.name == waySidestep:
			one.perSec = []float64{980}
		}
		m.tallies = append(m.tallies, one)
	}
	verdicts := m.verdicts()
	require.Contains(t, verdicts[0].About, "(off, one node)")
	require.True(t, verdicts[0].Holds)
	require.True(t, verdicts[1].Holds)
	m.of(waySidestep).p99 = []float64{120}
	m.of(waySidestep).perSec = []float64{960}
	verdicts = m.verdicts()
	require.False(t, verdicts[0].Holds)
	require.False(t, verdicts[1].Holds)
	r := report{}
	r.add(m)
	require.Contains(t, r.text(), "| sidestep | 960 | 0.96 [0.96, 0.96] | 40.0 |")
	m.of(waySidestep).result.OK, m.of(waySidestep).own = 2000, 0.5
	m.of(waySidestep).cpu, m.of(waySidestep).doing = []float64{2, 2, 2, 2, 2}, harness.Doing{harness.DoesPolls: {"ok": 7}}
	r.add(m)
	require.Contains(t, r.text(), "| 5.00 | 0.25 |\n\nsidestep did: polls ok 7.\n")
}

// turns are those of a way that took so long, in ms, and used the nodes' CPUs so.
func turns(w way, p50, p99 float64, cpu ...float64) *tally {
	return &tally{way: w, perSec: []float64{50}, p50: []float64{p50}, p99: []float64{p99}, cpu: cpu}
}

// Half full, sidestep may be no slower than round robin, and ten of it must use all nodes.
func TestHalfFull(t *testing.T) {
	played := func(own, busiest float64) measured {
		m := measured{setting: settings()[2], rate: 50}
		for _, w := range halfWays() {
			one := turns(w, 10, 20, 1, 1, 1, 1, 1)
			switch w.name {
			case waySidestep:
				one.p50 = []float64{own}
			case wayTen:
				one.cpu[0] = busiest
			}
			m.tallies = append(m.tallies, one)
		}
		return m
	}
	holds := func(m measured) (all []bool) {
		for _, v := range m.verdicts() {
			all = append(all, v.Holds)
		}
		return all
	}
	require.True(t, settings()[2].half)
	require.Equal(t, []bool{true, true, true}, holds(played(10.4, 1.5)))
	require.Equal(t, []bool{false, true, false}, holds(played(10.6, 2)))
	r := report{}
	r.add(played(10, 1))
	require.Contains(t, r.text(), "## Half full, healthy: cores shared by all\n\n50 searches a second.")
	require.Contains(t, r.text(), "| control: off, round robin | 50 | 1.00 [1.00, 1.00] | 10.0 | 1.00 [1.00, 1.00] |")
}

// Ten sidesteps are started beside the one that is there already.
func TestFronts(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range halfWays() {
		for _, name := range w.fronts() {
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
	require.Len(t, seen, 13)
	require.True(t, seen["ten sidesteps, 10"])
}
