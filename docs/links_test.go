package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var (
	target  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
)

// TestLinks finds links to files and headings that are not there.
func TestLinks(t *testing.T) {
	for _, name := range append(documents(t), "CHANGELOG.md") {
		text := code.ReplaceAllString(fenced.ReplaceAllString(read(t, name), ""), "")
		for _, found := range target.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, fragment, _ := strings.Cut(found[1], "#")
			linked := name
			if file != "" {
				linked = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join("..", linked)); err != nil {
				t.Errorf("%s links to %s: %v", name, found[1], err)
				continue
			}
			if fragment != "" {
				require.Contains(t, anchors(read(t, linked)), fragment, "%s links to %s", name, found[1])
			}
		}
	}
}

// TestEveryPageIsLinked finds documents that no other leads to.
func TestEveryPageIsLinked(t *testing.T) {
	led := map[string]bool{"README.md": true} // where readers begin
	for _, name := range documents(t) {
		for _, found := range target.FindAllStringSubmatch(read(t, name), -1) {
			file, _, _ := strings.Cut(found[1], "#")
			if to := path.Join(path.Dir(name), file); to != name {
				led[to] = true
			}
		}
	}
	for _, name := range documents(t) {
		require.True(t, led[name], "no document links to %s", name)
	}
}

// anchors returns the fragments by which the headings of a document are linked to.
func anchors(text string) []string {
	var found []string
	for _, a := range anchor.FindAllStringSubmatch(text, -1) {
		found = append(found, a[1])
	}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		found = append(found, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, h[1]))
	}
	return found
}

// named is a source file as documents name it.
var named = regexp.MustCompile("`([\\w/*-]+\\.(?:go|js))`")

// TestNamedFiles finds source files that documents name and that are not there. They
// are named as seen from the top, from internal or, short, from the folder described.
func TestNamedFiles(t *testing.T) {
	folders := []string{"..", "../internal", "../internal/proxy", "../internal/admin", "../internal/admin/ui"}
	for _, name := range documents(t) {
		if strings.HasPrefix(name, "docs/adr/") {
			continue // they tell of the day on which they were written
		}
		for _, found := range named.FindAllStringSubmatch(read(t, name), -1) {
			exists := slices.ContainsFunc(folders, func(folder string) bool {
				files, err := filepath.Glob(filepath.Join(folder, found[1]))
				return err == nil && len(files) > 0
			})
			require.True(t, exists, "%s names %s, which is not there", name, found[1])
		}
	}
}
