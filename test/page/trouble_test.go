package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

// A node that answers no polls is not ejected, and not fine either.
func TestASilentNodeIsNamed(t *testing.T) {
	silent := node("es-3", "unresponsive", 4)
	silent["why"] = "no answer within 1s"
	serve := func(nodes ...any) string {
		return (&scripted{status: func() admin.Status {
			return admin.Status{Mode: "route", Nodes: nodes, Spikes: []any{spikeOf("s1", "es-3", "unresponsive", 12*time.Second, 0)}}
		}}).serve(t)
	}
	fine, later := node("es-1", "fine", 4), node("es-5", "of a later version", 4)
	base := serve(fine, node("es-2", "fine", 5), silent)
	tab := open(t, base, "/", desktop())
	for _, width := range []int64{1280, 900, 390} {
		l := look{width: width, height: 860}
		tab.goToIn(l, "/")
		tab.await(`/^es-3 does not answer polls, for \d+\ss now: it coordinates nothing. Cause: no answer.$/.test(document.querySelector("#headline-text").innerText)`)
		require.Equal(t, "es-3 unresponsive", rows(tab)[0])
		require.Equal(t, "no answer within 1s", tab.text("#nodes-body .why"))
		tab.fits(l)
	}
	tab = open(t, serve(fine, silent, node("es-4", "unresponsive", 4), later), "/", desktop())
	tab.await(`/^2 of 4 nodes do not answer polls: es-3 \(unresponsive, \d+\ss\) and es-4 /.test(document.querySelector("#headline-text").innerText)`)
	open(t, serve(fine, later), "/", desktop()).awaitText("#headline-text", "1 of 2 nodes fine, 1 unknown")
}

// Dedicated managers are not polled, which is no reason to worry.
func TestNodesThatAreNotPolled(t *testing.T) {
	manager := node("a-manager", "unknown", 4)
	manager["not_polled"], manager["rank"], manager["since"] = true, nil, nil
	tab := open(t, (&scripted{status: func() admin.Status {
		return admin.Status{Mode: "route", Nodes: []any{manager, node("es-1", "fine", 4), node("es-2", "fine", 4)}}
	}}).serve(t), "/", desktop())
	tab.awaitText("#headline-text", "All 2 nodes fine.")
	require.Equal(t, []string{"es-1 fine", "es-2 fine", "a-manager not polled"}, rows(tab))
}

// Whatever a client cannot use has failed.
func TestTheShareThatFailed(t *testing.T) {
	var asked atomic.Int64
	tab := open(t, (&scripted{status: func() admin.Status {
		n := asked.Add(1)
		return admin.Status{
			Mode: "route", Nodes: []any{node("es-1", "fine", 4)}, Requests: 100 * n, Decisions: map[string]int64{"ranked": 100 * n},
			Outcomes: map[string]int64{"ok": 70 * n, "client_error": 5 * n, "canceled": 5 * n, "cut_off": 10 * n, "refused": 5 * n, "engine_error": 2 * n, "partial": 2 * n, "unreachable": n},
		}
	}}).serve(t), "/", desktop())
	tab.awaitText("#fact-failed", "20 %")
}

