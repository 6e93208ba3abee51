package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Makefile says by name which tests run with the race detector, and which without. A name
// that no test has any more would select nothing, and nobody would notice.
func TestTestsThatTheMakefileNamesExist(t *testing.T) {
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir("../internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	}))
	makefile := read(t, "Makefile")
	for _, variable := range []string{"PARALLEL", "LARGE"} {
		line := regexp.MustCompile(`(?m)^` + variable + `\s*=(.*)$`).FindStringSubmatch(makefile)
		require.NotNil(t, line, variable)
		names := regexp.MustCompile(`[A-Z]\w+`).FindAllString(strings.ReplaceAll(line[1], "Test", " "), -1)
		require.NotEmpty(t, names, variable)
		for _, name := range names {
			require.Contains(t, tests.String(), "func Test"+name, "%s of the Makefile names no test", variable)
		}
	}
}
