package docs_test

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// required is a module that a go.mod asks for by itself.
var required = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)

// TestLibrariesAreListed holds the table of libraries in design.md against the modules that are
// used. Each has one row.
func TestLibrariesAreListed(t *testing.T) {
	listed := map[string]int{}
	for _, row := range rows(t, read(t, "docs/design.md"), "| library | why |") {
		for _, name := range code.FindAllString(row[0], -1) {
			listed[strings.Trim(name, "`")]++
		}
	}
	for name, times := range listed {
		require.Equal(t, 1, times, "rows of %s", name)
	}
	for _, file := range []string{"go.mod", "test/go.mod"} {
		modules := required.FindAllStringSubmatch(read(t, file), -1)
		require.NotEmpty(t, modules, file)
		for _, m := range modules {
			name := strings.TrimPrefix(m[1], "github.com/")
			found := listed[path.Base(name)] > 0 // its `sdk`
			for one := range listed {
				found = found || one == name || strings.HasPrefix(one, name+"/")
			}
			require.True(t, found, "%s of %s is not listed", m[1], file)
		}
	}
}
