package main_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What simulates, and what draws its plots, is in sidestep-lab: in sidestep it would
// only take memory. A template calls methods by name, for which the linker keeps every
// exported method.
func TestBinaryCarriesNothingNeedless(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-tags", "grpcnotrace", "-deps", ".").CombinedOutput()
	require.NoError(t, err, string(out))
	packages := strings.Fields(string(out))
	require.Contains(t, packages, "sidestep/internal/proxy")
	for _, name := range packages {
		for _, refused := range []string{"sidestep/internal/sim", "sidestep/internal/testkit", "sidestep/internal/cluster/clustertest", "gonum.org/v1", "text/template"} {
			require.False(t, name == refused || strings.HasPrefix(name, refused+"/"), "cmd/sidestep depends on %s", name)
		}
	}
}
