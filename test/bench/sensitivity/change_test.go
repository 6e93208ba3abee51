package main

import (
	"go/parser"
	"go/token"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const selection = "../../../internal/selection"

func TestEveryChangeCanBeMade(t *testing.T) {
	changes, err := collect(selection)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, c := range changes {
		require.False(t, seen[c.String()], "%s is there twice", c)
		seen[c.String()] = true
		source, err := os.ReadFile(c.File)
		require.NoError(t, err)
		changed, err := c.apply(string(source))
		require.NoError(t, err)
		_, err = parser.ParseFile(token.NewFileSet(), c.File, changed, parser.AllErrors)
		require.NoError(t, err, c.String())
		require.NotEqual(t, string(source), changed, c.String())
	}
}

func TestConstantsAreScaled(t *testing.T) {
	for _, c := range []struct {
		value  string
		factor float64
		want   string
	}{
		{"3", 0.5, "2"},
		{"1", 0.5, "1"},
		{"3", 2, "6"},
		{"10.0", 0.5, "(10.0) / 2"},
		{"2 * time.Second", 0.5, "(2 * time.Second) / 2"},
		{"time.Minute", 2, "2 * (time.Minute)"},
	} {
		require.Equal(t, c.want, scaled(c.value, c.factor))
	}
}

func TestAChangeWithoutItsTextIsAnError(t *testing.T) {
	_, err := change{Name: "burst", File: "probe.go", Before: "x := 1", After: "x := 2"}.apply("y := 1")
	require.ErrorContains(t, err, "burst: the text to be replaced is 0 times in probe.go, want 1: x := 1")
}

func TestOnlyWhatExistsCanBeChosen(t *testing.T) {
	changes := []change{{Name: "a", Factor: 0.5}, {Name: "a", Factor: 2}, {Name: "b"}}
	kept, err := choose(changes, "a")
	require.NoError(t, err)
	require.Len(t, kept, 2)
	kept, err = choose(changes, "rules")
	require.NoError(t, err)
	require.Equal(t, "b", kept[0].Name)
	_, err = choose(changes, "a,c")
	require.EqualError(t, err, `no constant and no rule is called "c"`)
}
