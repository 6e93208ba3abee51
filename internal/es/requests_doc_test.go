package es

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var operationRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (`.*`) \\| (\\w+) \\| .+ \\|$")

// TestRequestsPage keeps the table of docs/requests.md equal to the code.
func TestRequestsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/requests.md")
	require.NoError(t, err)
	rows := operationRow.FindAllStringSubmatch(string(page), -1)
	var documented []Operation
	fill := strings.NewReplacer("{index}", "logs", "{id}", "1")
	for _, row := range rows {
		op := Operation(row[1])
		documented = append(documented, op)
		require.Equal(t, string(op.Steering()), row[3], "steering of %s", op)
		for line := range strings.SplitSeq(row[2], ", ") {
			method, path, ok := strings.Cut(strings.Trim(line, "`"), " ")
			require.True(t, ok, "%q is no request line", line)
			require.Equal(t, op, Classify(method, fill.Replace(path), "").Operation, line)
		}
	}
	require.Equal(t, Operations(), documented)
}
