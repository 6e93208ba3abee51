package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// A node with which no TLS connection can be made fails no client's request: nothing
// was sent to it, so another node can serve it, whatever it is.
func (s *secured) brokenHandshakes(t *testing.T) {
	stranger, err := harness.NewAuthority("stranger")
	require.NoError(t, err)
	n := s.cluster.Nodes[1]
	for name, fault := range map[string]func(*testing.T){
		"all are closed":  func(t *testing.T) { require.NoError(t, n.BreakHandshakes(1, false)) },
		"half are closed": func(t *testing.T) { require.NoError(t, n.BreakHandshakes(0.5, false)) },
		"all are reset":   func(t *testing.T) { require.NoError(t, n.BreakHandshakes(1, true)) },
		"half are reset":  func(t *testing.T) { require.NoError(t, n.BreakHandshakes(0.5, true)) },
		"certificate that is not trusted": func(t *testing.T) {
			s.certify(t, n, stranger)
			require.NoError(t, n.DropHTTP())
		},
		"certificate that is not trusted, on new connections": func(t *testing.T) { s.certify(t, n, stranger) },
	} {
		t.Run(name, func(t *testing.T) {
			f := s.start(t, "prober", "prober")
			require.NoError(t, f.AwaitReady(t.Context()))
			defer func() {
				require.NoError(t, n.ResetToxics(t.Context()))
				s.certify(t, n, s.cluster.Authority)
			}()
			fault(t)
			s.requireAllServed(t, f.URL)
		})
	}
}

// certify gives the node a certificate of that authority, unless it has one, and
// waits until new connections get it.
func (s *secured) certify(t *testing.T, n *harness.Node, authority *harness.Authority) {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}}
	used := func() bool {
		conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(n.DirectURL, "https://"))
		return err == nil && conn.Close() == nil
	}
	if used() {
		return
	}
	require.NoError(t, n.UseHTTPCertificate(authority))
	require.Eventually(t, used, patience, 100*time.Millisecond, "%s does not use its new certificate", n.Name)
}

// requireAllServed sends writes and reads to base with clients' credentials, none of which
// may fail. Each document must be there once: they get their ids from the engine.
func (s *secured) requireAllServed(t *testing.T, base string) {
	t.Helper()
	const bulks, each = 200, 3
	before := s.written(t)
	body := strings.Repeat(`{"index":{}}`+"\n"+`{"n":1}`+"\n", each)
	bulk := search{path: "/written/_bulk", body: body, headers: map[string]string{"Content-Type": "application/x-ndjson"}}.by("writer", "writer")
	read := search{target: "products", body: firstThree}.by("reader", "reader")
	byID := search{path: "/products/_doc/1"}.by("reader", "reader")
	failed := make(map[string]int)
	for range bulks {
		got := s.send(t, base, bulk)
		if got.status != http.StatusOK || !strings.Contains(string(got.body), `"errors":false`) {
			failed[fmt.Sprintf("bulk %d %.200s", got.status, got.body)]++
		}
	}
	for range 50 {
		for _, q := range []search{read, byID} {
			if got := s.send(t, base, q); got.status != http.StatusOK {
				failed[fmt.Sprintf("%s %d %.200s", q.uri(), got.status, got.body)]++
			}
		}
	}
	require.Empty(t, failed, "failed requests")
	require.Equal(t, bulks*each, s.written(t)-before, "documents")
}

// written returns how many documents were written.
func (s *secured) written(t *testing.T) int {
	t.Helper()
	require.NoError(t, s.cluster.Do(t.Context(), http.MethodPost, "/written/_refresh", nil, nil))
	var counted struct{ Count int }
	require.NoError(t, s.cluster.Do(t.Context(), http.MethodGet, "/written/_count", nil, &counted))
	return counted.Count
}
