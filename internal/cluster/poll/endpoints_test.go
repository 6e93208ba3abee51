package poll

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
)

// Where hundreds of nodes do not answer, neither log nor status tell of each.
func TestErrorsAreJoinedInShort(t *testing.T) {
	t.Parallel()
	first := errors.New("connection refused by node 0")
	joined := alsoFailed(nil, first)
	require.Equal(t, first, joined)
	for i := range 1000 {
		joined = alsoFailed(joined, fmt.Errorf("connection refused by node %d", i+1))
	}
	require.LessOrEqual(t, len(joined.Error()), 2*longestJoined)
	require.True(t, strings.HasSuffix(joined.Error(), "; …"), joined)
	require.ErrorIs(t, joined, first)
}

// An address that is to be asked first is asked once, and not first if it has failed.
func TestWhoIsAskedFirst(t *testing.T) {
	t.Parallel()
	f := newEndpoints(nil, []*url.URL{{Scheme: "http", Host: "seed:9200"}})
	var nodes []*cluster.Node
	for i := range 3 {
		nodes = append(nodes, &cluster.Node{URL: &url.URL{Scheme: "http", Host: fmt.Sprintf("n%d:9200", i)}})
	}
	f.use(nodes)
	for range 3 {
		asked := f.candidates(nodes[1].URL)
		require.Len(t, asked, 4)
		require.Equal(t, "n1:9200", asked[0].Host)
		require.False(t, has(asked[1:], asked[0]))
	}
	f.learned(nodes[1].URL, &httpError{code: http.StatusUnauthorized})
	require.Equal(t, "n1:9200", f.candidates(nodes[1].URL)[0].Host, "it has answered")
	f.learned(nodes[1].URL, errors.New("no answer"))
	asked := f.candidates(nodes[1].URL)
	require.Len(t, asked, 4)
	require.Equal(t, "n1:9200", asked[3].Host)
	require.Len(t, f.candidates(&url.URL{Scheme: "http", Host: "left:9200"}), 4)
}

// Where one address is behind, whatever is asked in between, another one is asked next.
func TestAnotherAddressIsAsked(t *testing.T) {
	t.Parallel()
	one, two := &url.URL{Scheme: "http", Host: "n1:9200"}, &url.URL{Scheme: "http", Host: "n2:9200"}
	f := newEndpoints(nil, []*url.URL{one, two})
	for range 3 {
		require.Equal(t, two, f.other(one))
		require.Equal(t, one, f.other(two))
		f.candidates(nil)
	}
	require.Nil(t, newEndpoints(nil, []*url.URL{one}).other(one))
}
