// Package browser starts the browser that tests open pages in.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/chromedp"
)

// find returns the browser that is installed.
func find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", errors.New("no browser: run `make page-tools`, or install chromium (Debian: apt-get install chromium)")
}

// Start starts a headless browser of one's own, with a tab that lives as long as it. The processes end
// with the function returned, which leaves nothing behind.
func Start() (tab context.Context, end func(), err error) {
	found, err := find()
	if err != nil {
		return nil, nil, err
	}
	profile, err := os.MkdirTemp("", "sidestep-browser-")
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(found),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("no-first-run", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.WSURLReadTimeout(2*time.Minute),
		chromedp.Env("TMPDIR="+profile), // where it leaves a folder behind
	)
	allocated, endProcess := chromedp.NewExecAllocator(context.Background(), options...)
	tab, endBrowser := chromedp.NewContext(allocated)
	end = func() {
		endBrowser()
		endProcess()
		_ = os.RemoveAll(profile)
	}
	if err := chromedp.Do(tab); err != nil {
		end()
		return nil, nil, fmt.Errorf("start %s: %w", found, err)
	}
	return tab, end, nil
}
