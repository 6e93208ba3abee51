package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
	simcluster "sidestep/internal/sim/cluster"
)

func TestSpikePage(t *testing.T) {
	base := (&scripted{records: map[string]any{"s1": mergeSpike("s1")}, folded: stacks()}).serve(t)
	for name, l := range map[string]look{"wide": desktop(), "dark": {width: 1280, height: 860, dark: true}, "narrow": phone()} {
		t.Run(name, func(t *testing.T) {
			tab := open(t, base, "/spikes/s1", l)
			tab.awaitText("#title", "es-3 was slow for 40 s: merging of segments")
			require.Contains(t, tab.text("#cause"), "threads busy with merging during the spike\n2.4 threads")
			require.Contains(t, tab.text("#cause"), "1 other cause thought of")
			titles := eval[[]string](tab, `[...document.querySelectorAll("#strips figcaption b")].map((e) => e.innerText)`)
			require.Equal(t, []string{
				"Response time of a shard search", "Answer to a poll, over HTTP", "Search pool of the node", "Share of the shard queries",
				"Threads that query and fetch", "Threads that merge, refresh and flush", "Garbage collection", "CPU of the process", "Heap",
			}, titles)
			require.Regexp(t, `^Threads that merge, refresh and flush, threads. merges: before 0\.06, during 2\.34, at most 2\.4\d?;`,
				eval[string](tab, `document.querySelectorAll("#strips .plot")[5].getAttribute("aria-label")`))
			require.Equal(t, 1, eval[int](tab, `new Set([...document.querySelectorAll("#strips .u-over")].map((e) => e.getBoundingClientRect().width)).size`), "one time axis")
			tab.await(`document.querySelectorAll(".flame .frame").length > 8`)
			require.Contains(t, tab.text("#threads"), "Lucene Merge Thread #12")
			require.Contains(t, tab.text("#tasks"), "products")
			require.Contains(t, tab.text("#captures"), "asked 2 times")
			tab.fits(l)
			tab.accessible()
			tab.keep("spike-" + name)
		})
	}
}

func TestFlameGraphByKeyboard(t *testing.T) {
	base := (&scripted{records: map[string]any{"s1": mergeSpike("s1")}, folded: stacks()}).serve(t)
	tab := open(t, base, "/spikes/s1", desktop())
	tab.await(`document.querySelector(".flame .frame")`)
	tab.tabTo(`.frame[tabindex="0"]`)
	told := func() string { return tab.text(".frame-told") }
	require.Equal(t, "all: 100 %, 21 samples", told())
	tab.press("ArrowDown")
	require.Contains(t, told(), ": 71 %, 15 samples", "the widest first")
	tab.press("ArrowRight")
	require.Contains(t, told(), ": 29 %, 6 samples")
	before := eval[float64](tab, `document.activeElement.getBoundingClientRect().width`)
	tab.press("Enter")
	require.Greater(t, eval[float64](tab, `document.activeElement.getBoundingClientRect().width`), 2*before, "zoomed in")
	tab.press("Escape")
	require.Equal(t, "all: 100 %, 21 samples", told())
	tab.reachesAll()
}

// In a narrow window what is told of a frame takes more lines than of another.
func TestTheFocusStaysInTheFlameGraph(t *testing.T) {
	tab := open(t, (&scripted{records: map[string]any{"s1": mergeSpike("s1")}, folded: stacks()}).serve(t), "/spikes/s1", phone())
	tab.await(`document.querySelector(".flame .frame")`)
	tab.tabTo(`.frame[tabindex="0"]`)
	height := `document.querySelector(".frame-told").offsetHeight`
	before := eval[float64](tab, height)
	tab.press("ArrowDown")
	require.Greater(t, eval[float64](tab, height), before)
	eval[bool](tab, `new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(() => then(true))))`)
	require.True(t, eval[bool](tab, `document.activeElement.matches(".frame")`))
}