// Names may be as long as the engines let them.
func TestLongNamesFit(t *testing.T) {
	long := "es-" + strings.Repeat("x", 248) + "-9"
	bad := node(long, "slow", 300)
	bad["why"], bad["limit"], bad["admitted"], bad["waiting"], bad["other_clients"] = strings.Repeat("why", 100), 12.5, 12, 3, 0
	record := mergeSpike("s1")
	record["node"], record["summary"], record["why"] = long, long, long
	record["captures"] = []any{map[string]any{"at": time.Now(), "took_ms": 2, "via": long, "via_took_ms": 3, "via_error": long + " got no answer from the node", "notes": []string{long}}}
	record["tasks"] = []any{map[string]any{"action": "search", "indices": long, "running_ms": 812.0}}
	record["hot_threads"] = []any{map[string]any{"at": time.Now(), "via": long, "threads": []any{map[string]any{"name": "elasticsearch[" + long + "][search][T#4]", "cpu_percent": 40.2}}}}
	class := map[string]any{"class": strings.Repeat("c", 60), "waiting": 1234, "admitted": 50_000, "refused": 7, "dropped": 20, "would_wait": 3, "would_refuse": 1}
	base := (&scripted{
		records: map[string]any{"s1": record}, folded: stacks(),
		explain: map[string]any{
			"target": long, "mode": "route", "steered": true, "reason": "ranked", "nodes": []string{long, long}, "exact": true, "preference": long, "coordinator": long,
			"shards":   []any{map[string]any{"index": long, "shard": 0, "copies": []any{map[string]any{"node": long, "node_id": long, "state": "slow", "rank": 1, "parts": map[string]any{}, "listed": false}}}},
			"decision": map[string]any{"candidates": []any{map[string]any{"node_id": long, "why": long}}},
		},
		slow: func() any {
			attempts := []any{map[string]any{"kind": "first", "node": long, "nodes": []string{long}, "outcome": "transport", "error": long}}
			return []any{map[string]any{"at": time.Now(), "duration_ms": 900, "operation": "search", "target": long, "status": 200, "outcome": "ok", "reason": "ranked", "nodes": []string{long}, "coordinator": long, "attempts": attempts}}
		},
		status: func() admin.Status {
			return admin.Status{
				Mode: "route", Nodes: []any{node("es-1", "fine", 4), bad}, Spikes: []any{spikeOf("s1", long, "gc_pause", time.Minute, 0)},
				Admission: &admin.Admission{Mode: "auto", Classes: []any{class}},
				Bulks:     &admin.Bulks{Mode: "route", Indices: []any{map[string]any{"index": long, "bulks": 12_000, "shards": 6, "avoided": []int{0, 3}, "skew": 1.134}}},
			}
		},
	}).serve(t)
	tab := open(t, base, "/?explain=x", desktop())
	for _, width := range []int64{1280, 900, 390} {
		l := look{width: width, height: 860}
		tab.goToIn(l, "/?explain=x")
		tab.awaitText("#headline-text", "has been ejected")
		tab.await(`document.querySelector("#spikes-body a") && document.querySelector(".copies .why")`)
		require.Regexp(t, `^…x+-9$`, tab.text("#spikes-lanes span"), "the end, where names differ")
		require.False(t, eval[bool](tab, `[...document.querySelectorAll("#spikes-lanes span, #spikes-body")].some((e) => e.scrollWidth > e.closest("section").clientWidth - 20)`), "within its frame")
		tab.await(`document.querySelector("#slow-list details") && (document.querySelector("#slow-list details").open = true)`)
		tab.fits(l)
		tab.goTo("/spikes/s1")
		tab.await(`document.querySelector("#captures details") && document.querySelector(".flame .frame")`)
		tab.await(`[...document.querySelectorAll("details")].map((d) => (d.open = true))`)
		tab.fits(l)
	}
}

// A record of a node that was not asked, as the sidesteps that follow a relay mostly do not, says why.
func TestASpikeOfWhichNothingWasAsked(t *testing.T) {
	const why = "not asked: too many nodes were in trouble at once"
	record := mergeSpike("s1")
	record["hot_threads"], record["tasks"] = []any{}, []any{}
	record["captures"] = []any{map[string]any{"at": time.Now(), "took_ms": nil, "notes": []string{why}}, map[string]any{"at": time.Now(), "took_ms": nil, "notes": []string{why}}}
	tab := open(t, (&scripted{records: map[string]any{"s1": record}}).serve(t), "/spikes/s1", desktop())
	tab.awaitText("#captures", why)
	require.Equal(t, why, tab.text("#captures"))
	require.Equal(t, "Seen as slow: response time 310 ms, limit 42 ms", tab.text("#why"))
	tab.accessible()
}

// A spike that lasts for hours has figures of its first minutes, which fill the axis, and the title tells for how long
// it has lasted.
func TestASpikeThatLastsForHours(t *testing.T) {
	fresh := mergeSpike("s1")
	fresh["began"], fresh["ended"] = time.Now().Add(-20*time.Second).UTC(), nil
	tab := open(t, (&scripted{records: map[string]any{"s1": fresh}, folded: stacks()}).serve(t), "/spikes/s1", desktop())
	tab.awaitText("#title", "es-3 has been slow for ")
	tab.await(fmt.Sprintf(`document.querySelector("#title").innerText.replaceAll("\u00a0", " ") !== %q`, tab.text("#title")))

	record, began := mergeSpike("s2"), time.Now().Add(-5*time.Hour).UTC()
	record["began"], record["ended"] = began, nil
	record["samples"], record["stats"] = samples(began, 300*time.Second), counters(began, 30*time.Second)
	body, err := json.Marshal(record)
	require.NoError(t, err)
	line := eval[map[string]float64](tab, fmt.Sprintf(`import("/ui/timeline.js").then((m) => m.timeline(%s, Date.now())).then(({from, to, began}) => ({before: began - from, after: to - began}))`, body))
	require.InDelta(t, 60, line["before"], 1)
	require.InDelta(t, 300, line["after"], 1)
}

