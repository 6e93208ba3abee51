package preflight_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
	"sidestep/internal/preflight"
	simcluster "sidestep/internal/sim/cluster"
)

const patience = time.Minute

// stage is a simulated cluster behind a server that may answer in its place.
type stage struct {
	*simcluster.Cluster
	t     *testing.T
	front *httptest.Server
	// instead answers in place of the cluster if it returns a status.
	instead func(path string) (status int, body string)
	// amend changes what the cluster answered.
	amend func(path, body string) string

	options preflight.Options
	facts   preflight.Facts
}

func newStage(t *testing.T, o simcluster.Options) *stage {
	t.Helper()
	if o.Indices == nil {
		o.Indices = []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}}
	}
	simulated, err := simcluster.Start(o)
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	s := &stage{Cluster: simulated, t: t}
	node, err := url.Parse(simulated.URLs()[0])
	require.NoError(t, err)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	forward := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(node); r.Out.Header.Del("Accept-Encoding") },
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ModifyResponse: func(resp *http.Response) error {
			if s.amend == nil {
				return nil
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			body = []byte(s.amend(resp.Request.URL.Path, string(body)))
			resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			resp.Header.Del("Content-Length")
			return nil
		},
	}
	s.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.instead != nil {
			if status, body := s.instead(r.URL.Path); status != 0 {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.front.Close)
	seed, err := url.Parse(s.front.URL)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	s.options = preflight.Options{Client: client, Seeds: []*url.URL{seed}, Facts: func() preflight.Facts { return s.facts }}
	s.facts.Mode = "route"
	return s
}

// discover has a poller look at the stage, as a running sidestep does.
func (s *stage) discover() *stage {
	s.t.Helper()
	known := poll.New(cluster.NewStore(cluster.StoreOptions{}), poll.Options{Seeds: s.options.Seeds, Client: s.options.Client})
	known.Start(s.t.Context())
	defer known.Stop()
	require.Eventually(s.t, func() bool { return known.Ready() == nil }, patience, 5*time.Millisecond)
	s.facts.Snapshot = known.Snapshot()
	return s
}

func (s *stage) run() *preflight.Report {
	s.t.Helper()
	report := preflight.New(s.options).Run(s.t.Context())
	s.t.Log(strings.Join(lines(report), "\n"))
	return report
}

// lines prints findings, without advice.
func lines(r *preflight.Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, string(f.Level)+" "+string(f.Topic)+": "+f.Text)
	}
	return out
}

// finding returns the one whose text matches.
func (s *stage) finding(r *preflight.Report, pattern string) preflight.Finding {
	s.t.Helper()
	for _, f := range r.Findings {
		if regexp.MustCompile(pattern).MatchString(f.Text) {
			return f
		}
	}
	require.Fail(s.t, "no finding matches "+pattern, strings.Join(lines(r), "\n"))
	return preflight.Finding{}
}

func TestHealthy(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 3, Adaptive: true}).discover()
	s.facts.Decisions = map[string]int64{"no_outlier": 55, "no_gain": 5, "ranked": 30, "client_preference": 10, "not_steerable": 7, "one_shard": 900, "one_slot": 100}
	report := s.run()
	got := lines(report)
	require.Regexp(t, `^ok nodes: the nodes' clocks agree with this one to within \d+ ms$`, got[7])
	got[7] = "ok nodes: clocks"
	require.Equal(t, []string{
		"ok cluster: the address of upstream.urls answers",
		"ok nodes: all 3 nodes answer at the addresses that they publish",
		"ok cluster: OpenSearch 3.6.0, cluster simulated",
		"ok cluster: sidestep is ready: placement and statistics are there",
		"ok account: all 13 kinds of requests that sidestep makes are answered",
		"ok nodes: all 3 nodes have version 3.6.0",
		"ok nodes: 3 nodes: 3 with data, 3 that may be elected, 3 that searches may be sent through",
		"ok nodes: clocks",
		"ok copies: 1 index, 2 shards, each with more than one copy",
		"ok settings: the engine's own adaptive selection is on: it decides while no node stands out",
		"ok settings: no awareness attributes, and no zone of sidestep's own",
		"ok traffic: of 100 searches and reads 30 % were steered, 60 % were left to the engine as no list would be better, 10 % passed for other reasons; 1007 requests of other kinds",
		"note traffic: 10 % passed (client_preference): the client chose copies itself by its preference",
		"note traffic: 5.0 % left to the engine (no_gain): a node should be kept out, but a list would have to use it, or others that are as slow, or full: the engine's own selection decides",
	}, got)
	require.Equal(t, preflight.Note, report.Level)
	require.Positive(t, report.Took)
}

