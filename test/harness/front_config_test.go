package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckConfig(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "sidestep")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho \"$2\"\nexec grep -q good \"$2\"\n"), 0o755))
	require.NoError(t, CheckConfig(t.Context(), binary, "good: true\n"))
	err := CheckConfig(t.Context(), binary, "bad: true\n")
	require.ErrorContains(t, err, "check the configuration: exit status 1: ")
	_, file, _ := strings.Cut(strings.TrimSpace(err.Error()), "status 1: ")
	require.NoFileExists(t, file, "it is read once")
}
