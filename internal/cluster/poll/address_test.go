package poll

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/testkit"
)

func TestPublishedAddresses(t *testing.T) {
	t.Parallel()
	a := newAddresses([]*url.URL{{Scheme: "https", Host: "seed:9200"}}, slog.New(slog.DiscardHandler))
	for address, want := range map[string]string{
		"10.0.0.1:9200":              "https://10.0.0.1:9200",
		"es-1.example/10.0.0.1:9201": "https://es-1.example:9201",
		"[::1]:9200":                 "https://[::1]:9200",
		"es_1/[fe80::1]:9200":        "https://es_1:9200",
	} {
		u, err := a.parse(a.published(address))
		require.NoError(t, err, address)
		require.Equal(t, want, u.String())
	}
	for _, address := range []string{
		"10.0.0.1", ":9200", "host/", "host/10.0.0.1", "10.0.0.1:", "host/elsewhere:9200", "http://10.0.0.1:9200",
		"user@host:9200", "user:password@host:9200", "host:9200/path", "host:9200?x=1", "host:9200#x", "ho st:9200", "host:x", "host:0", "host:65536", "a,b:9200",
	} {
		_, err := a.parse(a.published(address))
		require.Error(t, err, address)
	}
}

func TestOnlyTheSchemeOfTheSeedsIsSpoken(t *testing.T) {
	t.Parallel()
	a := newAddresses([]*url.URL{{Scheme: "https", Host: "seed:9200"}}, slog.New(slog.DiscardHandler))
	for address, want := range map[string]string{
		"http://10.0.0.1:9200":                       `its scheme is "http"`,
		"10.0.0.1:9200":                              "first path segment",
		"//10.0.0.1:9200":                            `its scheme is ""`,
		"https://user@10.0.0.1:9200":                 "user information",
		"https://user:secret@10.0.0.1:9200":          "user information",
		"https://10.0.0.1:9200/":                     "scheme, host and port alone",
		"https://10.0.0.1:9200/path":                 "scheme, host and port alone",
		"https://10.0.0.1:9200?x":                    "scheme, host and port alone",
		"https://10.0.0.1:9200?":                     "scheme, host and port alone",
		"https://10.0.0.1:9200#x":                    "scheme, host and port alone",
		"https:10.0.0.1:9200":                        "scheme, host and port alone",
		"https://10.0.0.1":                           "missing port",
		"https://:9200":                              "no host",
		"https://a;b:9200":                           "no host",
		"https://" + strings.Repeat("a", 300) + ":1": "longer than",
	} {
		_, err := a.parse(address)
		require.ErrorContains(t, err, want, address)
	}
	_, err := newAddresses(nil, nil).parse("http://10.0.0.1:9200")
	require.ErrorContains(t, err, "its scheme")
}

// A node whose publish address is none is known, is not spoken to, and the log says so
// once, however often the nodes are listed.
func TestNodeThatPublishesGarbage(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"user information": "admin:x@127.0.0.1:9200",
		"a name with one":  "evil@127.0.0.1:9200",
		"a path":           "127.0.0.1:9200/_plugin",
		"another scheme":   "http://127.0.0.1:9200",
		"query":            "127.0.0.1:9200?a",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, 2)
			f.Change(func() { f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1", "n2"})} })
			f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/_nodes/http,os,thread_pool" {
					return false
				}
				_ = clustertest.WriteJSON(w, clustertest.Object{"nodes": clustertest.Object{
					"n1": clustertest.Object{"name": "name-n1", "roles": []string{"data"}, "http": clustertest.Object{"publish_address": f.Nodes[0].Server.Listener.Addr().String()}},
					"n2": clustertest.Object{"name": "name-n2", "roles": []string{"data"}, "http": clustertest.Object{"publish_address": address}},
				}})
				return true
			})
			var log testkit.Log
			w := watch(t, f, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			w.Resolves("a", "", []string{"n1", "n2"})
			asked := f.Count("/_nodes/http,os,thread_pool")
			w.Eventually("the nodes are listed again", func() bool { return f.Count("/_nodes/http,os,thread_pool") > asked+2 })
			require.NotNil(t, w.Snapshot().Nodes[0].URL)
			require.Equal(t, "name-n2", w.Snapshot().Nodes[1].Name)
			require.Nil(t, w.Snapshot().Nodes[1].URL)
			require.Equal(t, 1, strings.Count(log.String(), "a node is not spoken to"))
			require.Equal(t, 1, strings.Count(log.String(), "name-n2 id=n2"))
		})
	}
}
