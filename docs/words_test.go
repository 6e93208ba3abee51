package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestWrongWords finds the words of words.txt in the names that the code declares, in
// its comments and strings, and in the documents.
func TestWrongWords(t *testing.T) {
	instead := wrongWords(t)
	report := func(where, what string, words []string) {
		for _, word := range words {
			if better, wrong := instead[strings.ToLower(word)]; wrong {
				t.Errorf("%s: %s: not %q but: %s", where, what, word, better)
			}
		}
	}
	for _, name := range goFiles(t) {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join("..", name), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		at := func(p token.Pos) string { return name + ":" + strconv.Itoa(files.Position(p).Line) }
		ast.Inspect(file, func(n ast.Node) bool {
			for _, id := range declaredBy(n) {
				report(at(id.Pos()), "the name "+id.Name, wordsOfName(id.Name))
			}
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && !strings.HasSuffix(name, "_test.go") {
				report(at(text.Pos()), text.Value, wordsOfText(text.Value))
			}
			return true
		})
		for _, group := range file.Comments {
			for _, c := range group.List {
				report(at(c.Pos()), c.Text, wordsOfText(c.Text))
			}
		}
	}
	for _, name := range documents(t) {
		if name == "docs/glossary.md" || strings.HasPrefix(name, "docs/adr/") {
			continue // these name what is wrong, or tell of the day on which they were written
		}
		for i, line := range strings.Split(code.ReplaceAllString(read(t, name), ""), "\n") {
			report(name+":"+strconv.Itoa(i+1), strings.TrimSpace(line), wordsOfText(line))
		}
	}
}

// TestWordsOfNames says how names and texts are split.
func TestWordsOfNames(t *testing.T) {
	require.Equal(t, []string{"mean", "Queue"}, wordsOfName("meanQueue"))
	require.Equal(t, []string{"HTTP", "Probe"}, wordsOfName("HTTPProbe"))
	require.Equal(t, []string{"probe", "IDs"}, wordsOfName("probeIDs"))
	require.Equal(t, []string{"sidestep", "probes", "total"}, wordsOfText("sidestep_probes_total"))
	require.Equal(t, []string{"a", "node", "s", "own"}, wordsOfText(`"a node's own"`))
}

// wrongWords reads words.txt: what to write instead of each form of each word.
func wrongWords(t *testing.T) map[string]string {
	t.Helper()
	instead, before := map[string]string{}, ""
	for line := range strings.Lines(read(t, "docs/words.txt")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		forms, better, found := strings.Cut(line, ": ")
		require.True(t, found && better != "", "words.txt: what to write instead is missing: %s", line)
		require.Less(t, before, line, "words.txt is sorted")
		before = line
		for form := range strings.SplitSeq(forms, ", ") {
			require.Regexp(t, `^[a-z]+$`, form, "words.txt: %s", line)
			require.NotContains(t, instead, form, "words.txt has it twice")
			instead[form] = better
		}
	}
	return instead
}

// goFiles lists the files that are checked, as seen from the top.
func goFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, folder := range []string{"cmd", "deploy", "docs", "internal", "test"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			name, err := filepath.Rel("..", path)
			if name = filepath.ToSlash(name); !slices.ContainsFunc(exempt(), func(e string) bool { return strings.HasPrefix(name, e) }) {
				names = append(names, name)
			}
			return err
		}))
	}
	require.Greater(t, len(names), 100)
	return names
}

// declaredBy returns the names that a node of the syntax tree declares.
func declaredBy(n ast.Node) []*ast.Ident {
	var names []*ast.Ident
	add := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				names = append(names, id)
			}
		}
	}
	switch n := n.(type) {
	case *ast.File:
		add(n.Name)
	case *ast.FuncDecl:
		add(n.Name)
	case *ast.TypeSpec:
		add(n.Name)
	case *ast.ValueSpec:
		names = n.Names
	case *ast.Field:
		names = n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			add(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			add(n.Key, n.Value)
		}
	}
	return names
}

// wordsOfName splits a name at underscores and capitals. Initials stay together, with a
// plural s: probeIDs has the words probe and IDs.
func wordsOfName(name string) []string {
	var words []string
	for part := range strings.SplitSeq(name, "_") {
		letters, from := []rune(part), 0
		for i := 1; i < len(letters); i++ {
			begins := unicode.IsUpper(letters[i]) && !unicode.IsUpper(letters[i-1])
			if unicode.IsUpper(letters[i-1]) && unicode.IsUpper(letters[i]) && i+2 < len(letters) && unicode.IsLower(letters[i+1]) {
				begins = true // the P of HTTPProbe
			}
			if begins {
				words = append(words, string(letters[from:i]))
				from = i
			}
		}
		if from < len(letters) {
			words = append(words, string(letters[from:]))
		}
	}
	return words
}

// wordsOfText returns the words of a sentence or of the name of a metric.
func wordsOfText(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
}

// exempt returns what the names of files begin with that are not checked.
func exempt() []string {
	return []string{
		// The list's own test.
		"docs/words_test.go",
	}
}
