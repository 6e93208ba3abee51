package harness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "one.yaml")
	require.NoError(t, WriteConfig(path, map[string]string{"when": "outlier", "hedge_budget": "0"}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "routing:\n  hedge_budget: 0\n  when: outlier\n", string(text))
}

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one.yaml")
	require.NoError(t, CheckConfig(t.Context(), "true", path))
	require.ErrorContains(t, CheckConfig(t.Context(), "false", path), "one.yaml: exit status 1")
}
