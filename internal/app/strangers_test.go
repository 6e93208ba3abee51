package app_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
)

// The addresses that nodes publish may mean other machines where sidestep runs, as those of pods or containers do outside
// of their network. Clients got what these machines answer to searches, and these got the clients' credentials.
func TestStrangersGetNoRequestsOfClients(t *testing.T) {
	cluster, err := simcluster.Start(simcluster.Options{Nodes: 3, Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}}})
	require.NoError(t, err)
	t.Cleanup(cluster.Stop)
	var searched atomic.Int64
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_search") && r.Header.Get("X-Opaque-Id") == "" { // none of sidestep's own
			searched.Add(1)
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(stranger.Close)
	node, err := url.Parse(cluster.URLs()[0])
	require.NoError(t, err)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(node); r.Out.Header.Del("Accept-Encoding") },
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ModifyResponse: func(resp *http.Response) error {
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			for _, raw := range cluster.URLs() {
				body = bytes.ReplaceAll(body, []byte(strings.TrimPrefix(raw, "http://")), []byte(stranger.Listener.Addr().String()))
			}
			resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			resp.Header.Del("Content-Length")
			return nil
		},
	})
	t.Cleanup(front.Close)
	cfg := settings(front.URL)
	cfg.Upstream.Discovery = "sniff"
	s := start(t, cfg, nil)
	require.Eventually(t, func() bool {
		return strings.Count(s.get(s.adminURL("/nodes")).body, `"state": "unreachable"`) == 3
	}, patience, 5*time.Millisecond)
	before := searched.Load()
	for range 20 {
		require.Equal(t, http.StatusOK, s.get(s.dataURL("/logs/_search"), "Authorization", "Basic eA==").status)
	}
	require.Equal(t, before, searched.Load(), "what clients send went to a machine that is no node")
}
