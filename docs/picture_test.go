package docs_test

import (
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pictures returns the fenced blocks of design.md: the folders, and who imports whom.
func pictures(t *testing.T) (folders, imports []string) {
	t.Helper()
	found := fenced.FindAllString(read(t, "docs/design.md"), 2)
	require.Len(t, found, 2)
	lines := func(block string) []string {
		all := strings.Split(strings.TrimRight(block, "\n"), "\n")
		return all[1 : len(all)-1]
	}
	return lines(found[0]), lines(found[1])
}

// drawnFolder is a line of the picture of folders: how deep it is, and the names.
var drawnFolder = regexp.MustCompile(`^((?:  )*)((?:[\w/-]+/(?:, )?)+)(?:  +\S.*)?$`)

// TestFoldersAreDrawn compares the picture of folders with those that are there: all
// that are drawn, and of internal all that hold packages.
func TestFoldersAreDrawn(t *testing.T) {
	lines, _ := pictures(t)
	drawn := map[string]bool{}
	var above []string
	for _, line := range lines {
		m := drawnFolder.FindStringSubmatch(line)
		require.NotNil(t, m, "%q is no folder", line)
		depth := len(m[1]) / 2
		require.LessOrEqual(t, depth, len(above), line)
		above = above[:depth]
		for name := range strings.SplitSeq(m[2], ", ") {
			folder := path.Join(path.Join(above...), name)
			info, err := os.Stat(filepath.Join("..", folder))
			require.NoError(t, err, "%s is drawn", folder)
			require.True(t, info.IsDir(), folder)
			drawn[folder] = true
		}
		above = append(above, strings.TrimSuffix(m[2], "/"))
	}
	for _, folder := range packages(t) {
		require.True(t, drawn[folder], "%s is not drawn", folder)
	}
}

// packages returns the folders of packages below internal.
func packages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir("../internal", func(file string, entry fs.DirEntry, err error) error {
		if folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../"); err == nil && strings.HasSuffix(entry.Name(), ".go") && !slices.Contains(all, folder) {
			all = append(all, folder)
		}
		return err
	})
	require.NoError(t, err)
	return all
}

// drawnName is a package, or several, in the picture of imports.
var drawnName = regexp.MustCompile(`[\w/-]+(?:, [\w/-]+)*`)

// drawnAt is where names are in a line of the picture, in columns.
type drawnAt struct {
	names      []string
	begin, end int
}

// TestImportsAreDrawn compares the picture of imports with those that are there. Of
// app, which imports nearly all, and of what simulates only what is drawn must be so; of
// the other packages everything of ours must be drawn.
func TestImportsAreDrawn(t *testing.T) {
	_, lines := pictures(t)
	drawn := map[string][]string{}
	var before []drawnAt
	for _, line := range lines {
		var source *drawnAt
		if i := strings.IndexAny(line, "├└"); i >= 0 {
			column := utf8.RuneCountInString(line[:i])
			for at := range before {
				if before[at].begin <= column && column < before[at].end {
					source = &before[at]
				}
			}
			require.NotNil(t, source, "%q comes from nowhere", line)
		}
		if i := strings.Index(line, ", whose"); i >= 0 {
			line = line[:i]
		}
		for _, m := range drawnName.FindAllStringIndex(line, -1) {
			at := drawnAt{strings.Split(line[m[0]:m[1]], ", "), utf8.RuneCountInString(line[:m[0]]), utf8.RuneCountInString(line[:m[1]])}
			if source != nil {
				for _, from := range source.names {
					drawn[folderOf(from)] = append(drawn[folderOf(from)], at.names...)
				}
			}
			before = append(before, at)
			source = &at
		}
	}
	for from, to := range drawn {
		imports := importsOf(t, from)
		for _, name := range to {
			require.Contains(t, imports, folderOf(name), "it is drawn that %s imports it", from)
		}
	}
	for _, from := range packages(t) {
		if from == "internal/app" || strings.HasPrefix(from, "internal/sim") || strings.HasSuffix(from, "test") {
			continue
		}
		for _, to := range importsOf(t, from) {
			assert.True(t, slices.ContainsFunc(drawn[from], func(name string) bool { return folderOf(name) == to }), "%s imports %s, which is not drawn", from, to)
		}
	}
}

// folderOf returns the folder of a package as it is named in the picture.
func folderOf(name string) string {
	if name == "cmd" {
		return "cmd/sidestep"
	}
	if strings.HasPrefix(name, "cmd/") {
		return name
	}
	return "internal/" + name
}

// importsOf returns the folders of ours that a package imports.
func importsOf(t *testing.T, folder string) []string {
	t.Helper()
	p, err := build.ImportDir(filepath.Join("..", folder), 0)
	require.NoError(t, err)
	var ours []string
	for _, name := range p.Imports {
		if of, ok := strings.CutPrefix(name, "sidestep/"); ok {
			ours = append(ours, of)
		}
	}
	return ours
}