func TestNothingListens(t *testing.T) {
	seed := &url.URL{Scheme: "http", Host: "127.0.0.1:1"} // a port that was closed may be another test's by now
	report := preflight.New(preflight.Options{
		Client: &http.Client{}, Seeds: []*url.URL{seed}, Facts: func() preflight.Facts {
			return preflight.Facts{Mode: "route", Missing: io.EOF}
		},
	}).Run(t.Context())
	require.Equal(t, preflight.Problem, report.Level)
	require.Equal(t, "problem cluster: no address of upstream.urls answers: http://127.0.0.1:1 (connection refused)", lines(report)[0])
	require.NotEmpty(t, report.Findings[0].Advice)
}

func TestCertificateIsNotTrusted(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	seed, err := url.Parse(secure.URL)
	require.NoError(t, err)
	report := preflight.New(preflight.Options{
		Client: &http.Client{Transport: &http.Transport{}}, Seeds: []*url.URL{seed}, Facts: func() preflight.Facts { return preflight.Facts{} },
	}).Run(t.Context())
	require.Contains(t, report.Findings[0].Text, "authority that is not trusted (upstream.tls.ca_file)")
}

// What OpenSearch's security plugin says to an account that lacks a permission.
func TestOpenSearchRefusesKindsOfRequests(t *testing.T) {
	const refused = `{"error":{"reason":"no permissions for [indices:data/read/search] and User [name=sidestep]"},"status":403}`
	s := newStage(t, simcluster.Options{Nodes: 2}).discover()
	s.instead = func(path string) (int, string) {
		switch {
		case strings.HasSuffix(path, "/_search"):
			return http.StatusForbidden, refused
		case strings.HasSuffix(path, "/_search_shards"):
			return http.StatusForbidden, `{"error":"no permissions for [indices:admin/shards/search_shards]"}`
		case strings.HasPrefix(path, "/_cat/shards/"):
			return http.StatusForbidden, `{"error":"no permissions for [indices:monitor/stats]"}`
		}
		return 0, ""
	}
	s.options.Static = true // or the nodes themselves would be asked
	require.NotContains(t, strings.Join(lines(s.run()), "\n"), "counts", "nothing is to be counted")
	s.options.Counts = true
	report := s.run()
	probes := s.finding(report, "of the kind search, indices:data/read/search: sidestep sends no probes")
	require.Equal(t, preflight.Note, probes.Level)
	require.Equal(t, "grant its role indices:data/read/search on all indices", probes.Advice)
	targets := s.finding(report, "of the kind search_shards, indices:admin/shards/search_shards: aliases")
	require.Equal(t, preflight.Problem, targets.Level)
	require.Equal(t, preflight.Problem, report.Level)
	counts := s.finding(report, "of the kind counts, indices:monitor/stats: the documents of bulk.single_shard are not counted")
	require.Equal(t, preflight.Note, counts.Level, "searches are steered all the same")
}

// The index that is asked about was deleted after placement was read: no fault of the
// account's.
func TestIndexIsDeletedMeanwhile(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2}).discover()
	s.options.Static = true
	s.instead = func(path string) (int, string) {
		if strings.Contains(path, "logs") {
			return http.StatusNotFound, `{"error":{"type":"index_not_found_exception","reason":"no such index [logs]"},"status":404}`
		}
		return 0, ""
	}
	s.finding(s.run(), `^all \d+ kinds of requests that sidestep makes are answered$`)
}

// As behind a load balancer, and as in a container's network.
func TestPublishedAddressesLeadElsewhere(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 3})
	const closed = "127.0.0.1:1" // a port that was closed may be another test's by now
	host := func(raw string) string { return strings.TrimPrefix(raw, "http://") }
	s.amend = func(path, body string) string {
		if strings.HasPrefix(path, "/_nodes/http") {
			body = strings.ReplaceAll(body, host(s.URLs()[1]), host(s.URLs()[0]))
			body = strings.ReplaceAll(body, host(s.URLs()[2]), closed)
		}
		return body
	}
	s.discover()
	report := s.run()
	silent := s.finding(report, `^1 of 3 nodes do not answer at the address that it publishes: node-3 at \S+: connection refused$`)
	require.Equal(t, preflight.Problem, silent.Level)
	elsewhere := s.finding(report, `^published addresses lead to other nodes: node-2 at \S+: node-1 answers there$`)
	require.Equal(t, preflight.Problem, elsewhere.Level)
	require.Contains(t, elsewhere.Advice, "upstream.discovery to static")
}