func TestSpikeThatIsGone(t *testing.T) {
	base := (&scripted{}).serve(t)
	tab := open(t, base, "/ui/icon.svg", desktop())
	tab.tolerate(func() { // the browser calls a 404 an error
		tab.goTo("/spikes/none")
		tab.awaitText("#title", "No such spike")
		require.Contains(t, tab.text("#problem"), "only the newest are kept")
	})
}

func TestSpikesOnTheOverview(t *testing.T) {
	spikes := []any{
		spikeOf("s3", "es-3", "network_transport", 12*time.Second, 0),
		spikeOf("s2", "es-10", "gc_pause", 5*time.Minute, 20*time.Second),
		spikeOf("s1", "es-2", "brand_new_cause", 40*time.Minute, time.Minute),
	}
	record := mergeSpike("s3")
	service := &scripted{records: map[string]any{"s3": record}, folded: stacks(), status: func() admin.Status {
		return admin.Status{
			Mode: "route", Spikes: spikes, Requests: 9, Decisions: map[string]int64{"ranked": 9},
			Nodes: []any{node("es-1", "fine", 4), node("es-2", "fine", 5), node("es-3", "slow", 310), node("es-10", "fine", 4)},
		}
	}}
	for name, l := range map[string]look{"wide": desktop(), "narrow": phone()} {
		t.Run(name, func(t *testing.T) {
			tab := open(t, service.serve(t), "/", l)
			tab.await(`/^es-3 has been ejected for \d+\ss: slow, 310\sms a search \(others 4.0\sms\). Cause: network between nodes.$/.test(document.querySelector("#headline-text").innerText)`)
			require.Equal(t, []string{"es-3 slow", "es-1 fine", "es-2 fine", "es-10 fine"}, rows(tab))
			list := eval[[]string](tab, `[...document.querySelectorAll("#spikes-body tr")].map((r) => [...r.children].slice(1, 4).map((c) => c.innerText.trim().replaceAll("\u00a0", " ")).join(" | "))`)
			require.Len(t, list, 3)
			require.Regexp(t, `^\d+ s, lasting \| slow \| network between nodes$`, list[0])
			require.Equal(t, "20 s | slow | garbage collection", list[1])
			require.Equal(t, "60 s | slow | brand new cause", list[2])
			require.Equal(t, 3, eval[int](tab, `document.querySelectorAll("#spikes-chart rect").length`))
			tab.fits(l)
			tab.accessible()
			tab.keep("overview-spikes-" + name)
			tab.tabTo(`[data-spike="s3"]`)
			tab.press("Enter")
			tab.await(`location.pathname === "/spikes/s3" && document.querySelector("#title")?.innerText.startsWith("es-3 was slow")`)
		})
	}
}

func TestABusyNodeIsNamed(t *testing.T) {
	busy := node("es-3", "busy", 120)
	busy["why"] = "a probe took 340 ms or more, those of its peers 3 ms, while searches wait in its queue"
	service := &scripted{status: func() admin.Status {
		return admin.Status{
			Mode: "route", Spikes: []any{spikeOf("s1", "es-3", "queue_saturation", 12*time.Second, 0)},
			Nodes: []any{node("es-1", "fine", 4), node("es-2", "ramping", 5), busy},
		}
	}}
	tab := open(t, service.serve(t), "/", desktop())
	tab.await(`/^es-3 has been avoided for \d+\ss: busy, a probe took 340 ms or more, .* in its queue. Cause: full search queue.$/.test(document.querySelector("#headline-text").innerText)`)
	require.Equal(t, []string{"es-3 busy", "es-2 ramping", "es-1 fine"}, rows(tab))
	require.Zero(t, eval[int](tab, `document.querySelectorAll("#nodes-body tr.out").length`), "it is not ejected")
	tab.accessible()
	tab.keep("overview-busy")
}

