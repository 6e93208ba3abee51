package es

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"logs", "logs", true},
		{"logs", "logs-1", false},
		{"logs-*", "logs-", true},
		{"logs-*", "logs-2026.11.22", true},
		{"logs-*", "my-logs-1", false},
		{"*-logs", "my-logs", true},
		{"*-logs", "my-logs-1", false},
		{"*", "", true},
		{"*", ".hidden", true},
		{"**", "x", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-b-b", false},
		{"*ab", "aab", true},
		{"a*a", "a", false},
		{"a.c", "abc", false},
		{"", "", true},
		{"", "x", false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, Matches(tt.pattern, tt.name), "%s %s", tt.pattern, tt.name)
	}
	require.True(t, MatchesAny([]string{"a", "b*"}, "bc"))
	require.False(t, MatchesAny([]string{"a", "b*"}, "c"))
	require.False(t, MatchesAny(nil, "c"))
}

func FuzzMatches(f *testing.F) {
	f.Add("a*b*c", "a-b-b-c")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(name) {
			return // an expression compares runes
		}
		e := regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`)
		require.Equal(t, e.MatchString(name), Matches(pattern, name))
	})
}
