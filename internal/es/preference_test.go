package es

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPreferences(t *testing.T) {
	require.Equal(t, "_only_nodes:a", OnlyNodes([]string{"a"}))
	require.Equal(t, "_only_nodes:x-h-GsjMRiGiAfkq9F230w,k3_p", OnlyNodes([]string{"x-h-GsjMRiGiAfkq9F230w", "k3_p"}))
	require.Equal(t, "_prefer_nodes:a,b", PreferNodes([]string{"a", "b"}))
}

func TestFitsRequestLine(t *testing.T) {
	// "GET /a/_search?" and " HTTP/1.1\r\n" are 15 and 11 bytes.
	require.True(t, FitsRequestLine("GET", "/a/_search", ""))
	require.True(t, FitsRequestLine("GET", "/a/_search", strings.Repeat("q", maxRequestLine-26)))
	require.False(t, FitsRequestLine("GET", "/a/_search", strings.Repeat("q", maxRequestLine-25)))
	require.False(t, FitsRequestLine("GET", "/"+strings.Repeat("a", maxRequestLine), ""))
}
