package page

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// rows returns what the node table shows: name, state and reason of each row.
func rows(tab *tab) []string {
	return eval[[]string](tab, `[...document.querySelectorAll("#nodes-body tr")].map((r) =>
		r.querySelector(".name").innerText + " " + r.querySelector(".state").innerText.trim())`)
}

// awaitPast waits until the page knows rates, and its lines have a past.
func (tab *tab) awaitPast() {
	tab.t.Helper()
	tab.await(`document.querySelector("#fact-rate").innerText.endsWith("/s")`)
	tab.await(`[...document.querySelectorAll("#nodes-body .spark .line")].every((p) => (p.getAttribute("d") || "").length > 60)`)
}

func TestHealthyCluster(t *testing.T) {
	s := startStage(t)
	s.forPictures(30 * time.Second)
	tab := open(t, s.admin(), "/", desktop())
	tab.awaitText("#headline-text", "All 5 nodes fine.")
	tab.await(`[...document.querySelectorAll("#nodes-body tr")].map((r) => r.querySelector(".name").innerText + " " + r.dataset.state).join() ===
		"node-1 fine,node-2 fine,node-3 fine,node-4 fine,node-5 fine"`)
	tab.awaitPast()
	tab.await(`[...document.querySelectorAll("#decisions-body .reason")].some((e) => e.innerText === "no_outlier")`)
	require.Equal(t, "OpenSearch 3.6.0", tab.text("#engine"))
	require.Equal(t, "1.2.3", tab.text("#version"))
	require.Equal(t, "live", tab.text("#link"))
	require.Equal(t, "route", tab.text(`#switch [aria-pressed="true"]`))
	tab.accessible()
	tab.screenshot("overview-healthy")
}

func TestDegradedNode(t *testing.T) {
	s := startStage(t)
	s.forPictures(30 * time.Second)
	s.slow(3)
	s.forPictures(10 * time.Second)
	for name, l := range map[string]look{"overview-degraded": desktop(), "overview-degraded-dark": {width: 1280, height: 860, dark: true}, "overview-phone": phone()} {
		t.Run(name, func(t *testing.T) {
			tab := open(t, s.admin(), "/?explain=products", l)
			tab.await(`/^node-3 has been ejected for \d+\ss: slow, /.test(document.querySelector("#headline-text").innerText)`, "headline")
			require.Contains(t, []string{"node-3 slow", "node-3 failing"}, rows(tab)[0], "in trouble first")
			require.Len(t, rows(tab), 5)
			require.NotEmpty(t, tab.text("#nodes-body tr.out .why"))
			require.Contains(t, eval[string](tab, "document.title"), "node-3 has been ejected")

			tab.awaitText("#explain-answer .verdict", "Steered (ranked: ")
			require.Equal(t, 5, eval[int](tab, `[...document.querySelectorAll("#explain-answer .shard th")].map((e) => parseInt(e.innerText)).reduce((a, b) => a + b)`))
			tab.await(`(() => {
				const copies = [...document.querySelectorAll(".copies tbody tr:not(.shard)")].filter((r) => r.innerText.includes("node-3"));
				return copies.length > 0 && copies.every((r) => r.querySelector(".verdict-word").innerText === "not chosen" && r.querySelector(".why").innerText !== "");
			})()`, "its copies are not chosen, and it says why")
			tab.awaitPast()
			tab.fits(l)
			tab.accessible()
			tab.screenshot(name)
		})
	}
}

func TestTheSwitch(t *testing.T) {
	s := startStage(t)
	tab := open(t, s.admin(), "/", desktop())
	tab.awaitText("#headline-text", "fine")
	tab.tabTo(`#switch [data-mode="observe"]`)
	tab.press("Enter")
	tab.await(`document.querySelector("#switch-dialog").open`)
	require.Equal(t, "Switch routing from route to observe?", tab.text("#switch-title"))
	require.Equal(t, "route", string(s.Mode()), "not before it is confirmed")
	tab.accessible()
	tab.press("Escape")
	tab.await(`!document.querySelector("#switch-dialog").open`)
	require.Equal(t, "route", string(s.Mode()))

	tab.press("Enter") // the focus is where it was
	tab.await(`document.querySelector("#switch-dialog").open`)
	tab.tabTo("#switch-confirm")
	tab.press("Enter")
	tab.await(`!document.querySelector("#switch-dialog").open`)
	require.Equal(t, "observe", string(s.Mode()))
	tab.awaitText("#headline-text", "Observing only. All 5 nodes fine.")
	require.Equal(t, "observe", tab.text(`#switch [aria-pressed="true"]`))
	tab.awaitText("#observed", "no_outlier")

	require.NoError(t, s.SetMode("off")) // somebody else does
	tab.awaitText("#headline-text", "Routing is off.")
	tab.await(`document.querySelector('#switch [data-mode="off"]').getAttribute("aria-pressed") === "true"`)
}

