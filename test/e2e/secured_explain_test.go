package e2e

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// The header that tells where a request went tells which indices there are and on
// which nodes. So only clients get it that may see all that it tells.
func (s *secured) explainsToWhoMaySee(t *testing.T) {
	for _, target := range []string{"products", "regions", "*"} {
		s.learned(t, target, "everything")
	}
	shown := func(q search, credentials string) (status int, told bool) {
		got := s.through(t, q.with(credentials)) // asks for the header, as all requests of these tests do
		return got.status, len(got.header.Values(harness.DecisionHeader)) > 0
	}
	products, all, missing := search{target: "products", body: firstThree}, search{target: "*", body: firstThree}, search{target: "nowhere", body: firstThree}
	for _, c := range []struct {
		name, credentials string
		search            search
		status            int
		told              bool
	}{
		{"no credentials", "", products, http.StatusUnauthorized, false},
		{"no credentials, missing index", "", missing, http.StatusUnauthorized, false},
		{"wrong password", basic("reader", "wrong"), products, http.StatusUnauthorized, false},
		{"wrong password, missing index", basic("reader", "wrong"), missing, http.StatusUnauthorized, false},
		{"another index than the client may see", basic("reader", "reader"), search{target: "regions", body: firstThree}, http.StatusForbidden, false},
		{"all that the client may see", basic("reader", "reader"), products, http.StatusOK, true},
		{"all that the API key may see", s.key(t, "products"), products, http.StatusOK, true},
		{"less than all indices", basic("reader", "reader"), all, http.StatusOK, false},
		{"less than all indices, API key", s.key(t, "products"), all, http.StatusOK, false},
		{"a document", basic("reader", "reader"), search{path: "/products/_doc/1"}, http.StatusOK, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, told := shown(c.search, c.credentials)
			require.Equal(t, c.status, status)
			require.Equal(t, c.told, told, "the header is there")
		})
	}
	t.Run("an index that is there and one that is not look alike", func(t *testing.T) {
		names := func(q search) []string {
			return slices.Sorted(maps.Keys(s.through(t, q.with("")).header))
		}
		require.Equal(t, names(missing), names(products))
	})
	for mode, told := range map[string]bool{"off": false, "authenticated": true, "on": true} {
		t.Run("explain.header: "+mode, func(t *testing.T) {
			f := s.start(t, "monitor", "monitor", "explain: {header: "+mode+"}")
			require.NoError(t, f.AwaitReady(t.Context()))
			q := products.by("reader", "reader")
			require.Equal(t, told, len(s.send(t, f.URL, q).header.Values(harness.DecisionHeader)) > 0)
			anonymous := s.send(t, f.URL, products)
			require.Equal(t, http.StatusUnauthorized, anonymous.status)
			require.Equal(t, mode == "on", len(anonymous.header.Values(harness.DecisionHeader)) > 0)
		})
	}
}
