package lab

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
)

// played is an arm on a short run of an overloaded cluster.
func played(t *testing.T, name string, sc Scenario) *measure {
	t.Helper()
	return playedWith(t, name, sc, 1)
}

// playedWith is played with another seed.
func playedWith(t *testing.T, name string, sc Scenario, seed uint64) *measure {
	t.Helper()
	sc.warmup, sc.length = 10*time.Second, 30*time.Second
	list := contenders()
	i := slices.IndexFunc(list, func(p policy) bool { return p.name == name })
	m := simulate(&sc, list[i], seed)
	return m
}

// What a cluster can serve is served, whatever comes, and its nodes reject nothing.
func TestAdmissionKeepsGoodputUnderOverload(t *testing.T) {
	for _, load := range []float64{0.8, 1.5, 2} {
		sc := overload(load)
		auto, off := played(t, "auto", sc), played(t, "off", sc)
		require.GreaterOrEqual(t, auto.goodput(), 0.95*min(1, load), load)
		require.GreaterOrEqual(t, auto.goodput(), 0.98*off.goodput(), load)
		require.LessOrEqual(t, float64(auto.rejections), 0.1*float64(off.rejections), load)
	}
	require.Zero(t, played(t, "auto", overload(0.5)).refused)
}

// Without admission an overloaded cluster gets no more through sidestep than from clients that
// talk to its nodes, and these get no fewer answers.
func TestOverloadIsNotMadeWorse(t *testing.T) {
	for _, load := range []float64{1.5, 2} {
		sc := overload(load)
		engine, off := played(t, "engine", sc), played(t, "off", sc)
		require.Positive(t, engine.rejections, load)
		require.LessOrEqual(t, float64(off.rejections), 1.05*float64(engine.rejections), load)
		require.LessOrEqual(t, float64(off.failed), 1.05*float64(engine.failed), load)
		require.GreaterOrEqual(t, off.goodput(), 0.9*engine.goodput(), load)
	}
}

// Where queues hold more than clients have patience for, the oldest first serves those that
// are about to leave.
func TestTheNewestFirstServesClientsInTime(t *testing.T) {
	sc := overload(1.5)
	sc.queue = 2000
	adaptive, oldest := played(t, "auto", sc), played(t, "auto_fifo", sc)
	require.Greater(t, adaptive.goodput(), 0.9)
	require.Less(t, quantile(99)(adaptive), quantile(99)(oldest))
}

// A slowdown does not move the limit, however long it lasts.
func TestASlowdownLeavesTheLimit(t *testing.T) {
	sc := overload(0.8)
	sc.faults = []fault{{nodes: []int{0, 1, 2, 3, 4}, from: time.Minute, to: forever, set: slower(3)}}
	sc.length = 11 * time.Minute
	m := simulate(&sc, contenders()[2], 1)
	require.InEpsilon(t, m.limitAt(3*time.Minute), m.limitAt(11*time.Minute), 0.1)
}

// A flood of a class does not take the time of another one. A search that runs on a node
// is not taken back, so the others are slowed the more the longer those of the flood take.
func TestAFloodHurtsItself(t *testing.T) {
	sc := overload(0.3)
	list := contenders()
	list[2].router = newControlled(admission.Options{Mode: admission.Auto, Classes: []admission.Class{{Name: "interactive", Weight: 4}, {Name: "flood", Weight: 1}}})
	alone := simulate(&sc, list[2], 1)
	for factor, most := range map[float64]float64{1: 1.5, 4: 2.2} {
		sc.flood = flood{load: 1, factor: factor}
		beside := simulate(&sc, list[2], 1)
		require.Zero(t, beside.failed)
		require.Less(t, quantile(99)(beside), most*quantile(99)(alone), "searches that take %v times as long", factor)
		served := beside.rate(beside.flooded) * factor / sc.capacity()
		require.Greater(t, served, 0.2, "its share by weight")
	}
}
