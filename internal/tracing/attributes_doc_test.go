package tracing

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/record"
	"sidestep/internal/testkit"
)

var update = flag.Bool("update", false, "write the table of docs/tracing.md")

// TestTracingPage keeps the table of docs/tracing.md equal to the code; internal/app
// has a test that spans hold these attributes and no others.
func TestTracingPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| attribute | on | what it is |\n|---|---|---|\n")
	for _, a := range Attributes() {
		on := "request, attempt"
		switch {
		case !a.Attempt:
			on = "request"
		case !a.Request:
			on = "attempt"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.Key, on, a.Meaning)
	}
	for _, word := range append(record.Roles(), record.Errors()...) {
		require.Contains(t, b.String(), "`"+word+"`")
	}
	testkit.Page{
		File: "tracing.md", Update: *update, HowTo: "go test ./internal/tracing -run TracingPage -update",
	}.Holds(t, b.String())
}
