package proxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// sniffs returns how many sniffs had a result.
func (h *harness) sniffs(result string) int {
	h.t.Helper()
	var m dto.Metric
	require.NoError(h.t, h.proxy.metrics.sniffs.WithLabelValues(result).Write(&m))
	return int(m.GetCounter().GetValue())
}

const (
	nodeList    = `{"cluster_name":"c","nodes":{"id-a":{"name":"a","http":{"bound_address":["127.0.0.1:9200"],"publish_address":"a/127.0.0.1:9200"}}}}`
	nodeListNew = `{"cluster_name":"c","nodes":{"id-a":{"name":"a","http":{"bound_address":["proxy:9210"],"publish_address":"proxy:9210"}}}}`
)

// listNodes answers as the engines do, compressed for those who accept it.
func listNodes(_ string, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.Header().Set("ETag", `"of-the-list"`)
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = io.WriteString(w, nodeList)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = io.WriteString(z, nodeList)
	_ = z.Close()
}

func TestSniffRewritten(t *testing.T) {
	h := start(t, 2, func(o *Options) { o.Sniff = Sniff{Rewrite: true, Address: "proxy:9210"} })
	h.answer = listNodes
	for _, uri := range []string{"/_nodes/http", "/_nodes/_all/http?timeout=1s", "/_nodes/http,settings"} {
		resp, body := h.do("GET", uri, "", "Accept-Encoding", "gzip, deflate")
		require.Equal(t, nodeListNew, body)
		require.Empty(t, resp.Header.Get("Content-Encoding"))
		require.Equal(t, int64(len(nodeListNew)), resp.ContentLength)
		require.Empty(t, resp.Header.Get("ETag"))
		require.Equal(t, "application/json; charset=UTF-8", resp.Header.Get("Content-Type"))
		require.Equal(t, uri, h.seen()[0].uri)
	}
	require.Equal(t, 3, h.sniffs(sniffRewritten))
}

// Without a configured address clients learn the one they came to.
func TestSniffRewrittenToWhereTheClientCame(t *testing.T) {
	h := start(t, 2, func(o *Options) { o.Sniff.Rewrite = true })
	h.answer = listNodes
	_, body := h.do("GET", "/_nodes/http", "")
	came := h.front.Listener.Addr().String()
	require.Equal(t, strings.ReplaceAll(nodeListNew, "proxy:9210", came), body)
}

func TestSniffPassed(t *testing.T) {
	h := start(t, 2, func(o *Options) { o.Sniff.Address = "proxy:9210" })
	h.answer = listNodes
	resp, body := h.do("GET", "/_nodes/http", "", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	require.Equal(t, `"of-the-list"`, resp.Header.Get("ETag"))
	z, err := gzip.NewReader(strings.NewReader(body))
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, nodeList, string(plain))
	require.Equal(t, 1, h.sniffs(sniffPassed))
}

// What is no list of nodes in readable JSON passes byte for byte.
func TestSniffLeavesAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		uri, contentType, encoding, body string
		status                           int
	}{
		"all about the nodes": {uri: "/_nodes", body: nodeList},
		"statistics":          {uri: "/_nodes/stats/http", body: nodeList},
		"a person's table":    {uri: "/_cat/nodes?h=http", body: nodeList},
		"an error":            {uri: "/_nodes/http", body: nodeList, status: http.StatusForbidden},
		"YAML":                {uri: "/_nodes/http?format=yaml", body: "nodes:\n", contentType: "application/yaml"},
		"compressed unasked":  {uri: "/_nodes/http", body: nodeList, encoding: "br"},
		"cut off":             {uri: "/_nodes/http", body: nodeList[:len(nodeList)-1]},
		"too long":            {uri: "/_nodes/http", body: nodeList + strings.Repeat(" ", maxSniffed)},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 2, func(o *Options) { o.Sniff = Sniff{Rewrite: true, Address: "proxy:9210"} })
			h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if tc.contentType != "" {
					w.Header().Set("Content-Type", tc.contentType)
				}
				if tc.encoding != "" {
					w.Header().Set("Content-Encoding", tc.encoding)
				}
				if tc.status != 0 {
					w.WriteHeader(tc.status)
				}
				_, _ = io.WriteString(w, tc.body)
			}
			_, body := h.do("GET", tc.uri, "")
			require.True(t, bytes.Equal([]byte(tc.body), []byte(body)), "the answer differs: %.300s", body)
			require.Zero(t, h.sniffs(sniffRewritten))
		})
	}
}

// A list of nodes is held until its client has read it. A long one passes where all that is held leaves no room.
func TestListsOfNodesAreHeldWithinBounds(t *testing.T) {
	const bound = 64 << 10
	h := start(t, 2, func(o *Options) { o.Sniff, o.MaxHeldBodies = Sniff{Rewrite: true, Address: "proxy:9210"}, bound })
	for length, result := range map[int]string{bound / 4: sniffRewritten, 4 * bound: sniffRewritten, 2 * sureSniffed: sniffPassed} {
		list := strings.Replace(nodeList, `"name":"a"`, `"name":"`+strings.Repeat("a", length)+`"`, 1)
		h.answer = respond(http.StatusOK, list)
		_, body := h.do("GET", "/_nodes/http", "")
		require.Equal(t, result == sniffPassed, body == list)
		require.Eventually(t, func() bool { return h.proxy.o.Held.Load() == 0 }, patience, time.Millisecond)
	}
	require.Equal(t, []int{2, 1}, []int{h.sniffs(sniffRewritten), h.sniffs(sniffPassed)})
}
