package app_test

import (
	"encoding/json"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// addresses returns the distinct addresses that an answer to a sniff names.
func addresses(t *testing.T, body string) []string {
	t.Helper()
	var nodes struct {
		Nodes map[string]struct {
			HTTP struct {
				Bound     []string `json:"bound_address"`
				Published string   `json:"publish_address"`
			} `json:"http"`
		} `json:"nodes"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &nodes))
	require.Len(t, nodes.Nodes, 2)
	var all []string
	seen := map[string]bool{}
	for _, n := range nodes.Nodes {
		for _, address := range append(n.HTTP.Bound, n.HTTP.Published) {
			if !seen[address] {
				seen[address] = true
				all = append(all, address)
			}
		}
	}
	return all
}

// With TLS clients learn an address at which sidestep's certificate is good.
func TestSniffWithTLS(t *testing.T) {
	trusted, dir := newAuthority(t), t.TempDir()
	cfg := settings(newUpstream(t).URL)
	cfg.ListenTLS.CertFile, cfg.ListenTLS.KeyFile = trusted.files(dir, "data")
	cfg.Clients = config.Clients{Sniff: "rewrite"}
	s := startReady(t, cfg, nil)
	client := tlsClient(t, trusted)
	got, err := ask(t, client, "GET https://"+s.DataAddr().String()+"/_nodes/_all/http", "")
	require.NoError(t, err)
	require.Equal(t, []string{s.DataAddr().String()}, addresses(t, got.body))
	got, err = ask(t, client, "GET https://"+addresses(t, got.body)[0]+"/logs/_search", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)

	// The name in the certificate, where the operator knows one.
	_, port, err := net.SplitHostPort(s.DataAddr().String())
	require.NoError(t, err)
	cfg.Clients.PublishAddress = "localhost:" + port
	require.NoError(t, s.Reload(cfg))
	got, err = ask(t, client, "GET https://"+s.DataAddr().String()+"/_nodes/http", "")
	require.NoError(t, err)
	require.Equal(t, []string{"localhost:" + port}, addresses(t, got.body))
}

func TestSniffPassesUnlessTold(t *testing.T) {
	s := startReady(t, settings(newUpstream(t).URL), nil)
	require.NotContains(t, addresses(t, s.get(s.dataURL("/_nodes/http")).body), s.DataAddr().String())
	require.Contains(t, s.log.String(), "clients.sniff: rewrite keeps it")
}
