package es

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSetPreference(t *testing.T) {
	tests := []struct{ query, value, want string }{
		{"", "_only_nodes:a", "preference=_only_nodes:a"},
		{"size=1", "_only_nodes:x-h_G,k3", "size=1&preference=_only_nodes:x-h_G,k3"},
		{"size=1&", "_only_nodes:a", "size=1&&preference=_only_nodes:a"},
		{"a;b=1;", "_local", "a;b=1;&preference=_local"},
		{"q=100%%&pretty", "_local", "q=100%%&pretty&preference=_local"},
		{"q=a+b%20c&&&x==", "_local", "q=a+b%20c&&&x==&preference=_local"},
		{"=", "_local", "=&preference=_local"},
		{"preference=&size=1", "_local", "preference=_local&size=1"},
		{"size=1;preference=;pretty", "_local", "size=1;preference=_local;pretty"},
		{"size=1&preference", "_local", "size=1&preference=_local"},
		{"pr%65ference=", "_local", "pr%65ference=_local"},
		{"==preference=x&a", "_local", "==preference=_local&a"},
		{"preference=a&preference=b", "_local", "preference=_local&preference=_local"},
		{"preferences=a&xpreference=b", "_local", "preferences=a&xpreference=b&preference=_local"},
		{"q=preference=x", "_local", "q=preference=x&preference=_local"},
		{"q=1#preference=x", "_local", "q=1&preference=_local#preference=x"},
		{"q=%", "_local", "q=%&preference=_local"},
		{"", "a b&c;d=e%f+é\x00", "preference=a%20b%26c%3Bd%3De%25f%2B%C3%A9%00"},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			require.Equal(t, tt.want, SetPreference(tt.query, tt.value))
			requireOnlyPreferenceChanged(t, tt.query, tt.value)
		})
	}
}

func TestSetPreferenceAllocatesOnce(t *testing.T) {
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { SetPreference("size=1&pretty", "_only_nodes:a,b") }), 1.0)
}

func TestDecode(t *testing.T) {
	tests := []struct {
		in          string
		plusIsSpace bool
		want        string
		ok          bool
	}{
		{"logs-*,-logs-old", false, "logs-*,-logs-old", true},
		{"a%2Cb", false, "a,b", true},
		{"%3Clogs-%7Bnow%2Fd%7D%3E", false, "<logs-{now/d}>", true},
		{"a+b", false, "a+b", true},
		{"a+b", true, "a b", true},
		{"100%%", true, "100%", true},
		{"%%41", true, "%41", true},
		{"%C3%A9", true, "é", true},
		{"%c3%a9", true, "é", true},
		{"%", true, "", false},
		{"%4", true, "", false},
		{"%4g", true, "", false},
		{"%ff", true, "", false},
		{"é", true, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, ok := decode(tt.in, tt.plusIsSpace)
			require.Equal(t, tt.ok, ok)
			if ok {
				require.Equal(t, tt.want, got)
			}
		})
	}
}

// pair is a parameter as the engines see it, its value still encoded.
type pair struct{ name, value string }

// pairs is [nextParam] written the other way round: split first, then look.
func pairs(query string) []pair {
	all := []pair{}
	query, _, _ = strings.Cut(query, "#")
	for _, piece := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
		piece = strings.TrimLeft(piece, "=")
		name, value, _ := strings.Cut(piece, "=")
		if name != "" {
			all = append(all, pair{unescape(name), value})
		}
	}
	return all
}

var escapes = regexp.MustCompile(`%%|%[0-9a-fA-F]{2}|\+`)

// unescape decodes what can be decoded and keeps the rest.
func unescape(s string) string {
	return escapes.ReplaceAllStringFunc(s, func(escape string) string {
		switch escape {
		case "+":
			return " "
		case "%%":
			return "%"
		}
		b, _ := strconv.ParseUint(escape[1:], 16, 8)
		return string([]byte{byte(b)})
	})
}

func isPreference(p pair) bool { return p.name == preferenceParam }

func requireOnlyPreferenceChanged(t *testing.T, query, value string) {
	t.Helper()
	edited := SetPreference(query, value)
	before, after := pairs(query), pairs(edited)
	had := slices.ContainsFunc(before, isPreference)
	found := false
	for _, p := range after {
		if isPreference(p) {
			found = true
			require.Equal(t, value, unescape(p.value))
		}
	}
	require.True(t, found, "%q", edited)
	require.Equal(t,
		slices.DeleteFunc(slices.Clone(before), isPreference),
		slices.DeleteFunc(slices.Clone(after), isPreference))
	if !had {
		head, fragment, _ := strings.Cut(query, "#")
		require.True(t, strings.HasPrefix(edited, head))
		require.True(t, strings.HasSuffix(edited, fragment))
	}
	require.Equal(t, edited, SetPreference(edited, value), "setting it again changes nothing")
}

func FuzzSetPreference(f *testing.F) {
	f.Add("size=1&pretty", "_only_nodes:a,b")
	f.Add("a;b=1;;preference=", "_local")
	f.Add("q=100%%&=&==preference", "_only_nodes:x-h_G")
	f.Add("%70reference=x#y", "a b&c")
	f.Add("q=%zz&+&preference+=1", "é%")
	f.Fuzz(func(t *testing.T, query, value string) {
		requireOnlyPreferenceChanged(t, query, value)
	})
}

func BenchmarkSetPreference(b *testing.B) {
	for name, query := range map[string]string{
		"none":  "",
		"some":  "size=10&pretty&routing=user-17&track_total_hits=true",
		"empty": "preference=&size=10",
	} {
		b.Run(name, func(b *testing.B) {
			value := OnlyNodes([]string{"x-h-GsjMRiGiAfkq9F230w", "k3_pQlmVS0yqW1w2yJ4xZg", "T2m0yqW1w2yJ4xZgk3_pQl"})
			b.ReportAllocs()
			for b.Loop() {
				SetPreference(query, value)
			}
		})
	}
}