// Dedicated managers are sent no searches.
func TestAManagerThatDoesNotAnswer(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 3})
	s.amend = func(path, body string) string {
		if strings.HasPrefix(path, "/_nodes") {
			var told map[string]any
			require.NoError(t, json.Unmarshal([]byte(body), &told))
			nodes, _ := told["nodes"].(map[string]any)
			for _, n := range nodes {
				if one := n.(map[string]any); one["name"] == "node-3" && one["roles"] != nil {
					one["roles"] = []string{"cluster_manager"}
				}
			}
			changed, err := json.Marshal(told)
			require.NoError(t, err)
			return string(changed)
		}
		return body
	}
	s.discover()
	s.Nodes()[2].SetFault(simcluster.Fault{Refuse: true})
	report := s.run()
	require.Equal(t, preflight.Note, s.finding(report, `^nodes that are sent no searches do not answer at the address that they publish: node-3 at `).Level)
	s.finding(report, "^the other 2 nodes answer at the addresses that they publish$")
}

func TestNodeThatHangs(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 3}).discover()
	s.options.Timeout = 300 * time.Millisecond
	s.Nodes()[2].SetFault(simcluster.Fault{Hang: true})
	s.finding(s.run(), `^1 of 3 nodes do not answer .*: node-3 at \S+: no answer within 300ms$`)
}

// Nodes that do not answer are not taken for none: an outage is no cluster of one node.
func TestNodesThatSayNothing(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 3, Attributes: []map[string]string{{"zone": "a"}, {"zone": "b"}, {"zone": "b"}}}).discover()
	s.options.Static, s.options.Zone = true, "zone"
	s.instead = func(path string) (int, string) {
		if path != "/_nodes/http" {
			return 0, ""
		}
		return http.StatusOK, `{"nodes":{"` + s.facts.Snapshot.Nodes[0].ID + `":{"name":"node-1","version":"3.6.0","roles":["data"],"attributes":{"zone":"a"}}}}`
	}
	report := s.run()
	require.Equal(t, preflight.OK, s.finding(report, "^3 nodes: 3 with data").Level)
	s.finding(report, "^nodes with data by zone: a 1, b 2$")
	require.Equal(t, preflight.Note, s.finding(report, "^2 nodes say nothing of themselves within 2 s: node-2, node-3$").Level)

	s.instead = func(path string) (int, string) {
		if path != "/_nodes/http" {
			return 0, ""
		}
		return http.StatusOK, `{}`
	}
	report = s.run()
	s.finding(report, "^3 nodes say nothing of themselves")
	require.NotContains(t, strings.Join(lines(report), "\n"), "versions differ")
}

func TestZonesAndSettings(t *testing.T) {
	s := newStage(t, simcluster.Options{
		Nodes: 3, Attributes: []map[string]string{{"zone": "a"}, {"zone": "b"}},
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 1, Replicas: 1}, {Name: "lone", Shards: 3}},
	}).discover()
	s.options.Zone = "zone"
	report := s.run()
	require.Equal(t, preflight.Problem, s.finding(report, "nodes with data that have no attribute zone: node-3").Level)
	s.finding(report, "sidestep prefers its own zone, but the cluster has no awareness attribute")
	s.finding(report, "the engine's own adaptive selection is off")
	require.Equal(t, preflight.Note, s.finding(report, `2 indices, 4 shards, of which 3 \(75 %\) have one copy only`).Level)

	put(t, s.URLs()[0]+"/_cluster/settings", `{"persistent":{"cluster.routing.allocation.awareness.attributes":"zone, rack"}}`)
	s.finding(s.run(), "copies are spread by zone, rack, which sidestep's zones are, too")
	s.options.Zone = ""
	s.finding(s.run(), "copies are spread by zone, rack, and sidestep uses those of all values alike")

	s.options.Static = true
	s.instead = func(path string) (int, string) {
		if path == "/_cluster/routing/awareness/zone/weights" {
			return http.StatusOK, `{"weights":{"a":"1.0","b":"0.0"},"_version":1}`
		}
		return 0, ""
	}
	readable := s.instead
	s.instead = func(path string) (int, string) { // an account with cluster_monitor, which does not hold this right
		if strings.HasSuffix(path, "/weights") {
			return http.StatusForbidden, `{"error":{"reason":"no permissions for [cluster:admin/routing/awareness/weights/get]"},"status":403}`
		}
		return 0, ""
	}
	f := s.finding(s.run(), "it cannot be read whether weighted routing by zone is set")
	require.Equal(t, preflight.Note, f.Level)
	require.Contains(t, f.Advice, "grant its role cluster:admin/routing/awareness/weights/get, or look at GET _cluster/routing/awareness/zone/weights")
	s.instead = readable
	f = s.finding(s.run(), "weighted routing by zone is set: a 1.0, b 0.0; it is strict")
	require.Equal(t, preflight.Problem, f.Level)
	put(t, s.URLs()[0]+"/_cluster/settings", `{"persistent":{"cluster.routing.weighted.strict":"false"}}`)
	require.Equal(t, preflight.Note, s.finding(s.run(), "does not keep to the weights").Level)
}

