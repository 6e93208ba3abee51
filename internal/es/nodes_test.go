package es

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAsksAddresses(t *testing.T) {
	for line, want := range map[string]bool{
		"GET /_nodes/http":                true,
		"GET /_nodes/http/":               true,
		"GET /_nodes/_all/http":           true,
		"GET /_nodes/http,settings":       true,
		"GET /_nodes/http%2Csettings":     true,
		"GET /_nodes/node-1,node-2/http":  true,
		"GET /_nodes":                     false, // a person's question, or a monitor's
		"GET /_nodes/_all":                false,
		"GET /_nodes/https":               false,
		"GET /_nodes/stats/http":          false,
		"GET /_nodes/_all/stats/http":     false,
		"GET /_nodes/usage/http":          false,
		"POST /_nodes/http":               false,
		"HEAD /_nodes/http":               false,
		"GET /logs/_search":               false,
		"GET //_nodes/http":               false,
		"GET /_nodes//http":               false,
		"GET /_nodes/a/http/publish/more": false,
	} {
		method, path, _ := strings.Cut(line, " ")
		require.Equal(t, want, AsksAddresses(method, path), line)
	}
}

// pretty has the shape that the engines give such answers with ?pretty.
const pretty = `{
  "_nodes" : { "total" : 2, "successful" : 2, "failed" : 0 },
  "cluster_name" : "c",
  "nodes" : {
    "Aq0" : {
      "name" : "node-1",
      "host" : "127.0.0.1",
      "roles" : [ "data", "http" ],
      "attributes" : { "publish_address" : "stays" },
      "http" : {
        "bound_address" : [ "[::1]:9201", "127.0.0.1:9201" ],
        "publish_address" : "es-1.example/10.0.0.1:9201",
        "max_content_length_in_bytes" : 104857600
      }
    },
    "http" : { "name" : "no http here" }
  }
}
`

func TestPublishAddress(t *testing.T) {
	const want = `{
  "_nodes" : { "total" : 2, "successful" : 2, "failed" : 0 },
  "cluster_name" : "c",
  "nodes" : {
    "Aq0" : {
      "name" : "node-1",
      "host" : "127.0.0.1",
      "roles" : [ "data", "http" ],
      "attributes" : { "publish_address" : "stays" },
      "http" : {
        "bound_address" : ["side:9210"],
        "publish_address" : "side:9210",
        "max_content_length_in_bytes" : 104857600
      }
    },
    "http" : { "name" : "no http here" }
  }
}
`
	got, ok := PublishAddress([]byte(pretty), "side:9210")
	require.True(t, ok)
	require.Equal(t, want, string(got))
}

func TestPublishAddressLeavesAlone(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `{}`, `{"nodes":{}}`, `{"nodes":null}`, `{"nodes":{"a":{"name":"x"}}}`, `{"nodes":{"a":{"http":[]}}}`,
		`{"error":{"reason":"http"},"status":403}`,
		`{"nodes":{"a":{"http":{"publish_address":"1.2.3.4:9200"`,        // cut off
		`{"nodes":{"a":{"http":{"publish_address":"1.2.3.4:9200"}},"b":`, // after one was replaced
	} {
		got, ok := PublishAddress([]byte(body), "side:9210")
		require.False(t, ok, body)
		require.Equal(t, body, string(got))
	}
}

// Whatever is replaced, valid JSON stays valid, and nothing but addresses differs.
func FuzzPublishAddress(f *testing.F) {
	f.Add([]byte(pretty))
	f.Add([]byte(`{"nodes":{"a":{"http":{"publish_address":["x"],"bound_address":{"y":"z"}}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := PublishAddress(body, "side:9210")
		if !ok {
			require.Equal(t, body, got)
			return
		}
		if json.Valid(body) {
			require.True(t, json.Valid(got), "%s", got)
		}
		again, ok := PublishAddress(got, "side:9210")
		require.True(t, ok)
		require.Equal(t, got, again)
	})
}
