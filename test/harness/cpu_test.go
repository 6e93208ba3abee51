package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A node that does not run has used no CPU of its own, and not that of the kernel's threads.
func TestCPUOfANodeThatDoesNotRun(t *testing.T) {
	_, err := (&Node{Name: "node-1"}).CPUUsed()
	require.EqualError(t, err, "read the CPU time of node-1: it does not run")
}
