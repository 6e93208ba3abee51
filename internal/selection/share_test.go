package selection

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// toldBy is a client that searches nothing and learns from the probes of another one.
type toldBy struct {
	*Selector
	nodes  []*Node
	after  int64
	probes []Probe
	states []State // of the third node, as it changed
}

func newToldBy(t *testing.T, v *virtual) *toldBy {
	t.Helper()
	f := &toldBy{}
	var err error
	f.Selector, err = New(Options{Policy: "adaptive", Clients: 1, Epoch: epoch, OnChange: func(c Change) { f.states = append(f.states, c.After) }})
	require.NoError(t, err)
	var infos []NodeInfo
	for _, n := range v.nodes {
		infos = append(infos, NodeInfo{ID: n.ID, Name: n.Name})
	}
	f.nodes = f.Update(infos)
	return f
}

// keep has the client be told by v every 200 ms, of polls, too, and asked for its own probes.
func (f *toldBy) keep(v *virtual) {
	now := epoch.Add(v.now)
	for _, found := range v.s.Findings(f.after) {
		f.TakeIn(found, now)
		f.after = found.Number
	}
	for _, n := range f.nodes {
		f.ObservePoll(n.ID, Poll{State: Fine, Took: time.Millisecond}, now)
	}
	f.probes = append(f.probes, f.Probes(nil, f.nodes, now)...)
	v.s.Suspected(f.Suspects(nil, now), now)
}

// A client that is told what the probes of another one found ejects a node as soon as it, and lets
// it in again, and sends no probe itself. It searches nothing, so all that it knows it was told.
func TestWhatAnotherFindsIsJudgedAsItsOwn(t *testing.T) {
	for _, ms := range []int{200, 5000} { // late, and without an answer
		v := newVirtual(t, "adaptive", by(ms, 2*time.Second, 20*time.Second, 2))
		f := newToldBy(t, v)
		for at := time.Duration(0); at < 40*time.Second; at += 200 * time.Millisecond {
			v.after(at, func() { f.keep(v) })
		}
		v.after(4*time.Second, func() { require.Equal(t, Slow, f.nodes[2].State(), "%d ms", ms) })
		v.run(80, 40*time.Second)
		require.Len(t, v.changes, 3, "%d ms: %v", ms, v.changes)
		require.Equal(t, []State{Slow, Ramping, Fine}, f.states[len(f.states)-3:], "%d ms", ms)
		require.Empty(t, f.probes, "%d ms", ms)
		require.Contains(t, *f.nodes[2].health.why.Load(), "another sidestep")
	}
}

// What others suspect is probed, by one that searches nothing itself, and as often as by one client
// however many there are. So are nodes that nobody suspects, one a second.
func TestSuspicionsOfOthersAreProbed(t *testing.T) {
	v := newVirtual(t, "adaptive", by(200, 2*time.Second, 20*time.Second, 2))
	v.s.Probers(500)
	v.after(2*time.Second, func() { v.s.Suspected([]string{v.nodes[2].ID, "unknown"}, epoch.Add(v.now)) })
	for at := 3 * time.Second; at < 30*time.Second; at += 200 * time.Millisecond {
		v.after(at, func() { v.s.Suspected(nil, epoch.Add(v.now)) })
	}
	v.targets = nil // nothing is searched
	v.run(1, 30*time.Second)
	require.Len(t, v.changes, 3, "ejected, back, and well: %v", v.changes)
	require.Less(t, v.changes[0].at, 3*time.Second)
	require.InDelta(t, 25, v.probed(2, 6*time.Second, 16*time.Second), 6, "one in 0.4 s")
	require.Positive(t, v.probed(0, 25*time.Second, 30*time.Second))
}

// A finding is told once, by number; what is old, and of nodes that are not known, is left out.
func TestFindingsAreKeptForAWhile(t *testing.T) {
	v := newVirtual(t, "adaptive", by(5000, time.Second, time.Minute, 2))
	v.run(80, 30*time.Second)
	found := v.s.Findings(0)
	require.Len(t, found, maxFindings)
	for i, f := range found[1:] {
		require.Equal(t, found[i].Number+1, f.Number)
	}
	last := found[len(found)-1]
	require.Empty(t, v.s.Findings(last.Number))
	require.Equal(t, []Finding{last}, v.s.Findings(last.Number-1))
	require.NotEmpty(t, last.Probes)

	f := newToldBy(t, v)
	f.TakeIn(last, last.Sent.Add(3*roundLife))
	f.TakeIn(last, last.Sent.Add(-time.Second))
	for _, n := range f.nodes {
		require.Zero(t, n.probe.toldAt.Load(), "old, or not yet sent")
	}
	f.Update([]NodeInfo{{ID: v.nodes[0].ID}})
	f.TakeIn(last, last.Sent.Add(time.Second))
	require.Zero(t, f.nodes[2].probe.toldAt.Load(), "it has left")
}