// The first answer of a node in trouble may be long under way, and the next one arrive right after it.
func TestRatesAreOfTheNodesOwnClock(t *testing.T) {
	tab := open(t, (&scripted{}).serve(t), "/", desktop())
	const record = `{"node": "a", "began": "2026-01-01T00:00:00.000Z", "stats": [
		{"at": "2026-01-01T00:00:01.900Z", "clock_ms": 1000, "query_ms": 5000}, {"at": "2026-01-01T00:00:02.000Z", "clock_ms": 3000, "query_ms": 9000}]}`
	require.InDelta(t, 2, eval[float64](tab, `import("/ui/timeline.js").then((m) => m.timeline(`+record+`, Date.now()).strips.find((s) => s.title === "Threads that query and fetch").lines[0].values[1])`), 1e-9)
}

// The clock of sidestep's machine may be set back: the page goes on from there.
func TestThePageGoesOnWhenTheClockIsSetBack(t *testing.T) {
	tab := open(t, (&scripted{}).serve(t), "/", desktop())
	const node = `nodes: [{id: "a", rank: 1, parts: {response_time_ms: n}, share_last_minute: 0.5}]`
	got := eval[map[string]any](tab, `import("/ui/store.js").then(({Store}) => {
		const store = new Store();
		const add = (second, n) => store.add({at: new Date(1e12 + 1000 * second).toISOString(), requests: n, `+node+`});
		for (const second of [0, 1, 2, 2, 1.1]) add(second, 10 * second);
		const before = store.rates().all;
		for (const second of [-3600, -3599, -3598]) add(second, 100 * (second + 3602));
		return {before, after: store.rates().all, points: store.line("a").length, last: store.line("a").at(-1).response};
	})`)
	require.Equal(t, map[string]any{"before": 10.0, "after": 100.0, "points": 3.0, "last": 400.0}, got)
}

// All nodes of a large cluster may be in trouble at once, as where sidestep's own network is gone. The list is drawn again
// each second, so it has an end.
func TestManySpikesThatLast(t *testing.T) {
	var nodes, spikes []any
	for i := range 120 {
		name := fmt.Sprintf("es-%d", i)
		nodes, spikes = append(nodes, node(name, "unreachable", 4)), append(spikes, spikeOf("s"+name, name, "unresponsive", time.Minute, 0))
	}
	for _, l := range []look{desktop(), phone()} {
		tab := open(t, (&scripted{status: func() admin.Status {
			return admin.Status{Mode: "route", Nodes: nodes, Spikes: spikes}
		}}).serve(t), "/", l)
		tab.await(`document.querySelector("#spikes-body a")`)
		require.Equal(t, 50, eval[int](tab, `document.querySelectorAll("#spikes-body tr").length`))
		require.Equal(t, 50, eval[int](tab, `document.querySelectorAll("#spikes-chart rect").length`))
		require.Equal(t, "and 70 more, which /spikes lists.", tab.text("#spikes-more"))
		tab.fits(l)
		tab.accessible()
	}
}

// A browser opens six connections to a host, for all of its tabs.
func TestTabsThatNobodyLooksAtHoldNoConnection(t *testing.T) {
	t.Parallel()
	var bad atomic.Bool
	base := (&scripted{status: func() admin.Status {
		state := map[bool]string{false: "fine", true: "slow"}[bad.Load()]
		return admin.Status{Mode: "route", Nodes: []any{node("es-1", "fine", 4), node("es-2", state, 4)}}
	}}).serve(t)
	var tabs []*tab
	for range 8 {
		tab := open(t, base, "/", desktop())
		tab.awaitText("#headline-text", "All 2 nodes fine.")
		tab.lookAt(false)
		tabs = append(tabs, tab)
	}
	bad.Store(true)
	tabs[0].await(`document.title.startsWith("▲")`)
	tabs[0].lookAt(true)
	tabs[0].awaitText("#link", "live")
	require.True(t, eval[bool](tabs[0], `document.querySelector("#old").hidden`))
}

// A listener has no room for more streams, or a proxy on the way lets none through: the page asks.
func TestThePageWithoutAStream(t *testing.T) {
	t.Parallel()
	base := (&scripted{status: func() admin.Status {
		return admin.Status{Mode: "route", Nodes: []any{node("es-1", "fine", 4)}}
	}}).serve(t)
	for range 64 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/events", http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = response.Body.Close() })
	}
	tab := open(t, base, "/ui/icon.svg", desktop())
	tab.tolerate(func() { // the browser calls a 503 an error
		tab.goTo("/")
		tab.awaitText("#headline-text", "The only node is fine.")
		tab.awaitText("#link", "every 10 s")
		require.True(t, eval[bool](tab, `document.querySelector("#old").hidden`))
		tab.goTo("/ui/icon.svg")
	})
}
