package page

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"sidestep/test/browser"
)

// What all tests share: TestMain can hand nothing to them otherwise.
var (
	chromium context.Context
	update   = flag.Bool("update", false, "write the screenshots in docs/images anew")
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if _, err := os.Stat(checker); err != nil {
		fmt.Println("FAIL: axe-core is not installed: run `make page-tools`")
		return 1
	}
	ctx, cancel, err := browser.Start()
	if err != nil {
		fmt.Println("FAIL:", err)
		return 1
	}
	defer cancel()
	chromium = ctx
	return m.Run()
}
