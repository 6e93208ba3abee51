package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
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
	lost := 0
	for _, told := range regexp.MustCompile(`lines=(\d+)\n`).FindAllStringSubmatch(text, -1) { // at once, or in parts
		n, err := strconv.Atoi(told[1])
		require.NoError(t, err)
		lost += n
	}
	require.Equal(t, many-written, lost)
	require.NotContains(t, text, "too late")
}

func TestDurationsInJSONAreReadable(t *testing.T) {
	var out bytes.Buffer
	logger, _ := newLogger(config.Log{Format: "json"}, &out)
	logger.Info("stopping", "delay", 5*time.Second, slog.Group("limits", "grace", time.Minute))
	require.Contains(t, out.String(), `"delay":"5s","limits":{"grace":"1m0s"}`)
}
