package page

import (
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

// whileASpikeLasts returns where a sidestep is of which a node has been slow for a while.
func whileASpikeLasts(t *testing.T) string {
	t.Helper()
	record := mergeSpike("s1")
	began := time.Now().Add(-20 * time.Second).UTC()
	record["began"], record["ended"] = began, nil
	spike := spikeOf("s1", "es-3", "merge_burst", 20*time.Second, 0)
	spike["began"] = began
	return (&scripted{records: map[string]any{"s1": record}, folded: stacks(), status: func() admin.Status {
		return admin.Status{Mode: "route", Nodes: []any{node("es-1", "fine", 4), node("es-3", "slow", 310)}, Spikes: []any{spike}}
	}}).serve(t)
}

// changes waits until the text of an element is another one.
func (tab *tab) changes(selector string) {
	tab.t.Helper()
	tab.await(fmt.Sprintf("document.querySelector(%q).innerText !== %q", selector, eval[string](tab, fmt.Sprintf("document.querySelector(%q).innerText", selector))))
}

// selectText selects what an element says.
func (tab *tab) selectText(selector string) {
	tab.t.Helper()
	eval[bool](tab, fmt.Sprintf("!getSelection().selectAllChildren(document.querySelector(%q))", selector))
}

// Somebody who presses a mouse slowly gets where the link leads.
func TestTheLinkOfASpikeThatLasts(t *testing.T) {
	t.Parallel()
	for _, link := range []string{"#spikes-body a", "#spikes-chart a"} {
		t.Run(link, func(t *testing.T) {
			t.Parallel() // it waits
			tab := open(t, whileASpikeLasts(t), "/", desktop())
			tab.await(fmt.Sprintf("document.querySelector(%q)", link))
			at := eval[[]float64](tab, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`, link))
			left := func(p *input.DispatchMouseEventParams) { p.Button, p.ClickCount = input.MouseButtonLeft, 1 }
			tab.run(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, at[0], at[1], left))
			for range 7 {
				tab.changes(`#spikes-body [data-title="Lasted"]`)
			}
			tab.run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, at[0], at[1], left))
			tab.await(`location.pathname === "/spikes/s1"`)
		})
	}
}

// What is on record of a spike is copied into a chat while it lasts.
func TestTextOfASpikeThatLastsCanBeCopied(t *testing.T) {
	t.Parallel()
	tab := open(t, whileASpikeLasts(t), "/", desktop())
	tab.await(`document.querySelector("#spikes-body a")`)
	tab.selectText("#spikes-body .summary")
	for range 2 {
		tab.changes(`#spikes-body [data-title="Lasted"]`)
	}
	require.Equal(t, "es-3 was slow: merge_burst", eval[string](tab, "getSelection().toString()"))
}

// The clock of the browser's machine may be another.
func TestHowLongASpikeLastsIsToldByTheClockOfSidestep(t *testing.T) {
	base := whileASpikeLasts(t)
	tab := open(t, base, "/ui/icon.svg", desktop())
	_, err := chromedp.Call(tab.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "const real = Date.now; Date.now = () => real() + 3600e3",
	})
	require.NoError(t, err)
	tab.goTo("/spikes/s1")
	tab.awaitText("#title", "es-3 has been slow for ")
	require.Regexp(t, `^es-3 has been slow for \d\d s: `, tab.text("#title"))
}

// A spike that has ended may go on within 15 s, and its cause is named anew when its record is closed.
func TestARecordMayChangeForAWhileAfterItsEnd(t *testing.T) {
	t.Parallel()
	record := mergeSpike("s1")
	record["ended"] = time.Now().UTC()
	var asked atomic.Int64
	tab := open(t, (&scripted{records: map[string]any{"s1": record}, folded: stacks(), record: func() any {
		copied := maps.Clone(record)
		if asked.Add(1) > 2 {
			copied["cause"] = "gc_pause"
		}
		return copied
	}}).serve(t), "/spikes/s1", desktop())
	tab.awaitText("#title", ": garbage collection")
	tab.await(`document.querySelector("#cause .cause").innerText.startsWith("garbage collection")`)
}

// A connection may die under the question for the stacks, too.
func TestStacksThatDoNotComeAreAskedForAgain(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	var asked atomic.Int64
	base := (&scripted{records: map[string]any{"s1": mergeSpike("s1")}, fold: func() string {
		if asked.Add(1) == 1 {
			<-ended
		}
		return stacks()
	}}).serve(t)
	t.Cleanup(func() { close(ended) }) // before the server ends
	tab := open(t, base, "/spikes/s1", desktop())
	tab.awaitText("#title", "es-3 was slow for 40 s")
	tab.await(`document.querySelector(".flame .frame") && document.querySelector("#problem").hidden`)
}

// A record of which text is selected is not drawn again meanwhile. Then what came since is there.
func TestARecordOfWhichTextIsSelectedStays(t *testing.T) {
	t.Parallel()
	record := mergeSpike("s1")
	record["began"], record["ended"] = time.Now().Add(-20*time.Second).UTC(), nil
	var asked atomic.Int64
	service := &scripted{records: map[string]any{"s1": record}, folded: stacks(), record: func() any {
		copied := maps.Clone(record)
		copied["summary"] = fmt.Sprintf("asked %d times", asked.Add(1))
		if asked.Load() > 2 {
			copied["ended"] = time.Now().UTC()
		}
		return copied
	}}
	tab := open(t, service.serve(t), "/spikes/s1", desktop())
	tab.await(`document.querySelector("#cause .evidence li")`)
	tab.selectText("#cause .evidence li")
	tab.changes("#title")
	tab.awaitText("#title", "es-3 was slow for ")
	require.Contains(t, eval[string](tab, "getSelection().toString()"), "threads busy with merging during the spike")
	eval[bool](tab, "!getSelection().empty()")
	tab.await(`document.querySelector("#facts").innerText.includes("Ended\n") && !document.querySelector("#facts").innerText.includes("lasts")`)
}
