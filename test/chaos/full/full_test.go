package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/test/machine"
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

func TestWays(t *testing.T) {
	seen, direct, fixed := map[string]bool{}, 0, 0
	for _, w := range ways() {
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
	var tallies []*tally
	for _, w := range ways() {
		one := &tally{way: w, perSec: []float64{500}, p99: []float64{100}, cpu: make([]float64, nodeCount)}
		switch {
		case !w.front:
			one.perSec = []float64{2000}
		case w.name == "off, one node":
			one.perSec = []float64{1000}
		case w.name == waySidestep:
			one.perSec = []float64{980}
		}
		tallies = append(tallies, one)
	}
	require.Contains(t, verdict(tallies), "(off, one node)")
	require.Regexp(t, ` holds\.$`, verdict(tallies))
	tallies[len(tallies)-1].p99 = []float64{120}
	require.Contains(t, verdict(tallies), "does not hold")
	r := report{}
	r.add(settings()[0], tallies, machine.Usage{})
	require.Contains(t, r.text(), "| sidestep | 980 | 0.98 [0.98, 0.98] |")
}
