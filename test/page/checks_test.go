package page

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

const (
	images       = "../../docs/images"
	maxImage     = 300_000 // bytes
	maxImageTall = 1900    // pixels
)

// press presses a key.
func (tab *tab) press(key string) {
	tab.t.Helper()
	keys := map[string]string{
		"Enter": kb.Enter, "Escape": kb.Escape, "Tab": kb.Tab, "ArrowDown": kb.ArrowDown, "ArrowRight": kb.ArrowRight,
	}
	tab.run(chromedp.KeyEvent(keys[key]))
}

// tabTo presses Tab until an element has the focus.
func (tab *tab) tabTo(selector string) {
	tab.t.Helper()
	for range 200 {
		if eval[bool](tab, fmt.Sprintf("document.activeElement?.matches(%q)", selector)) {
			return
		}
		tab.press("Tab")
	}
	require.Fail(tab.t, "Tab does not lead to "+selector)
}

// reachesAll asserts that Tab leads to everything that can be operated, and that the
// focus can be seen there.
func (tab *tab) reachesAll() {
	tab.t.Helper()
	const operable = `[...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")]
		.filter((e) => e.tabIndex >= 0 && e.checkVisibility({visibilityProperty: true}))`
	all := eval[int](tab, `(() => { window.waiting = new Set(`+operable+`); return window.waiting.size })()`)
	require.Greater(tab.t, all, 10)
	for range 3 * all {
		tab.press("Tab")
		unseen := eval[string](tab, `(() => {
			const e = document.activeElement;
			if (!e || e === document.body) return "";
			window.waiting.delete(e);
			const style = getComputedStyle(e);
			return style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 1 ? e.outerHTML.slice(0, 200) : "";
		})()`)
		require.Empty(tab.t, unseen, "the focus cannot be seen on it")
		if eval[int](tab, `window.waiting.size`) == 0 {
			return
		}
	}
	// What was replaced meanwhile cannot be reached any more and need not be.
	left := eval[[]string](tab, `[...window.waiting].filter((e) => e.isConnected).map((e) => e.outerHTML.slice(0, 120))`)
	require.Empty(tab.t, left, "Tab does not lead there")
}

// accessible asserts that axe-core finds nothing that violates WCAG 2 A and AA.
func (tab *tab) accessible() {
	tab.t.Helper()
	source, err := os.ReadFile(checker)
	require.NoError(tab.t, err)
	tab.run(chromedp.Evaluate[chromedp.Void](string(source) + ";0"))
	found := eval[[]string](tab, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.failureSummary.replaceAll("\n", " ") + " " + n.html.slice(0, 160))))`)
	require.Empty(tab.t, found, "%s", strings.Join(found, "\n"))
}

// fits asserts that nothing makes the page wider than the window.
func (tab *tab) fits(l look) {
	tab.t.Helper()
	wide := eval[[]string](tab, fmt.Sprintf(`document.documentElement.scrollWidth <= %[1]d ? [] :
		[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > %[1]d && !e.closest(".scroll"))
			.map((e) => e.outerHTML.slice(0, 100)).slice(0, 5).concat("scrollWidth " + document.documentElement.scrollWidth)`, l.width))
	require.Empty(tab.t, wide)
}

// screenshot takes a picture of the whole page. With -update it is written to
// docs/images; else it is compared with the one there, roughly: figures and times
// differ from run to run.
func (tab *tab) screenshot(name string) {
	tab.t.Helper()
	taken := tab.picture()
	file := filepath.Join(images, name+".png")
	if *update {
		require.NoError(tab.t, os.MkdirAll(images, 0o755))
		require.NoError(tab.t, os.WriteFile(file, taken, 0o600))
		require.NoError(tab.t, os.Chmod(file, 0o644))
	}
	kept, err := os.ReadFile(file)
	require.NoError(tab.t, err, "run the test with -update")
	require.Less(tab.t, len(kept), maxImage, "too large")
	now, before := decode(tab, taken), decode(tab, kept)
	require.Equal(tab.t, before.Bounds().Dx(), now.Bounds().Dx(), "width")
	require.InEpsilon(tab.t, before.Bounds().Dy(), now.Bounds().Dy(), 0.35, "height")
	compareRegions(tab, before, now)
}

// keep takes a picture for eyes alone: what it shows is made up.
func (tab *tab) keep(name string) {
	tab.t.Helper()
	taken := tab.picture()
	require.NoError(tab.t, os.WriteFile(filepath.Join(filepath.Dir(checker), "..", "..", name+".png"), taken, 0o600))
	img := decode(tab, taken)
	require.Equal(tab.t, eval[int](tab, "window.innerWidth"), img.Bounds().Dx())
	_, varied := brightness(img, 0, img.Bounds().Dy())
	require.True(tab.t, varied, "blank")
}

func (tab *tab) picture() []byte {
	tab.t.Helper()
	height := min(eval[int](tab, "document.documentElement.scrollHeight"), maxImageTall)
	width := eval[int](tab, "window.innerWidth")
	tab.run(chromedp.Evaluate[chromedp.Void]("window.scrollTo(0, 0)"))
	beyond := true
	shot, err := chromedp.Call(tab.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: &beyond,
		Clip: &page.Viewport{Width: float64(width), Height: float64(height), Scale: 1},
	})
	require.NoError(tab.t, err)
	return shot.Data
}

func decode(tab *tab, data []byte) image.Image {
	tab.t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(tab.t, err)
	return img
}

// compareRegions compares how bright the upper part of two pictures is, band by band,
// and that the bands are not blank.
func compareRegions(tab *tab, before, now image.Image) {
	tab.t.Helper()
	const bands = 6
	height := min(before.Bounds().Dy(), now.Bounds().Dy(), 600)
	for i := range bands {
		from, to := i*height/bands, (i+1)*height/bands
		wanted, _ := brightness(before, from, to)
		mean, varied := brightness(now, from, to)
		require.InDelta(tab.t, wanted, mean, 0.12, "band %d is another", i)
		require.True(tab.t, varied, "band %d is blank", i)
	}
}

// brightness returns the mean from 0 to 1 of the rows from..to, and whether they are
// not all of one colour.
func brightness(img image.Image, from, to int) (mean float64, varied bool) {
	bounds := img.Bounds()
	var sum float64
	var n int
	first := img.At(bounds.Min.X, bounds.Min.Y+from)
	for y := bounds.Min.Y + from; y < bounds.Min.Y+to; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := img.At(x, y)
			varied = varied || c != first
			r, g, b, _ := c.RGBA()
			sum += float64(r+g+b) / (3 * 0xffff)
			n++
		}
	}
	return sum / float64(max(1, n)), varied
}
