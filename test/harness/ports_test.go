package harness

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clusters that started at once were given the same port now and then: nothing listened on it
// yet when the second one chose.
func TestAPortIsGivenToOneNodeAlone(t *testing.T) {
	given := map[int]bool{}
	for range 500 {
		port, err := freePort()
		require.NoError(t, err)
		require.False(t, given[port], "port %d was given twice", port)
		given[port] = true
	}
	path := filepath.Join(t.TempDir(), "1")
	for _, want := range []bool{true, false} {
		reserved, err := reserve(path)
		require.NoError(t, err)
		require.Equal(t, want, reserved)
	}
}