func TestWhatComesFromTheClusterIsText(t *testing.T) {
	const evil, seen = `<img src=x onerror=alert(1)>"'&` + "\u202egnp\x1b[2J\u200b", `<img src=x onerror=alert(1)>"'&�gnp�[2J�`
	service := &scripted{
		setErr:  errScripted,
		records: map[string]any{evil: mergeSpike(evil)},
		explain: map[string]any{
			"target": evil, "mode": "route", "steered": true, "reason": evil, "nodes": []string{evil}, "exact": true,
			"shards":   []any{map[string]any{"index": evil, "shard": 0, "copies": []any{map[string]any{"node": evil, "node_id": evil, "state": evil, "rank": 1, "parts": map[string]any{}, "listed": false}}}},
			"decision": map[string]any{"candidates": []any{map[string]any{"node_id": evil, "why": evil}}},
		},
		status: func() admin.Status {
			bad := node(evil, "slow", 10)
			bad["why"] = evil
			return admin.Status{
				Mode: "route", Engine: admin.Engine{Name: evil, Version: evil}, Nodes: []any{bad},
				Requests: 1, Decisions: map[string]int64{evil: 1}, Outcomes: map[string]int64{evil: 1},
				Spikes: []any{spikeOf(evil, evil, evil, time.Minute, 0)},
			}
		},
	}
	tab := open(t, service.serve(t), "/?explain=x", desktop())
	tab.await(`document.querySelector("#nodes-body .name")`)
	require.Equal(t, seen, tab.text("#nodes-body .name"))
	require.Contains(t, tab.text("#headline-text"), seen)
	require.Contains(t, eval[string](tab, "document.title"), seen)
	require.Equal(t, seen, tab.text("#decisions-body .reason"))
	require.Contains(t, tab.text("#spikes-body"), seen)
	require.Contains(t, eval[string](tab, `document.querySelector("#nodes-body .name").title`), seen)
	tab.await(`document.querySelector(".copies .why")`)
	require.Equal(t, seen, tab.text(".copies .why"))
	require.Zero(t, eval[int](tab, `document.querySelectorAll("img, b > b").length`))
	require.Equal(t, "/spikes/"+`%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%22'%26%E2%80%AEgnp%1B%5B2J%E2%80%8B`, eval[string](tab, `document.querySelector("[data-spike]").getAttribute("href")`))

	tab.tolerate(func() { // the browser calls a 500 an error
		tab.tabTo(`#switch [data-mode="off"]`)
		tab.press("Enter")
		tab.tabTo("#switch-confirm")
		tab.press("Enter")
		tab.awaitText("#switch-error", fmt.Sprintf("Not switched: %s", errScripted))
	})
	require.True(t, eval[bool](tab, `document.querySelector("#switch-dialog").open`), "it stays, with the error")
	require.Equal(t, "route", tab.text(`#switch [aria-pressed="true"]`))
}

// A node whose transport is slow: what the recorder kept of it is what the page shows.
func TestRealSpike(t *testing.T) {
	s := startStage(t)
	s.forPictures(30 * time.Second)
	s.cluster.Nodes()[2].SetFault(simcluster.Fault{Extra: 300 * time.Millisecond, Jitter: 50 * time.Millisecond})
	tab := open(t, s.admin(), "/", desktop())
	const link = `[...document.querySelectorAll("#spikes-body a")].find((e) => e.innerText.startsWith("node-3,"))` // on a busy machine there are others
	tab.await(link)
	tab.awaitText("#headline-text", "Cause: network between nodes")
	s.forPictures(10 * time.Second)
	id := eval[string](tab, link+`.getAttribute("href")`)
	tab.goTo(id)
	tab.awaitText("#title", "node-3 has been slow for ")
	tab.awaitText("#title", ": network between nodes")
	tab.await(`document.querySelectorAll("#strips .plot canvas").length >= 5`)
	tab.await(`document.querySelectorAll("#cause .evidence li").length >= 1`)
	tab.await(`document.querySelectorAll(".flame .frame").length > 3`)
	require.Regexp(t, `asked \d+ times?; it answered each time`, tab.text("#captures"))
	tab.accessible()
	tab.screenshot("spike")
	tab.goTo(id + "?format=json")
	require.Contains(t, eval[string](tab, "document.body.innerText"), `"cause":"network_transport"`)
}
