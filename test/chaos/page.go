package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/chromedp"

	"sidestep/test/browser"
	"sidestep/test/harness"
)

// Page is the web page of the admin listener, in a browser.
type Page struct {
	tab   context.Context
	close func()
}

// OpenPage opens the page in a browser of its own, with nothing but what it renders to
// tell of.
func OpenPage(ctx context.Context, admin string) (*Page, error) {
	tab, end, err := browser.Start()
	if err != nil {
		return nil, err
	}
	p := &Page{tab: tab, close: end}
	if err := p.show(ctx, admin+"/"); err != nil {
		p.Close()
		return nil, fmt.Errorf("open the page: %w", err)
	}
	return p, nil
}

// until returns the tab until ctx ends, or the function returned is called.
func (p *Page) until(ctx context.Context) (tab context.Context, end func()) {
	tab, cancel := context.WithCancel(p.tab)
	stop := context.AfterFunc(ctx, cancel)
	return tab, func() {
		stop()
		cancel()
	}
}

// show opens an address and waits until the page shows nodes.
func (p *Page) show(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	tab, end := p.until(ctx)
	defer end()
	if err := chromedp.Do(tab, chromedp.EmulateViewport(1280, 860), chromedp.Navigate(address)); err != nil {
		return err
	}
	return harness.Await(ctx, 100*time.Millisecond, func() error {
		shown, err := chromedp.Run(tab, chromedp.Evaluate[int](`document.querySelectorAll("#nodes-body tr").length`))
		if err == nil && shown == 0 {
			err = errors.New("it shows no node")
		}
		return err
	})
}

// read returns what the page shows: the rows of nodes in trouble, and the list of
// spikes. The page's own words for causes are put back into names.
const read = `(async () => {
	const {CAUSES, STATES, isLeftOut} = await import("/ui/words.js");
	const named = (of, word) => Object.keys(of).find((k) => of[k].word === word) || word;
	const said = (e, selector) => (e.querySelector(selector)?.innerText || "").trim();
	const headline = said(document, "#headline-text");
	const nodes = [...document.querySelectorAll("#nodes-body tr")]
		.filter((r) => isLeftOut(named(STATES, said(r, ".state").split("\n").at(-1).trim())))
		.map((r) => ({Node: said(r, ".name"), Text: headline}));
	const spikes = [...document.querySelectorAll("#spikes-body tr")].map((r) => ({
		Record: r.querySelector("[data-spike]")?.dataset.spike || "",
		Node: said(r, "th").split(",")[0],
		Cause: named(CAUSES, said(r, "[data-title=Cause]")),
		Text: said(r, "[data-title=Summary]"),
	}));
	return nodes.concat(spikes);
})()`

// Surface is what the page shows.
func (p *Page) Surface() Surface {
	return Surface{Name: "web page", Look: func(ctx context.Context, _ time.Time) ([]Claim, error) {
		tab, end := p.until(ctx)
		defer end()
		return chromedp.Run(tab, chromedp.Evaluate[[]Claim](read, chromedp.EvalAwaitPromise))
	}}
}

// Close closes the page and ends its browser.
func (p *Page) Close() { p.close() }
