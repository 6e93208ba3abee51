package prometheus

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
	simcluster "sidestep/internal/sim/cluster"
)

// comesAbout is every alert, and where it is to fire.
var comesAbout = map[string]map[string]string{
	"SidestepDown":                 {"job": down},
	"SidestepClientErrors":         {"job": failing},
	"SidestepFileDescriptors":      {"job": steering},
	"SidestepRestarts":             {"job": restarting},
	"SidestepNotReady":             {"job": blind},
	"SidestepClusterNotOK":         {"job": stale, "state": "unreachable"},
	"SidestepFailingOpen":          {"job": strict, "reason": "preference_forbidden"},
	"SidestepPlacementStale":       {"job": stale},
	"SidestepNotRouting":           {"job": observing},
	"SidestepBypassed":             {"job": observing},
	"SidestepReloadFailed":         {"job": observing},
	"SidestepLogLinesDropped":      {"job": observing, "log": "access", "cause": "write_failed"},
	"SidestepSpansLost":            {"job": observing, "result": "failed"},
	"SidestepNodeDegraded":         {"job": steering, "node": slowNode},
	"SidestepNodeBusy":             {"job": flooded},
	"SidestepNodeUnreachable":      {"job": steering, "node": goneNode},
	"SidestepRecordsLost":          {"job": forgetful},
	"SidestepNodeFlapping":         {"job": steering, "node": flappingNode},
	"SidestepFailovers":            {"job": failing, "cause": "engine_error"},
	"SidestepHedgeBudgetExhausted": {"job": steering},
	"SidestepProbesUnfit":          {"job": unprobed},
	"SidestepBulkSkew":             {"job": uneven, "index": "logs"},
	"SidestepAdmissionRefuses":     {"job": overloaded},
	"SidestepAdmissionFailsOpen":   {"job": unmeasured},
	"SidestepRelaySilent":          {"job": steering},
	"SidestepMeasuresRarely":       {"job": observing},
}

// atLast is the alert that is brought about when all else has been seen: it touches
// the whole process.
const atLast = "SidestepFileDescriptors"

// TestOnARealPrometheus brings everything about that rules and panels tell of, and
// finds it in what Prometheus says.
func TestOnARealPrometheus(t *testing.T) {
	program(t, "promtool") // is told of at once if it is missing
	f := startFleet(t)
	eventually(t, patience, func() bool { return f.front.Ready() == nil }, "the cluster is not known")
	s := startServer(t, f.targets)
	w := &watch{server: s, seen: map[string]bool{}}

	checkMetrics(t, "http://"+f.targets[steering][0]+"/metrics")
	eventually(t, patience, func() bool { return s.hasData("sidestep_ready == 1") }, "nothing is scraped")
	// That it increases is seen of what was scraped before.
	lost := `sidestep_spike_write_failures_total{job="` + forgetful + `"}`
	eventually(t, patience, func() bool { return s.hasData(lost) }, "nothing is scraped of lost records")
	time.Sleep(4 * time.Second) // of health, of which there is a picture then
	f.degrade()
	f.goneBriefly()
	flapping := f.flap()
	var first []string
	for _, r := range readRules(t, alerts) {
		require.Contains(t, comesAbout, r.Alert, "bring it about")
		if r.Alert != atLast {
			first = append(first, r.Alert)
		}
	}
	w.await(first...)
	flapping()

	every := readDashboard(t).queries(t, s)
	for _, r := range slices.Concat(readRules(t, recordings), readRules(t, alerts)) {
		if r.Alert != atLast {
			every["rule "+r.Record+r.Alert] = hurried(t, r.Expr)
		}
		if r.Record != "" {
			every["record "+r.Record] = r.Record
		}
	}
	for _, name := range slices.Sorted(maps.Keys(every)) {
		eventually(t, 20*time.Second, func() bool { return s.hasData(every[name]) }, "%s has no data: %s", name, every[name])
	}
	t.Logf("after %s: %d queries have data", time.Since(s.began).Round(time.Second), len(every))

	w.calm() // before the process as a whole is not
	f.exhaustDescriptors()
	w.await(atLast)
}

// eventually waits until it is so. Unlike require.Eventually it asks from the test
// itself, which may fail meanwhile.
func eventually(t *testing.T, within time.Duration, so func() bool, otherwise string, args ...any) {
	t.Helper()
	for end := time.Now().Add(within); !so(); time.Sleep(300 * time.Millisecond) {
		require.True(t, time.Now().Before(end), append([]any{otherwise}, args...)...)
	}
}

// Nodes of the main cluster that are not well.
const (
	slowNode     = "node-3"
	flappingNode = "node-4"
	goneNode     = "node-5"
)

// node returns a node of the main cluster.
func (f *fleet) node(name string) *simcluster.Node {
	nodes := f.main.Nodes()
	return nodes[slices.IndexFunc(nodes, func(n *simcluster.Node) bool { return n.Name() == name })]
}

