package tracing

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/proxy"
)

var update = flag.Bool("update", false, "write the table of docs/tracing.md")

const (
	tableBegin = "<!-- table: begin -->\n"
	tableEnd   = "<!-- table: end -->"
)

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
	for _, word := range append(proxy.Roles(), proxy.Errors()...) {
		require.Contains(t, b.String(), "`"+word+"`")
	}
	page := filepath.Join("..", "..", "docs", "tracing.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), tableBegin)
	require.True(t, found, "no %q in %s", tableBegin, page)
	written, tail, found := strings.Cut(rest, tableEnd)
	require.True(t, found, "no %q in %s", tableEnd, page)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(head+tableBegin+b.String()+tableEnd+tail), 0o644))
		return
	}
	require.Equal(t, b.String(), written, "write it with: go test ./internal/tracing -run TracingPage -update")
}
