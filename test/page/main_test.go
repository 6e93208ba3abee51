package page

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// What all tests share: TestMain can hand nothing to them otherwise.
var (
	browser context.Context
	update  = flag.Bool("update", false, "write the screenshots in docs/images anew")
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if _, err := os.Stat(checker); err != nil {
		fmt.Println("FAIL: axe-core is not installed: run `make page-tools`")
		return 1
	}
	ctx, cancel, err := startBrowser()
	if err != nil {
		fmt.Println("FAIL:", err)
		return 1
	}
	defer cancel()
	browser = ctx
	return m.Run()
}