func TestTheSwitchWithAToken(t *testing.T) {
	base := (&scripted{token: "opensesame"}).serve(t)
	tab := open(t, base, "/", desktop())
	tab.tabTo(`#switch [data-mode="off"]`)
	tab.press("Enter")
	require.False(t, eval[bool](tab, `document.querySelector("#switch-token").checkVisibility()`), "not before it is needed")
	tab.tolerate(func() { // the browser calls a 401 an error
		tab.tabTo("#switch-confirm")
		tab.press("Enter")
		tab.awaitText("#switch-error", "Not switched: this needs the token in admin.token_file")
		tab.await(`document.activeElement?.id === "switch-token"`)
		tab.accessible()
		tab.run(chromedp.KeyEvent("opensesam"))
		tab.press("Enter")
		tab.await(`document.querySelector("#switch-dialog").open && !document.querySelector("#switch-confirm").disabled`)
	})
	tab.run(chromedp.KeyEvent("e"))
	tab.press("Enter")
	tab.await(`!document.querySelector("#switch-dialog").open`)
	tab.await(`document.querySelector("#switch-token").value === ""`, "it is not kept")
}

func TestLostConnection(t *testing.T) {
	s := startStage(t)
	tab := open(t, s.admin(), "/", desktop())
	tab.awaitText("#headline-text", "All 5 nodes fine.")
	tab.tolerate(func() {
		s.cfg.Admin.Listen = s.AdminAddr().String()
		require.NoError(t, s.Stop(t.Context()))
		tab.awaitText("#old", "The connection to sidestep is gone")
		require.Equal(t, "lost", tab.text("#link"))
		require.Len(t, rows(tab), 5, "what was known stays")
		s.start(t)
		tab.await(`document.querySelector("#old").hidden && document.querySelector("#link").innerText === "live"`, "it connects again by itself")
	})
	tab.awaitText("#headline-text", "All 5 nodes fine.")
}

// Of a sidestep that ended while nobody looked.
func TestWhoLooksAgainIsToldThatSidestepIsGone(t *testing.T) {
	s := startStage(t)
	tab := open(t, s.admin(), "/", desktop())
	tab.awaitText("#headline-text", "All 5 nodes fine.")
	tab.awaitText("#link", "live")
	tab.lookAt(false)
	tab.setTolerant(true) // it does not get its connection back
	require.NoError(t, s.Stop(t.Context()))
	tab.await(`(() => { const link = document.querySelector("#link"); window.said = [];
		new MutationObserver(() => said.push(link.innerText)).observe(link, {childList: true, characterData: true, subtree: true}); return true })()`)
	tab.lookAt(true)
	tab.await(`said.includes("lost")`)
	require.Equal(t, []string{"lost"}, eval[[]string](tab, `said.filter((word) => word !== "late")`), "before, what is shown may be old")
}

func TestKeyboardReachesEverything(t *testing.T) {
	s := startStage(t)
	s.slow(3)
	tab := open(t, s.admin(), "/?explain=products", desktop())
	tab.await(`document.querySelector("#headline-text").innerText.startsWith("node-3 has been ejected")`)
	tab.await(`document.querySelector("#explain-answer table")`)
	tab.reachesAll()
}

// The table of nodes fits into windows of any width, and is cards in narrow ones.
func TestTheTableOfNodesFits(t *testing.T) {
	s := startStage(t)
	tab := open(t, s.admin(), "/", desktop())
	for _, width := range []int64{1100, 1024, 900, 861, 860, 600} {
		l := look{width: width, height: 860}
		tab.goToIn(l, "/")
		tab.awaitText("#headline-text", "All 5 nodes fine.")
		tab.fits(l)
	}
}

// While others become slow, a request that somebody reads stays open.
func TestASlowRequestThatIsReadStaysOpen(t *testing.T) {
	var newest atomic.Int64
	began := time.Now().UTC()
	s := &scripted{slow: func() any {
		all := []any{}
		for i := newest.Load(); i > max(0, newest.Load()-3); i-- {
			all = append(all, map[string]any{
				"at": began.Add(time.Duration(i) * time.Second), "duration_ms": 900, "operation": "search", "target": fmt.Sprintf("index-%d", i),
				"status": 200, "outcome": "ok", "reason": "ranked", "attempts": []any{},
			})
		}
		return all
	}}
	tab := open(t, s.serve(t), "/", desktop())
	shows := func(count int64, want string) {
		t.Helper()
		newest.Store(count)
		eval[bool](tab, `document.dispatchEvent(new Event("visibilitychange"))`) // it reads anew
		tab.await(`[...document.querySelectorAll("#slow-list .target")].map((e) => e.innerText).join() === "`+want+`"`, want)
	}
	shows(0, "")
	tab.await(`document.querySelector("#slow-empty").checkVisibility()`)
	shows(1, "index-1")
	require.False(t, eval[bool](tab, `document.querySelector("#slow-empty").checkVisibility()`))
	press := func() { eval[bool](tab, `!document.querySelector("#slow-list details:last-child summary").click()`) }
	press()
	shows(9, "index-9,index-8,index-7,index-1")
	require.Equal(t, []bool{false, false, false, true}, eval[[]bool](tab, `[...document.querySelectorAll("#slow-list details")].map((e) => e.open)`))
	press()
	shows(10, "index-10,index-9,index-8")
}

