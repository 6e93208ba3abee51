package record

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/selection"
	"sidestep/internal/selection/account"
)

// tableOf returns the first column of the first table after a line of docs/logs.md.
func tableOf(t *testing.T, page, after string) (names []string) {
	t.Helper()
	_, rest, found := strings.Cut(page, after)
	require.True(t, found, after)
	_, rest, _ = strings.Cut(rest, "|---")
	_, rest, _ = strings.Cut(rest, "\n")
	for line := range strings.Lines(rest) {
		column := regexp.MustCompile("^\\| `([a-z_]+)` \\| ").FindStringSubmatch(line)
		if column == nil {
			break
		}
		names = append(names, column[1])
	}
	return names
}

// TestEveryFieldIsDocumented keeps docs/logs.md and the fields together, in their order.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/logs.md")
	require.NoError(t, err)
	page := string(text)
	require.Equal(t, fields(reflect.TypeFor[Record]()), tableOf(t, page, "\n## Fields\n"))
	require.Equal(t, fields(reflect.TypeFor[AttemptRecord]()), tableOf(t, page, "\nEach of `attempts`:\n"))
	require.Equal(t, fields(reflect.TypeFor[Bulk]()), tableOf(t, page, "\n`bulk` has:\n"))
	require.Equal(t, fields(reflect.TypeFor[account.Account]()), tableOf(t, page, "\n## The decision\n"))
	require.Equal(t, fields(reflect.TypeFor[account.Candidate]()), tableOf(t, page, "\nEach of `candidates`:\n"))
	var exclusions []string
	for e := selection.GoneUnreachable; e > selection.NotExcluded; e-- {
		exclusions = append(exclusions, e.String())
	}
	require.Equal(t, exclusions, tableOf(t, page, "\n`excluded` is one of:\n"))
	for _, part := range fields(reflect.TypeFor[selection.Parts]()) {
		require.Contains(t, page, "`"+part+"`")
	}
}

// fields returns the JSON names of the fields of a type, and of those that it takes over from others.
func fields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name == "" && f.Anonymous:
			names = append(names, fields(f.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}
