package page

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

// lookAt makes the page believe that somebody looks at it, or nobody.
func (tab *tab) lookAt(looks bool) {
	tab.t.Helper()
	tab.await(fmt.Sprintf(`(() => { Object.defineProperty(document, "hidden", {value: %t, configurable: true}); document.dispatchEvent(new Event("visibilitychange")); return true })()`, !looks))
}

// allFine is a sidestep of which the nodes are fine.
func allFine() *scripted {
	return &scripted{status: func() admin.Status {
		return admin.Status{Mode: "route", Nodes: []any{node("es-1", "fine", 4), node("es-2", "fine", 4)}}
	}}
}

// road leads connections to a server. Those that were made before the last kill are dead: nothing comes through, and nobody
// is told.
type road struct {
	net.Listener
	kills atomic.Int64
}

func (r *road) kill() { r.kills.Add(1) }

// roadTo returns a road to base, and its own address.
func roadTo(t *testing.T, base string) (*road, string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	r := &road{Listener: listener}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				_ = client.Close()
				return
			}
			made := r.kills.Load()
			carry := func(from, to net.Conn) {
				defer to.Close()
				_, _ = io.Copy(writer(func(p []byte) (int, error) {
					if r.kills.Load() > made {
						return len(p), nil
					}
					return to.Write(p)
				}), from)
			}
			go carry(client, server)
			go carry(server, client)
		}
	}()
	return r, "http://" + listener.Addr().String()
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// The connection of the stream may die without a word, as when a laptop slept or a tunnel broke: the browser waits on.
func TestTheStreamIsMadeAnewWhereItsConnectionIsDead(t *testing.T) {
	t.Parallel()
	r, base := roadTo(t, allFine().serve(t))
	tab := open(t, base, "/", desktop())
	tab.awaitText("#link", "live")
	r.kill()
	tab.awaitText("#link", "late")
	tab.awaitText("#link", "live")
	const asked = `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/status")).length`
	before, news := eval[int](tab, asked), 5
	for range news {
		tab.changes("#at")
	}
	require.Less(t, eval[int](tab, asked)-before, news, "the stream tells it again")
}

// Of a tab that nobody looks at the title is all that is seen.
func TestTheTitleTellsThatSidestepIsGone(t *testing.T) {
	t.Parallel()
	r, base := roadTo(t, allFine().serve(t))
	tab := open(t, base, "/", desktop())
	tab.awaitText("#headline-text", "All 2 nodes fine.")
	tab.await(`document.title === "All 2 nodes fine. – sidestep"`)
	tab.lookAt(false)
	tab.setTolerant(true) // it does not get its connection back
	r.kill()
	require.NoError(t, r.Close())
	tab.await(`document.title === "✕ No news from sidestep"`)
	tab.lookAt(true)
	tab.awaitText("#old", "The connection to sidestep is gone")
}

// A proxy on the way may answer with a page of its own, as to log in.
func TestAPageOfSomethingElseIsNoAnswer(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(allFine().serve(t))
	require.NoError(t, err)
	var out atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(at)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if out.Load() {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<p>Log in</p>")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	tab := open(t, server.URL, "/", desktop())
	tab.awaitText("#link", "live")
	tab.tolerate(func() {
		out.Store(true)
		server.CloseClientConnections()
		tab.awaitText("#old", "The connection to sidestep is gone")
		tab.tabTo(`#switch [data-mode="off"]`)
		tab.press("Enter")
		tab.tabTo("#switch-confirm")
		tab.press("Enter")
		tab.awaitText("#switch-error", "Not switched: ")
		out.Store(false)
		tab.awaitText("#link", "live")
	})
}

// A proxy may gather what comes before it passes any of it on.
func TestThePageBehindAProxyThatGathersEvents(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(allFine().serve(t))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	tab := open(t, server.URL, "/", desktop())
	tab.awaitText("#link", "every 10 s")
	tab.awaitText("#headline-text", "All 2 nodes fine.")
	tab.changes("#at")
	require.Equal(t, "every 10 s", tab.text("#link"))
	require.True(t, eval[bool](tab, `document.querySelector("#old").hidden`))
}

// What is not answered is not asked again meanwhile: the questions would pile up in the browser, and sidestep would have to
// answer all of them once it can.
func TestQuestionsWaitForTheirAnswers(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	wait := func() any {
		<-answer
		return []any{}
	}
	s := allFine()
	s.slow, s.explain = wait, wait
	base := s.serve(t)
	tab := open(t, base, "/ui/icon.svg", desktop())
	_, err := chromedp.Call(tab.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "const real = fetch; window.asked = []; window.fetch = (path, ...rest) => { asked.push(path); return real(path, ...rest) }",
	})
	require.NoError(t, err)
	t.Cleanup(func() { close(answer) }) // before the server ends
	tab.goTo("/?explain=x")
	tab.awaitText("#headline-text", "All 2 nodes fine.")
	tab.lookAt(true) // it asks about slow requests, as it does in time
	tab.await(`performance.now() > 7000`)
	require.Equal(t, []string{"/explain?target=x", "/history?seconds=300", "/slow?limit=20"}, eval[[]string](tab, `asked.filter((path) => path !== "/status").sort()`))
}