func TestSorting(t *testing.T) {
	s := startStage(t)
	tab := open(t, s.admin(), "/", desktop())
	tab.awaitText("#headline-text", "All 5 nodes fine.")
	tab.tabTo(`#nodes-head [data-key="name"] button`)
	tab.press("Enter")
	require.Equal(t, "ascending", eval[string](tab, `document.querySelector('[data-key="name"]').ariaSort`))
	tab.press("Enter")
	require.Equal(t, "node-5 fine", rows(tab)[0])
	tab.press("Enter")
	require.Equal(t, "node-1 fine", rows(tab)[0])
	require.False(t, eval[bool](tab, `document.querySelector('[data-key="name"]').hasAttribute("aria-sort")`), "as at first")
}

// Where the engine chooses, no copy is said to be chosen.
func TestAnExplanationWhereTheEngineChooses(t *testing.T) {
	engine := []string{"by the engine", "by the engine"}
	for reason, want := range map[string][]string{
		"no_outlier": engine, "no_choice": engine, "operation_off": engine, "preference_forbidden": engine, "fail_open": {"chosen", "chosen"},
	} {
		tab := open(t, (&scripted{explain: explanation(reason, "")}).serve(t), "/?explain=x", desktop())
		tab.await(`document.querySelector(".copies .why")`)
		require.Equal(t, want, eval[[]string](tab, `[...document.querySelectorAll(".copies .verdict-word")].map((e) => e.innerText)`), reason)
		require.Equal(t, []string{"", "it fails at once"}, eval[[]string](tab, `[...document.querySelectorAll(".copies .why")].map((e) => e.innerText)`))
	}
}

// Where the mode is not route no node is chosen to send a search through.
func TestAnExplanationNamesTheNodeThatASearchIsSentThrough(t *testing.T) {
	e := explanation("ranked", "").(map[string]any)
	e["coordinator"] = "es-2"
	tab := open(t, (&scripted{explain: e}).serve(t), "/?explain=x", desktop())
	tab.awaitText("#explain-answer", "Sent through\nes-2")
	delete(e, "coordinator")
	e["coordinators"] = []string{"es-2", "es-3"}
	tab = open(t, (&scripted{explain: e}).serve(t), "/?explain=x", desktop())
	tab.awaitText("#explain-answer", "Sent through\nes-2, es-3, in turn")
	e["mode"] = "observe"
	tab = open(t, (&scripted{explain: e}).serve(t), "/?explain=x", desktop())
	tab.awaitText("#explain-answer .verdict", "as the mode is observe")
	require.NotContains(t, tab.text("#explain-answer"), "Sent through")
}

// A request may be slow as it waited before the cluster.
func TestASlowRequestTellsThatItWaited(t *testing.T) {
	s := allFine()
	s.slow = func() any {
		return []any{map[string]any{"at": time.Now(), "duration_ms": 4100, "waited_ms": 4000, "class": "vip", "upstream_ms": 20, "operation": "search", "status": 200, "outcome": "ok", "reason": "ranked", "attempts": []any{}}}
	}
	tab := open(t, s.serve(t), "/", desktop())
	tab.await(`document.querySelector("#slow-list details") && (document.querySelector("#slow-list details").open = true)`)
	tab.awaitText("#slow-list", "Waited for admission\n4 000 ms, class vip")
}

// explanation is one of a shard with two copies.
func explanation(reason, summary string) any {
	copies := []any{
		map[string]any{"node": "es-1", "node_id": "a", "state": "fine", "rank": 4, "parts": map[string]any{}, "listed": true},
		map[string]any{"node": "es-2", "node_id": "b", "state": "failing", "rank": 5, "parts": map[string]any{}, "listed": true, "excluded": "failing"},
	}
	return map[string]any{
		"target": "x", "mode": "route", "reason": reason, "summary": summary, "nodes": []string{"es-1", "es-2"}, "exact": true,
		"decision": map[string]any{"candidates": []any{map[string]any{"node_id": "b", "why": "it fails at once"}}},
		"shards":   []any{map[string]any{"index": "x", "shard": 0, "copies": copies}},
	}
}