func put(t *testing.T, address, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestServerless(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 1, Engine: simcluster.Elasticsearch, Serverless: true}).discover()
	require.Equal(t, preflight.Problem, s.finding(s.run(), "serverless shows no shards").Level)
}

func TestTraffic(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts preflight.Facts
		want  []string
	}{
		{"nothing", preflight.Facts{Mode: "route"}, []string{"note traffic: no search has passed yet"}},
		{"only writes", preflight.Facts{Mode: "route", Decisions: map[string]int64{"not_steerable": 5, "one_shard": 3}}, []string{"note traffic: no search has passed yet"}},
		{
			"observe", preflight.Facts{
				Mode:      "observe",
				Decisions: map[string]int64{"observe": 90, "pit": 10},
				Observed:  map[string]int64{"ranked": 40, "no_outlier": 50},
			},
			[]string{
				"note traffic: mode observe: decisions are made and counted, requests pass unchanged",
				"ok traffic: of 100 searches and reads 40 % would be steered, 50 % would be left to the engine as no list would be better, 10 % passed for other reasons; 0 requests of other kinds",
				"note traffic: 10 % passed (pit): a search with a point in time, which allows no preference",
			},
		},
		{
			"route after observe", preflight.Facts{
				Mode:      "route",
				Decisions: map[string]int64{"observe": 90, "ranked": 10},
				Observed:  map[string]int64{"ranked": 40, "no_outlier": 50},
			},
			[]string{"ok traffic: of 100 searches and reads 50 % were or would have been steered, 50 % were or would have been left to the engine as no list would be better, 0 % passed for other reasons; 0 requests of other kinds"},
		},
		{
			"trouble", preflight.Facts{Mode: "route", Sniffed: 2, Decisions: map[string]int64{"ranked": 9000, "preference_forbidden": 900, "no_placement": 3, "something_new": 100}},
			[]string{
				"problem traffic: clients asked 2 times for the nodes' own addresses: they go around sidestep",
				"ok traffic: of 10003 searches and reads 90 % were steered, 0 % were left to the engine as no list would be better, 10 % passed for other reasons; 0 requests of other kinds",
				"problem traffic: 9.0 % passed (preference_forbidden): the cluster refuses preferences for nodes (strict weighted routing)",
				"note traffic: 1.0 % passed (something_new): for this reason",
				"note traffic: less than 0.1 % passed (no_placement): nothing was known yet of where copies are",
			},
		},
		{"off", preflight.Facts{Mode: "off", Decisions: map[string]int64{"mode_off": 4}}, []string{
			"note traffic: mode off: every request passes unchanged",
			"ok traffic: of 4 searches and reads 0 % were steered, 0 % were left to the engine as no list would be better, 100 % passed for other reasons; 0 requests of other kinds",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := preflight.New(preflight.Options{Client: &http.Client{}, Facts: func() preflight.Facts { return c.facts }}).Run(t.Context())
			var got []string
			for _, line := range lines(report) {
				if strings.Contains(line, " traffic: ") {
					got = append(got, line)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Who asks while a check is made gets that one.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		release := make(chan struct{})
		checker := preflight.New(preflight.Options{Client: &http.Client{}, Facts: func() preflight.Facts {
			made.Add(1)
			<-release
			return preflight.Facts{Mode: "route"}
		}})
		reports := make(chan *preflight.Report, 2)
		for range cap(reports) {
			go func() { reports <- checker.Run(t.Context()) }()
		}
		synctest.Wait()
		close(release)
		first, second := <-reports, <-reports
		require.Same(t, first, second)
		require.EqualValues(t, 1, made.Load())
	})
}

// Every reason for passing in the documentation is explained.
func TestEveryReasonIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (passed|sent as)").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(rows), 20)
	for _, row := range rows {
		reason := row[1]
		if reason == "not_steerable" || reason == "no_outlier" || reason == "mode_off" {
			continue // told apart from the reasons
		}
		facts := preflight.Facts{Mode: "route", Decisions: map[string]int64{reason: 1}}
		report := preflight.New(preflight.Options{Client: &http.Client{}, Facts: func() preflight.Facts { return facts }}).Run(t.Context())
		last := report.Findings[len(report.Findings)-1]
		require.Contains(t, last.Text, "("+reason+"): ")
		require.NotContains(t, last.Text, "for this reason", reason)
		require.NotEmpty(t, last.Advice, reason)
	}
}

// Whoever reaches the admin listener can ask for checks, and each asks the whole cluster.
func TestChecksAreMadeOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checker := preflight.New(preflight.Options{Client: &http.Client{}, Facts: func() preflight.Facts { return preflight.Facts{Mode: "route"} }})
		first := checker.Run(t.Context())
		began := time.Now()
		require.NotSame(t, first, checker.Run(t.Context()), "it is made anew")
		require.Equal(t, time.Second, time.Since(began))
	})
}