// While there are few words for many nodes.
func TestManyNodesInSlowStart(t *testing.T) {
	var nodes []any
	for i := range 200 {
		nodes = append(nodes, node(fmt.Sprintf("es-%d", i), "ramping", 4))
	}
	tab := open(t, (&scripted{status: func() admin.Status { return admin.Status{Mode: "route", Nodes: nodes} }}).serve(t), "/", desktop())
	tab.awaitText("#headline-text", "es-0, es-1, es-2, es-3 and 196 more are in slow start: their share grows.")
}

// An explanation is asked for again while it is read. In a narrow window it is wider than that.
func TestAnExplanationThatIsReadStaysWhereItIs(t *testing.T) {
	t.Parallel()
	s := allFine()
	var asked atomic.Int64
	s.explain = func() any {
		return explanation("ranked", fmt.Sprintf("summary %d", asked.Add(1)))
	}
	tab := open(t, s.serve(t), "/?explain=x", phone())
	tab.await(`document.querySelector("#explain-answer .scroll")`)
	tab.await(`(document.querySelector("#explain-answer .scroll").scrollLeft = 60)`)
	for range 2 {
		tab.changes("#explain-answer")
	}
	require.InDelta(t, 60, eval[float64](tab, `document.querySelector("#explain-answer .scroll").scrollLeft`), 1)
}

// On a phone the titles of the table are out of sight; their buttons are seen while they have the focus.
func TestWhatHasTheFocusIsSeen(t *testing.T) {
	tab := open(t, allFine().serve(t), "/", phone())
	tab.awaitText("#headline-text", "All 2 nodes fine.")
	require.False(t, eval[bool](tab, seen(`#nodes-head [data-key="name"] button`)))
	tab.tabTo(`#nodes-head [data-key="rank"] button`)
	require.True(t, eval[bool](tab, seen(`#nodes-head [data-key="rank"] button`)))
	tab.fits(phone())
	tab.accessible()
	tab.press("Enter")
	require.Equal(t, "descending", eval[string](tab, `document.querySelector('[data-key="rank"]').ariaSort`))
}

// The titles beside the figures of a node are read, one by one, in the narrowest window.
func TestTheFiguresOfANodeFit(t *testing.T) {
	l := look{width: 320, height: 700, phone: true}
	tab := open(t, allFine().serve(t), "/", l)
	tab.awaitText("#headline-text", "All 2 nodes fine.")
	require.Empty(t, eval[[]string](tab, `[...document.querySelectorAll("#nodes-body td")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.dataset.title)`))
	tab.fits(l)
	tab.accessible()
}

// seen is whether an element is what is seen in its middle.
func seen(selector string) string {
	return fmt.Sprintf(`(() => { const e = document.querySelector(%q); const r = e.getBoundingClientRect();
		return e.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)) })()`, selector)
}

// Days stand where there is room for them, which is not at the ticks of an axis.
func TestTheAxisOfAnOldSpike(t *testing.T) {
	tab := open(t, (&scripted{records: map[string]any{"s1": mergeSpike("s1")}, folded: stacks()}).serve(t), "/spikes/s1", desktop())
	tab.await(`document.querySelector("#strips canvas")`)
	const told = `import("/ui/strips.js").then(({drawStrips}) => {
		const real = window.uPlot;
		let ticks;
		window.uPlot = function (options, data, plot) { ticks = options.axes[0].values(null, [1e9]); return new real(options, data, plot); };
		drawStrips(document.querySelector("#strips"), {strips: [{title: "a", unit: "ms", at: [1e9], lines: [{label: "b", tone: 1, values: [1]}]}], from: 1e9 - 5, to: 1e9 + 5, began: 1e9, ended: 1e9 + 1});
		window.uPlot = real;
		return ticks[0];
	})`
	require.Regexp(t, `^\d\d:\d\d:\d\d$`, eval[string](tab, told))
}
