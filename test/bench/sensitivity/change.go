package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// change is one way in which a build differs from the tree: Before is replaced by After in File.
type change struct {
	Name   string  `json:"name"`
	Factor float64 `json:"factor"` // of a constant; 0: a rule that is switched off
	File   string  `json:"file"`
	Before string  `json:"before"`
	After  string  `json:"after"`
}

// String names the change in progress lines and errors.
func (c change) String() string {
	if c.Factor == 0 {
		return c.Name
	}
	return fmt.Sprintf("%s × %g", c.Name, c.Factor)
}

// named reports whether a name is that of the change, or of its kind.
func (c change) named(name string) bool {
	switch name {
	case "constants":
		return c.Factor != 0
	case "rules":
		return c.Factor == 0
	default:
		return c.Name == name
	}
}

// apply returns the source with the change made. What is to be changed must be there once.
func (c change) apply(source string) (string, error) {
	if found := strings.Count(source, c.Before); found != 1 {
		return "", fmt.Errorf("%s: the text to be replaced is %d times in %s, want 1: %s", c, found, c.File, c.Before)
	}
	return strings.Replace(source, c.Before, c.After, 1), nil
}

// collect returns a change for each half and double of each constant of the package in dir, and one
// for each rule.
func collect(dir string) ([]change, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var out []change
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		of, err := constants(name)
		if err != nil {
			return nil, err
		}
		out = append(out, of...)
	}
	for _, r := range rules() {
		out = append(out, change{Name: r.name, File: filepath.Join(dir, r.file), Before: r.before, After: r.after})
	}
	return out, nil
}

// constants returns the changes of the constants of a file that are given as a number or a unit.
func constants(path string) ([]change, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the constants: %w", err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read the constants: %w", err)
	}
	text := func(n ast.Node) string {
		return string(source[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
	}
	var out []change
	for _, d := range file.Decls {
		declared, ok := d.(*ast.GenDecl)
		if !ok || declared.Tok != token.CONST {
			continue
		}
		for _, s := range declared.Specs {
			spec := s.(*ast.ValueSpec)
			if len(spec.Names) != 1 || len(spec.Values) != 1 || !given(spec.Values[0]) {
				continue
			}
			for _, factor := range []float64{0.5, 2} {
				value := text(spec.Values[0])
				out = append(out, change{
					Name: spec.Names[0].Name, Factor: factor, File: path,
					Before: text(spec), After: spec.Names[0].Name + " = " + scaled(value, factor),
				})
			}
		}
	}
	return out, nil
}

// given reports whether an expression has a number or a unit in it.
func given(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			is = is || n.Kind == token.INT || n.Kind == token.FLOAT
		case *ast.SelectorExpr:
			is = true // time.Second
		}
		return true
	})
	return is
}

// scaled returns the value of a constant times factor. Whole numbers stay whole, and at least 1.
func scaled(value string, factor float64) string {
	if whole, err := strconv.Atoi(value); err == nil {
		return strconv.Itoa(max(1, int(math.Round(factor*float64(whole)))))
	}
	if factor < 1 {
		return fmt.Sprintf("(%s) / %g", value, 1/factor)
	}
	return fmt.Sprintf("%g * (%s)", factor, value)
}
