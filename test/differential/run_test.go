package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// A conversation that writes is had again, but not where sidestep gave an error.
func TestCompareWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		status int // of sidestep's first answer, 200 from then on
		body   string
		asked  int
		varied bool
	}{
		"the same":          {200, `{"x":1}`, 1, false},
		"another one once":  {200, `{"x":2}`, 2, true},
		"an error once":     {502, `{"x":1}`, 1, false},
		"a partial answer":  {200, `{"_shards":{"failed":1}}`, 1, false},
		"what is not there": {404, `{"x":1}`, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			serve := func(answer func() (int, string)) string {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					status, body := answer()
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(status)
					_, _ = io.WriteString(w, body)
				}))
				t.Cleanup(server.Close)
				return server.URL
			}
			node := serve(func() (int, string) { return 200, `{"x":1}` })
			front := serve(func() (int, string) {
				if asked++; asked == 1 {
					return tc.status, tc.body
				}
				return 200, `{"x":1}`
			})
			s := &stage{client: &http.Transport{}, always: &harness.Front{URL: front}}
			s.Cluster = &harness.Cluster{Nodes: []*harness.Node{{DirectURL: node}}}
			defer s.client.CloseIdleConnections()
			v := s.compare(t.Context(), conversation{writes: true, steps: []request{{method: "PUT", uri: "/a/_doc/1"}}})
			require.Equal(t, tc.asked, asked)
			require.Equal(t, tc.varied, v.varied)
			require.Equal(t, name != "the same" && !tc.varied, v.how != "", v.how)
		})
	}
}
