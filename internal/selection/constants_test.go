package selection

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostConstants is how many constants the package may have, coordinating nodes included. A
// selection with fewer can be held in the head, and fits clusters that nobody tuned it for:
// this number may only fall. A rule that needs another constant takes the place of one that
// has it.
const mostConstants = 19

// TestConstantsAreFew counts constants: declared ones that are given as a number or a unit
// (one made of others does not count), and every number in the code but 0 and 1.
func TestConstantsAreFew(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var found []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if declared, ok := n.(*ast.GenDecl); ok && declared.Tok == token.CONST {
				for _, spec := range declared.Specs {
					found = append(found, given(spec.(*ast.ValueSpec))...)
				}
				return false
			}
			if number, ok := n.(*ast.BasicLit); ok && isNumber(number) && !trivial(number) {
				found = append(found, files.Position(number.Pos()).String()+": "+number.Value)
			}
			return true
		})
	}
	t.Logf("%d constants: %s", len(found), strings.Join(found, ", "))
	require.LessOrEqual(t, len(found), mostConstants, "say which constant a new one replaces: %s", strings.Join(found, ", "))
}

// given returns the names of the constants of a line that are given as a number or a unit.
func given(spec *ast.ValueSpec) []string {
	var names []string
	for i, value := range spec.Values {
		is := false
		ast.Inspect(value, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				is = is || isNumber(n)
			case *ast.SelectorExpr:
				is = true // time.Second
			}
			return true
		})
		if is {
			names = append(names, spec.Names[i].Name)
		}
	}
	return names
}

func isNumber(l *ast.BasicLit) bool { return l.Kind == token.INT || l.Kind == token.FLOAT }

func trivial(l *ast.BasicLit) bool {
	v, err := strconv.ParseFloat(l.Value, 64)
	return err == nil && (v == 0 || v == 1)
}
