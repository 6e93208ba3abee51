package relay

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/cluster/poll"
)

// recordingProber is a [Prober] that keeps what it is told.
type recordingProber struct {
	mu        sync.Mutex
	findings  []cluster.Finding
	suspects  []string
	suspected [][]string
	taken     []cluster.Finding
	drained   []string
}

func (p *recordingProber) DrainedNodes(time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drained
}

func (p *recordingProber) drain(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained = ids
}

func (p *recordingProber) Findings(after int64) []cluster.Finding {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.findings), func(f cluster.Finding) bool { return f.Number <= after })
}

func (p *recordingProber) Suspected(ids []string, _ time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.suspected = append(p.suspected, ids)
}

func (p *recordingProber) Suspects(dst []string, _ time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(dst, p.suspects...)
}

func (p *recordingProber) TakeIn(f cluster.Finding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, f)
}

// A drain that a relay was told reaches its followers, and so does its end. What the cluster announces stays.
func TestDrainsAreToldThroughARelay(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 5)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1", "n2"})}
		f.Announced.Settings = clustertest.Object{"persistent": clustertest.Object{"cluster.routing.allocation.exclude._name": "name-n3"}}
	})
	drains := &recordingProber{}
	relay := startProbing(t, f, drains, nil)
	at := newAddress(t)
	at.use(relay.server)
	w, _ := follow(t, f, at, nil)
	becomes := func(n2, n3 cluster.Departure) {
		t.Helper()
		w.Eventually(fmt.Sprintf("n2 %q, n3 %q", n2, n3), func() bool {
			s := w.Snapshot()
			return s != nil && len(s.Nodes) == 5 && s.Nodes[1].Leaving == n2 && s.Nodes[2].Leaving == n3
		})
	}
	becomes(cluster.Stays, cluster.Excluded)
	drains.drain("n2", "n3")
	becomes(cluster.DrainedAtRelay, cluster.Excluded)
	drains.drain()
	becomes(cluster.Stays, cluster.Excluded)
	require.Equal(t, cluster.Stays, relay.Snapshot().Nodes[1].Leaving, "it is no announcement")
}

// What a relay's probes find reaches its followers, once, and what these suspect reaches the relay.
func TestProbesAreToldThroughARelay(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 3)
	f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1", "n2"})} })
	probing, following := &recordingProber{}, &recordingProber{suspects: []string{"n3", "gone"}}
	relay := startProbing(t, f, probing, nil)
	at := newAddress(t)
	at.use(relay.server)
	w, _ := follow(t, f, at, func(_ *poll.Options, r *Options) { r.Silence, r.Prober = clustertest.Soon, following })
	w.Touch()
	w.Eventually("the follower's suspicion is known", func() bool {
		probing.mu.Lock()
		defer probing.mu.Unlock()
		return slices.ContainsFunc(probing.suspected, func(ids []string) bool { return slices.Equal(ids, []string{"n3"}) })
	})
	sent := time.Now()
	outcomes := []cluster.FoundProbe{{Took: 2 * time.Millisecond}, {Took: 300 * time.Millisecond, Burst: true}, {Took: time.Second, Failed: true, Message: "no answer"}}
	var probes []cluster.FoundProbe
	for i, o := range outcomes {
		o.Node, o.Via = fmt.Sprint("n", i+1), "n1"
		probes = append(probes, o)
	}
	probing.mu.Lock()
	probing.findings = []cluster.Finding{
		{Number: 7, Sent: sent, Local: true, Probes: probes},
		{Number: 9, Sent: sent, Probes: []cluster.FoundProbe{{Node: "unknown", Via: "n1"}}},
	}
	probing.mu.Unlock()
	w.Eventually("taken in", func() bool {
		following.mu.Lock()
		defer following.mu.Unlock()
		return len(following.taken) >= 1
	})
	seen := at.asked.Load()
	w.Eventually("more reports", func() bool { return at.asked.Load() > seen+5 })
	following.mu.Lock()
	defer following.mu.Unlock()
	require.Len(t, following.taken, 1, "each is told once, and only of nodes that are known")
	found := following.taken[0]
	require.True(t, found.Local)
	require.Equal(t, probes, found.Probes)
	require.WithinDuration(t, sent, found.Sent, time.Second)
}

// What no probe finds is not taken in, and takes nothing else of the report with it.
func TestFindingsAreValidated(t *testing.T) {
	t.Parallel()
	good := reportedFinding{Sent: 990, Probes: []reportedProbe{{Node: 0, Via: 1, Took: 1000}}}
	for name, change := range map[string]func(p *reportedProbe, r *reportedFinding){
		"good":                     func(*reportedProbe, *reportedFinding) {},
		"a node that was not told": func(p *reportedProbe, _ *reportedFinding) { p.Node = 2 },
		"none":                     func(p *reportedProbe, _ *reportedFinding) { p.Node = -1 },
		"through one not told":     func(p *reportedProbe, _ *reportedFinding) { p.Via = 9 },
		"took less than nothing":   func(p *reportedProbe, _ *reportedFinding) { p.Took = -1 },
		"took an hour":             func(p *reportedProbe, _ *reportedFinding) { p.Took = time.Hour.Microseconds() },
		"a node twice":             func(_ *reportedProbe, r *reportedFinding) { r.Probes = append(r.Probes, r.Probes[0]) },
		"more than a round": func(_ *reportedProbe, r *reportedFinding) {
			r.Probes = slices.Repeat(r.Probes, maxReportedProbes+1)
		},
		"before the relay": func(_ *reportedProbe, r *reportedFinding) { r.Sent = -1 },
	} {
		var stats []cluster.NodeStats
		f, taken := testFollower(&stats), &recordingProber{}
		f.o.Prober = taken
		found := reportedFinding{Sent: good.Sent, Probes: slices.Clone(good.Probes)}
		change(&found.Probes[0], &found)
		require.NoError(t, f.take(t, goodReport(func(r *report) { r.Findings = []reportedFinding{found} })), name)
		if name == "good" {
			require.Len(t, taken.taken, 1)
		} else {
			require.Empty(t, taken.taken, name)
		}
		require.Len(t, stats, 2, name)
	}
}

// Whatever a reader claims to suspect, the relay does nothing but probe nodes that it knows.
func TestSuspicionsOfReadersAreBounded(t *testing.T) {
	t.Parallel()
	s := cluster.NewSnapshot(cluster.Contents{Engine: cluster.Engine{Distribution: cluster.OpenSearch}, ClusterUUID: "u", Indices: []cluster.Index{}})
	p := &recordingProber{}
	f := newFeed(func() *cluster.Snapshot { return s }, time.Hour, p)
	for i := range 2 * maxSuspects {
		f.number(fmt.Sprint("n", i))
	}
	all := ""
	for i := range 2 * maxSuspects {
		all += fmt.Sprint(i, ",")
	}
	f.suspected(f.relay, strings.Repeat("x,", 1000)+"5", true)
	f.suspected(f.relay, "1,-1,x,,100000,99999999999999999999,3", true)
	f.suspected("another", "1", true)
	f.suspected(f.relay, "", false)
	f.suspected(f.relay, all, false)
	require.Empty(t, p.suspected[0], "what is beyond the bound is not read")
	p.suspected = p.suspected[1:]
	require.Len(t, p.suspected, 3, "one that is idle and suspects nothing is no reason to probe")
	require.Equal(t, []string{"n1", "n3"}, p.suspected[0])
	require.Empty(t, p.suspected[1])
	require.Len(t, p.suspected[2], maxSuspects)
}
