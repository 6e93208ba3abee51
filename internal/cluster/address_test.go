package cluster

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
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

// logged gathers what is logged.
type logged struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.lines.String(), text)
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
			f := newFake(t, 2)
			f.change(func() { f.indices = []Index{index("a", []string{"n1", "n2"})} })
			f.on(func(_ *fakeNode, w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/_nodes/http,os,thread_pool" {
					return false
				}
				_ = writeJSON(w, object{"nodes": object{
					"n1": object{"name": "name-n1", "roles": []string{"data"}, "http": object{"publish_address": f.nodes[0].server.Listener.Addr().String()}},
					"n2": object{"name": "name-n2", "roles": []string{"data"}, "http": object{"publish_address": address}},
				}})
				return true
			})
			var log logged
			w := f.watch(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			w.resolves("a", "", []string{"n1", "n2"})
			asked := f.count("/_nodes/http,os,thread_pool")
			w.eventually("the nodes are listed again", func() bool { return f.count("/_nodes/http,os,thread_pool") > asked+2 })
			require.NotNil(t, w.Snapshot().Nodes[0].URL)
			require.Equal(t, "name-n2", w.Snapshot().Nodes[1].Name)
			require.Nil(t, w.Snapshot().Nodes[1].URL)
			require.Equal(t, 1, log.count("a node is not spoken to"))
			require.Equal(t, 1, log.count("name-n2 id=n2"))
		})
	}
}

// A relay does not make sidestep speak to nodes in the clear, or anywhere that is not
// the plain address of a node.
func TestRelayNamesAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	f.change(func() { f.indices = []Index{index("a", []string{"n1"})} })
	relay := f.watch(nil)
	relay.eventually("the relay is ready", func() bool { return relay.Ready() == nil })
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(f.nodes[0], w, r) }))
	t.Cleanup(secure.Close)
	at := newAddress(t)
	at.use(relay.Snapshots()) // it names n1 by http
	var log logged
	w, _ := f.follow(at, func(o *Options) {
		seed, err := url.Parse(secure.URL)
		require.NoError(t, err)
		o.Seeds, o.Client = []*url.URL{seed}, secure.Client()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	w.eventually("it follows", func() bool { return w.following() && w.Ready() == nil })
	w.resolves("a", "", []string{"n1"})
	require.Equal(t, "name-n1", w.Snapshot().Nodes[0].Name)
	require.Nil(t, w.Snapshot().Nodes[0].URL, "the upstream is https")
	f.change(func() { f.indices = []Index{index("a", []string{"n1"}), index("b", []string{"n1"})} })
	f.addNode("n2") // the nodes are told again
	w.eventually("both are known", func() bool { return len(w.Snapshot().Nodes) == 2 })
	require.Equal(t, 1, log.count("name-n1 id=n1"))
	require.Equal(t, 2, log.count("a node is not spoken to"))
	for _, u := range w.fleet.candidates() {
		require.Equal(t, "https", u.Scheme)
	}
}
