package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sidestep that crashed, hung or panicked in the end was told of in the output of tests that pass,
// which nobody sees.
func TestCloseFailsWhereSidestepDoes(t *testing.T) {
	for name, c := range map[string]struct {
		line   string // of its log
		code   int
		failed string
	}{
		"well":     {"level=INFO msg=stopping", 0, ""},
		"crashed":  {"level=INFO msg=stopping", 2, "stop sidestep: exit status 2"},
		"panicked": {"http: panic serving 127.0.0.1:1: no such thing", 0, "log of sidestep: http: panic serving 127.0.0.1:1: no such thing"},
	} {
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "sidestep")
			script := fmt.Sprintf("#!/bin/sh\ntrap 'exit %d' INT\necho '%s'\n"+
				"echo 'level=INFO msg=\"sidestep started\" version=1 data=127.0.0.1:1 admin=127.0.0.1:2 x=1'\nwhile :; do sleep 0.05; done\n", c.code, c.line)
			require.NoError(t, os.WriteFile(binary, []byte(script), 0o755))
			f, err := StartFront(t.Context(), binary, nil)
			require.NoError(t, err)
			err = Close(f, nil, false)
			if c.failed == "" {
				require.NoError(t, err)
				require.NoFileExists(t, f.LogPath)
				return
			}
			require.EqualError(t, err, c.failed)
			require.FileExists(t, f.LogPath)
			require.NoError(t, os.Remove(f.LogPath))
		})
	}
}