// degrade makes one node of the main cluster slow and another refuse connections,
// ends a cluster, and has configurations read again.
func (f *fleet) degrade() {
	f.node(slowNode).SetFault(simcluster.Fault{Extra: 300 * time.Millisecond, Jitter: 50 * time.Millisecond})
	f.node(goneNode).SetFault(simcluster.Fault{Refuse: true})
	f.stale.Stop()
	require.NoError(f.t, f.front.ReloadConfig())
	require.Error(f.t, f.watcher.ReloadConfig())
}

// goneBriefly has a node refuse connections until the record of that has begun. It is closed, and cannot be kept, when the
// node has been back for a while.
func (f *fleet) goneBriefly() {
	node := f.brief.Nodes()[0]
	node.SetFault(simcluster.Fault{Refuse: true})
	eventually(f.t, patience, func() bool {
		var recorded struct {
			Spikes []struct {
				NodeID string     `json:"node_id"`
				Ended  *time.Time `json:"ended"`
			} `json:"spikes"`
		}
		text := page("http://" + f.keeper.AdminAddr().String() + "/spikes")
		require.NoError(f.t, json.Unmarshal([]byte(text), &recorded), text)
		for _, s := range recorded.Spikes {
			if s.NodeID == node.ID() && s.Ended == nil {
				return true
			}
		}
		return false
	}, "nobody notices that %s is gone", node.Name())
	node.SetFault(simcluster.Fault{})
}

// flap makes a node of the main cluster come and go until the function returned is
// called.
func (f *fleet) flap() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	node := f.node(flappingNode)
	fine := `sidestep_node_state{node="` + node.Name() + `",node_id="` + node.ID() + `",state="` + selection.Fine.String() + `"} 1`
	go func() {
		defer close(ended)
		for bad := true; ; bad = !bad {
			node.SetFault(simcluster.Fault{Refuse: bad})
			for seen := 0; seen < 2; { // by a scrape at least
				select {
				case <-quit:
					return
				case <-time.After(time.Second):
				}
				if strings.Contains(page("http://"+f.front.AdminAddr().String()+"/metrics"), fine) != bad {
					seen++
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// page returns what an address answers, nothing if it does not.
func page(address string) string {
	response, err := http.Get(address) //nolint:noctx,gosec // on loopback, and ends with the server
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// checkMetrics has promtool look at names, units and help.
func checkMetrics(t *testing.T, address string) {
	t.Helper()
	text := page(address)
	require.Contains(t, text, "sidestep_build_info")
	promtool(t, []byte(text), "check", "metrics")
}

// exhaustDescriptors lowers the limit of open files to little above those that are
// open, until the test ends.
func (f *fleet) exhaustDescriptors() {
	var limit syscall.Rlimit
	require.NoError(f.t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(f.t, err)
	lowered := limit
	lowered.Cur = uint64(len(open) + len(open)/8)
	require.NoError(f.t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered))
	f.t.Cleanup(func() { require.NoError(f.t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) })
}

// watch notes which alerts have fired where they were to.
type watch struct {
	*server
	seen map[string]bool
}

// quiet is how long nothing may alert of the sidestep that is well: ten evaluations.
const quiet = 10 * evaluations

// calm waits until nothing has alerted of the sidestep that is well for ten evaluations in a
// row. Before that something may: a busy machine lets scrapes and searches wait for seconds,
// and the rules are in a hurry.
func (w *watch) calm() {
	w.t.Helper()
	var last []alert
	since := time.Now()
	eventually(w.t, patience, func() bool {
		now := slices.DeleteFunc(w.firing(), func(a alert) bool { return a.Labels["job"] != well })
		if len(now) > 0 {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quiet
	}, "alerts of what is well again and again, at last: %v", &last)
}

// await waits until all of these have fired. What they say must be complete.
func (w *watch) await(all ...string) {
	w.t.Helper()
	var missing []string
	eventually(w.t, patience, func() bool {
		for _, a := range w.firing() {
			w.look(a)
		}
		missing = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return w.seen[name] })
		return len(missing) == 0
	}, "have not fired: %v", &missing)
}

// look takes in an alert that fires.
func (w *watch) look(a alert) {
	w.t.Helper()
	name := a.Labels["alertname"]
	for _, text := range a.Annotations {
		require.NotContains(w.t, text, "<no value>")
		require.NotContains(w.t, text, "<error")
		require.NotContains(w.t, text, "%!")
	}
	for label, value := range comesAbout[name] {
		if a.Labels[label] != value {
			return
		}
	}
	if !w.seen[name] {
		w.t.Logf("after %s: %s: %s", time.Since(w.began).Round(time.Second), name, a.Annotations["description"])
	}
	w.seen[name] = true
}
