package es

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// However many items a body names, no more than a bound are read.
func TestItemsAreBounded(t *testing.T) {
	for _, n := range []int{MaxItems, MaxItems + 1, 500_000} {
		items, readable := MultiSearch(nil, Request{Operation: MSearch, Target: "x"}, []byte("{}\n{}\n"+strings.Repeat("\n\n", n-1)))
		require.True(t, readable)
		require.Len(t, items, min(n, MaxItems+1))
		docs, ok := MGetDocuments([]byte(`{"ids":["1"`+strings.Repeat(`,"1"`, n-1)+`]}`), "x", "")
		require.True(t, ok)
		require.Len(t, docs, min(n, MaxItems+1))
	}
}
