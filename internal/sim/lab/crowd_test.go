package lab

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
)

// views returns the sidecars.
func views(t *testing.T, w *world) (all []*sidestep) {
	t.Helper()
	for _, r := range w.routers {
		p, ok := r.(pacing)
		require.True(t, ok)
		all = append(all, p.paced())
	}
	return all
}

// However many sidecars there are, told so or not, all together send an ejected node a few tens of
// probes a second. Those that follow a relay, which probes for all, find it, and use it again, as soon as
// ten do; without one it takes hundreds some seconds.
func TestProbesOfManySidecars(t *testing.T) {
	const bad, well, end = 10 * time.Second, 50 * time.Second, 80 * time.Second
	for _, c := range []struct {
		sidecars int
		told     bool
		relayed  bool          // one of them is a relay
		found    time.Duration // within which half of them have ejected it
		most     float64       // probes a second while it is ejected
		back     time.Duration // within which half of the sidecars use it again
	}{
		{8, true, false, time.Second, 25, 5 * time.Second},
		{200, true, false, 5 * time.Second, 25, 12 * time.Second},
		{500, true, false, 10 * time.Second, 40, 20 * time.Second},
		{200, false, false, 5 * time.Second, 110, 12 * time.Second},
		{500, false, false, 10 * time.Second, 80, 20 * time.Second},
		{10, true, true, 1500 * time.Millisecond, 25, 3 * time.Second},
		{200, true, true, 1500 * time.Millisecond, 25, 3 * time.Second},
		{500, true, true, 1500 * time.Millisecond, 25, 3 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d sidecars, told %t, relayed %t", c.sidecars, c.told, c.relayed), func(t *testing.T) {
			t.Parallel()
			sc := coordinated(5, c.sidecars, 0.4)
			sc.untold, sc.relayed = !c.told, c.relayed
			sc.length = end
			sc.faults = []fault{{nodes: []int{badNode}, from: bad, to: well, set: transportLatency(300 * time.Millisecond)}}
			list, err := pick([]string{own})
			require.NoError(t, err)
			w := newWorld(&sc, list[0], 1)
			var found, back time.Duration
			excluded := func() (n int) {
				for _, r := range views(t, w) {
					if s := r.nodes[badNode].State(); s == selection.Slow || s == selection.Failing {
						n++
					}
				}
				return n
			}
			var before, after int
			w.c.at(bad+10*time.Second, func() { before = w.nodes[badNode].probed })
			w.c.at(well, func() { after = w.nodes[badNode].probed })
			for at := bad; at < end; at += 100 * time.Millisecond {
				w.c.at(at, func() {
					switch n := excluded(); {
					case found == 0 && 2*n >= c.sidecars:
						found = at - bad
					case at > well && back == 0 && 2*n < c.sidecars:
						back = at - well
					}
				})
			}
			m := w.run()
			perSecond := float64(after-before) / (well - bad - 10*time.Second).Seconds()
			t.Logf("found after %s, %.1f probes a second, back after %s; p99 %.0f ms", found, perSecond, back, m.numbers().P99)
			require.NotZero(t, found)
			require.LessOrEqual(t, found, c.found)
			require.LessOrEqual(t, perSecond, c.most)
			require.NotZero(t, back)
			require.LessOrEqual(t, back, c.back)
		})
	}
}

// A hundred sidecars of which each sees a search or two in a second, of one shard each, find the slow node of it later than one that sees
// all, but still gain much of what there is to gain.
func TestSearchesOfOneShardThroughManySidecars(t *testing.T) {
	sc, err := choose([]string{"one_shard_3_copies"})
	require.NoError(t, err)
	p99 := func(policy string, sidecars int) float64 {
		list, err := pick([]string{policy})
		require.NoError(t, err)
		sc := sc[0]
		sc.sidecars = sidecars
		return newWorld(&sc, list[0], 1).run().numbers().P99
	}
	one, many, engine := p99(own, 1), p99(own, 100), p99("ars", 100)
	t.Logf("p99 through one %.0f ms, through a hundred %.0f ms; the engine's, which its nodes choose, with as many clients %.0f ms", one, many, engine)
	require.LessOrEqual(t, many, 2.5*one)
	require.LessOrEqual(t, many, 0.75*engine)
}
