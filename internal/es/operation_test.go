package es

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOperations reads testdata/operations.txt: one request line and the
// operation it asks for on each line.
func TestOperations(t *testing.T) {
	lines, err := os.ReadFile("testdata/operations.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(lines)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		require.Len(t, fields, 3, line)
		t.Run(fields[0]+" "+fields[1], func(t *testing.T) {
			path, query, _ := strings.Cut(fields[1], "?")
			r := Classify(fields[0], path, query)
			require.Equal(t, Operation(fields[2]), r.Operation)
			if r.Operation.Steering() == SteerNone {
				require.Equal(t, Request{Operation: r.Operation, Pass: PassNotSteerable}, r)
			}
		})
	}
}
