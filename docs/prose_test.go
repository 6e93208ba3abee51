package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

const (
	mostWordsOfReadme = 1000 // as wc -w counts them
	mostMedian        = 16
	mostWords         = 40 // of a sentence
)

// TestWords prints and bounds the words of the README and of the sentences of all
// documents. make docs-words runs it.
func TestWords(t *testing.T) {
	readme := read(t, "README.md")
	words := len(strings.Fields(readme))
	t.Logf("README.md: %d words, at most %d", words, mostWordsOfReadme)
	require.LessOrEqual(t, words, mostWordsOfReadme, "words of README.md")
	for _, name := range documents(t) {
		blocks := blocksOf(read(t, name))
		prose := lengths(blocks, func(b block) bool { return !b.cell })
		all := lengths(blocks, func(block) bool { return true })
		t.Logf("%-48s sentences: %3d, words of them: median %2d, longest %3d, longest in a table %3d",
			name, len(prose), median(prose), slices.Max(append(prose, 0)), slices.Max(append(all, 0)))
		if name == "README.md" {
			require.LessOrEqual(t, median(prose), mostMedian, "median sentence of %s", name)
		}
		for _, s := range sentencesOf(blocks) {
			if n := wordsOf(s); n > mostWords {
				t.Errorf("%s: a sentence of %d words, at most %d are allowed: %s", name, n, mostWords, s)
			}
		}
	}
}

// read returns a file whose name is relative to the top of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	require.NoError(t, err)
	return string(text)
}

// documents returns the names of all documents, relative to the top.
func documents(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md"}
	for _, pattern := range []string{"*.md", "adr/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range found {
			names = append(names, filepath.ToSlash(filepath.Join("docs", name)))
		}
	}
	return names
}

// A block is text that sentences do not cross: a paragraph, an item of a list or a
// cell of a table.
type block struct {
	text string
	cell bool
}

var (
	generated = regexp.MustCompile(`(?s)<!-- table: begin -->.*?<!-- table: end -->`)
	fenced    = regexp.MustCompile("(?ms)^ *```.*?\n *```")
	rule      = regexp.MustCompile(`^[|:\- ]+$`)
	item      = regexp.MustCompile(`^\s*(?:[-*]|\d+\.) `)
	code      = regexp.MustCompile("`[^`\n]+`")
	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// blocksOf cuts a document into blocks, without code, headings and tables that are
// generated from the code.
func blocksOf(text string) []block {
	text = fenced.ReplaceAllString(generated.ReplaceAllString(text, ""), "")
	text = link.ReplaceAllString(code.ReplaceAllString(text, "code"), "$1")
	var blocks []block
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			blocks = append(blocks, block{text: strings.Join(paragraph, " ")})
		}
		paragraph = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "<!--"):
			end()
		case strings.HasPrefix(line, "|"):
			end()
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				if cell = strings.TrimSpace(cell); cell != "" && !rule.MatchString(line) {
					blocks = append(blocks, block{text: cell, cell: true})
				}
			}
		case item.MatchString(line):
			end()
			paragraph = []string{item.ReplaceAllString(line, "")}
		default:
			paragraph = append(paragraph, line)
		}
	}
	end()
	return blocks
}

// sentenceEnd is a full stop, question or exclamation mark before the next sentence.
var sentenceEnd = regexp.MustCompile(`[.!?]["*)_]*\s+`)

func sentencesOf(blocks []block) []string {
	var sentences []string
	for _, b := range blocks {
		rest := b.text
		for {
			at := sentenceEnd.FindStringIndex(rest)
			if at == nil {
				break
			}
			sentences = append(sentences, rest[:at[1]])
			rest = rest[at[1]:]
		}
		if rest != "" {
			sentences = append(sentences, rest)
		}
	}
	return sentences
}

// wordsOf counts what has a letter or a digit.
func wordsOf(sentence string) int {
	n := 0
	for word := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// lengths returns the words of the sentences in the blocks that are wanted.
func lengths(blocks []block, wanted func(block) bool) []int {
	var counts []int
	for _, s := range sentencesOf(slices.DeleteFunc(slices.Clone(blocks), func(b block) bool { return !wanted(b) })) {
		counts = append(counts, wordsOf(s))
	}
	return counts
}

func median(counts []int) int {
	if len(counts) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(counts))
	return sorted[len(sorted)/2]
}
