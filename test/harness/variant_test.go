package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseVariants(t *testing.T) {
	all, err := ParseVariants("a=routing.hedge_budget:0+cluster.stats_timeout:9s  b=binary:/old")
	require.NoError(t, err)
	require.Equal(t, []Variant{
		{Name: "a", Keys: map[string]string{"routing.hedge_budget": "0", "cluster.stats_timeout": "9s"}},
		{Name: "b", Binary: "/old", Keys: map[string]string{}},
	}, all)
	for _, bad := range []string{"a", "=x:y", "a=x", "a=:y", "a=x:", "a=x:y a=x:z", "direct=x:y"} {
		_, err := ParseVariants(bad, "control", "direct")
		require.Error(t, err, bad)
	}
	text, err := all[0].Config()
	require.NoError(t, err)
	require.Equal(t, "cluster:\n    stats_timeout: 9s\nrouting:\n    hedge_budget: 0\n", text)
	text, err = Variant{Keys: map[string]string{"admission.mode": `"off"`}}.Config()
	require.NoError(t, err)
	require.Equal(t, "admission:\n    mode: \"off\"\n", text, "no boolean")
}
