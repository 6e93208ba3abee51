// Package testkit is what the tests of several packages share. The product does not
// import it.
package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Log is a log that may be read while it is written. Its zero value is ready to use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what has been written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const (
	tableBegin = "<!-- table: begin -->\n"
	tableEnd   = "<!-- table: end -->"
)

// Page is a page of the documentation with a table that is generated from the code,
// between two marks.
type Page struct {
	File   string // in docs
	Update bool   // write the table instead of comparing it
	HowTo  string // the command that does so
}

// Holds fails the test if the table of the page is another than the one given, or
// writes it there. The test must belong to a package two folders below the top.
func (p Page) Holds(t testing.TB, table string) {
	t.Helper()
	page := filepath.Join("..", "..", "docs", p.File)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), tableBegin)
	require.True(t, found, "no %q in %s", tableBegin, page)
	written, tail, found := strings.Cut(rest, tableEnd)
	require.True(t, found, "no %q in %s", tableEnd, page)
	if p.Update {
		require.NoError(t, os.WriteFile(page, []byte(head+tableBegin+table+tableEnd+tail), 0o644))
		return
	}
	require.Equal(t, table, written, "write it with: %s", p.HowTo)
}
