// Package page opens the web page of the admin listener in a headless browser and
// looks at what an operator would see. Tests that mostly wait run side by side, when the others are done.
package page

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const (
	// patience is how long the page may take to show what it is to show.
	patience = 90 * time.Second
	// checker is where `make page-tools` installs axe-core.
	checker = "../../.cache/page/node_modules/axe-core/axe.min.js"
)

// tab is a page that is looked at.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu sync.Mutex
	// complaints are what the browser's console and its network say.
	complaints []string
	tolerant   bool
}

// look says how a tab is opened.
type look struct {
	width, height int64
	dark, phone   bool
}

func desktop() look { return look{width: 1280, height: 860} }
func phone() look   { return look{width: 390, height: 844, phone: true} }

// open opens a tab on base+path. When the test ends it must not have complained, nor
// have asked anybody but base for anything.
func open(t *testing.T, base, path string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx)) // opens the tab, which lives as long as ctx
	ctx, cancelLate := context.WithTimeout(ctx, 4*patience)
	t.Cleanup(cancelLate)
	tab := &tab{t: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Listen(ctx, tab.listen))
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	require.NoError(t, err)
	tab.goToIn(l, path)
	t.Cleanup(func() {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		require.Empty(t, tab.complaints, "what the browser complained of")
	})
	return tab
}

func (tab *tab) listen(event any) {
	complain := func(format string, args ...any) {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		if !tab.tolerant {
			tab.complaints = append(tab.complaints, fmt.Sprintf(format, args...))
		}
	}
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, tab.base) && !strings.HasPrefix(e.Request.URL, "data:") {
			complain("a request elsewhere: %s", e.Request.URL)
		}
	case *log.EventEntryAdded:
		icon := strings.HasSuffix(e.Entry.URL, "/favicon.ico") // of a document that is no page, and names none
		if !icon && (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) {
			complain("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			complain("console: %s", e.Args[0].Description)
		}
	case *runtime.EventExceptionThrown:
		complain("exception: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description)
	}
}

// tolerate lets the page complain while f runs: it is to lose its connection.
func (tab *tab) tolerate(f func()) {
	tab.setTolerant(true)
	defer tab.setTolerant(false)
	f()
}

func (tab *tab) setTolerant(on bool) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.tolerant = on
}

// goTo opens another page in the tab.
func (tab *tab) goTo(path string) {
	tab.t.Helper()
	tab.run(chromedp.Navigate(tab.base + path))
}

// goToIn opens another page in a window of another size: a tab of its own takes far longer.
func (tab *tab) goToIn(l look, path string) {
	tab.t.Helper()
	viewport := chromedp.EmulateViewport(l.width, l.height)
	if l.phone {
		viewport = chromedp.EmulateViewport(l.width, l.height, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	tab.run(viewport)
	tab.goTo(path)
}

// run does something in the tab that must succeed.
func (tab *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	require.NoError(tab.t, chromedp.Do(tab.ctx, actions...))
}

// eval evaluates an expression in the page.
func eval[T any](tab *tab, expression string) T {
	tab.t.Helper()
	out, err := chromedp.Run(tab.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(tab.t, err, expression)
	return out
}

// text returns the text of the first element that matches.
func (tab *tab) text(selector string) string {
	tab.t.Helper()
	return eval[string](tab, fmt.Sprintf("document.querySelector(%q)?.innerText.replaceAll('\u00a0', ' ') ?? '(none)'", selector))
}

// await waits until an expression of the page is true. While another page loads there
// may be none to ask.
func (tab *tab) await(expression string, why ...any) {
	tab.t.Helper()
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var done bool
		if done, last = chromedp.Run(tab.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")")); done {
			return
		}
	}
	require.Fail(tab.t, "never true: "+expression, "%v %v", last, why)
}

// awaitText waits until the text of an element contains a text.
func (tab *tab) awaitText(selector, want string) {
	tab.t.Helper()
	tab.await(fmt.Sprintf("document.querySelector(%q)?.innerText.replaceAll('\u00a0', ' ').includes(%q)", selector, want))
}
