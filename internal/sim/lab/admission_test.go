package lab

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
)

// With admission no fewer searches are answered in time than without it, whatever the load, with
// and without a node at a tenth of its speed.
func TestAdmissionLosesNoGoodputAtAnyLoad(t *testing.T) {
	for _, load := range []float64{0.5, 0.8, 1, 1.25, 1.5, 2} {
		for _, bad := range []bool{false, true} {
			t.Run(fmt.Sprintf("load=%v/stressed=%t", load, bad), func(t *testing.T) {
				t.Parallel()
				sc := overload(load)
				if bad {
					sc = stressed(sc)
				}
				const seeds = 12 // of one the goodput differs by three percent by chance
				var auto, off float64
				for seed := range uint64(seeds) {
					auto += playedWith(t, "auto", sc, seed+1).goodput() / seeds
					off += playedWith(t, "off", sc, seed+1).goodput() / seeds
				}
				t.Logf("goodput %.3f with, %.3f without", auto, off)
				require.GreaterOrEqual(t, auto, 0.98*off)
			})
		}
	}
}

// Where nothing is overloaded admission refuses nothing and makes nothing slower.
func TestAdmissionCostsNothingWithoutOverload(t *testing.T) {
	for _, load := range []float64{0.3, 0.5, 0.7} {
		sc := overload(load)
		list := contenders()
		var p99 [2][]float64
		for seed := range uint64(3) {
			for i, name := range []string{"off", "auto"} {
				m := simulate(&sc, list[slices.IndexFunc(list, func(p policy) bool { return p.name == name })], seed+1)
				require.Zero(t, m.refused, load)
				p99[i] = append(p99[i], quantile(99)(m))
			}
		}
		t.Logf("%v × capacity: p99 %v ms without, %v with", load, p99[0], p99[1])
		for i := range p99 {
			slices.Sort(p99[i])
		}
		require.InEpsilon(t, p99[0][1], p99[1][1], 0.05, load)
	}
}

// A class is sent at its rate, however much of it comes.
func TestARateIsKept(t *testing.T) {
	sc := overload(0.3)
	sc.flood = flood{load: 0.6, factor: 1}
	rate := 0.2 * sc.capacity()
	list := contenders()
	list[2].router = newControlled(admission.Options{Mode: admission.Auto, Classes: []admission.Class{
		{Name: "interactive"}, {Name: "flood", Rate: rate, Deadline: clientDeadline / 2},
	}})
	m := simulate(&sc, list[2], 1)
	served := m.rate(m.flooded)
	t.Logf("%.2f searches/s, the rate is %.2f; refused %d", served, rate, m.refused)
	require.InEpsilon(t, rate, served, 0.05)
	require.Positive(t, m.refused)
}
