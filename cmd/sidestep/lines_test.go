package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stuck is a writer that stands still until it is opened.
type stuck struct {
	open chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.open
	return s.Buffer.Write(p)
}

func TestLinesThatNobodyReadsAreLostAndCounted(t *testing.T) {
	out := &stuck{open: make(chan struct{})}
	l := startLines(out, slog.New(slog.NewTextHandler(out, nil)))
	const many = waitingLines + 100
	for i := range many {
		_, err := fmt.Fprintf(l, "line %d\n", i)
		require.NoError(t, err)
	}
	close(out.open)
	l.end()
	_, err := fmt.Fprintln(l, "too late")
	require.NoError(t, err)
	text := out.String()
	written := strings.Count(text, "line ")
	require.GreaterOrEqual(t, written, waitingLines)
	require.Less(t, written, many)
	require.Contains(t, text, fmt.Sprintf("lines=%d\n", many-written))
	require.NotContains(t, text, "too late")
}
