package e2e

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// securedVersion is the version of Elasticsearch that is started with security.
const securedVersion = "9.2.0"

// securedRoles are the roles on the secured cluster. The role monitor is what
// docs/operations.md says that sidestep's account needs.
const securedRoles = `
monitor:
  cluster: [monitor]
  indices: [{names: ["*"], privileges: [view_index_metadata]}]
prober:
  cluster: [monitor]
  indices: [{names: ["*"], privileges: [view_index_metadata, read]}]
half:
  cluster: [monitor]
reader:
  cluster: [monitor]
  indices: [{names: [products], privileges: [read, monitor]}]
writer:
  indices: [{names: [products, written], privileges: [read, write]}]
everything:
  indices: [{names: [products, regions], privileges: [read]}]
north:
  indices: [{names: [regions], privileges: [read], query: '{"term":{"region":"north"}}'}]
south:
  indices: [{names: [regions], privileges: [read], query: '{"term":{"region":"south"}}'}]
short:
  indices: [{names: [regions], privileges: [read], field_security: {grant: [n]}}]
`

// securedUsers have one role each, of the same name; so is the password.
func securedUsers() []harness.User {
	users := []harness.User{{Name: "nobody", Password: "nobody"}}
	for _, name := range []string{"monitor", "prober", "half", "reader", "writer", "everything", "north", "south", "short"} {
		users = append(users, harness.User{Name: name, Password: name, Roles: []string{name}})
	}
	return users
}

// secured is a cluster that speaks TLS and demands credentials, and a sidestep
// before it whose account may monitor and no more.
type secured struct {
	cluster  *harness.Cluster
	sidestep *harness.Front
	client   *http.Client // trusts the cluster
	ca       string       // file
}

// TestSecured needs a cluster of its own, which is of Elasticsearch whatever engine
// the other tests are about. It belongs to their run on Elasticsearch.
func TestSecured(t *testing.T) {
	t.Parallel()
	if shared.Cluster.Distribution != harness.Elasticsearch {
		t.Log("part of the run with SIDESTEP_ENGINE=elasticsearch")
		return
	}
	s := startSecured(t)
	t.Run("refusals are the engine's", s.refusals)
	t.Run("an account that may monitor is enough", s.monitorIsEnough)
	t.Run("documents and fields are each user's own", s.documentsOfUsers)
	t.Run("refusals quote the client's own request", s.quotedRefusals)
	t.Run("only who may see all is told where it went", s.explainsToWhoMaySee)
	t.Run("a node that no connection can be made with fails nobody", s.brokenHandshakes)
	t.Run("nodes are never spoken to without TLS", s.neverPlain)
}

// beginning is a cluster that starts while the tests run that come before its own: they often wait.
type beginning struct {
	once         func() (*harness.Cluster, error)
	began, taken bool
}

var securing = beginning{once: sync.OnceValues(func() (*harness.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience) // Maven may hang
	defer cancel()
	return harness.StartCluster(ctx, harness.ClusterOptions{
		Distribution: harness.Elasticsearch, Version: securedVersion, Nodes: 3, Proxied: true, SerialGC: true, Logf: harness.Sayf,
		Security: &harness.Security{Users: securedUsers(), Roles: securedRoles},
	})
})}

func (b *beginning) begin() {
	b.began = true
	go func() { _, _ = b.once() }() // whoever takes it gets the error
}

// take returns the cluster, which is to be closed.
func (b *beginning) take() (*harness.Cluster, error) {
	b.taken = true
	return b.once()
}

// stop stops the cluster if no test has taken it.
func (b *beginning) stop() {
	if !b.began || b.taken {
		return
	}
	if c, err := b.once(); err == nil {
		_ = c.Stop()
	}
}

func startSecured(t *testing.T) *secured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	c, err := securing.take()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, harness.Close(nil, c, t.Failed())) })
	transport := &http.Transport{
		DisableCompression: true,
		TLSClientConfig:    &tls.Config{RootCAs: c.Authority.Pool(), MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(transport.CloseIdleConnections)
	s := &secured{cluster: c, client: &http.Client{Timeout: time.Minute, Transport: transport}, ca: filepath.Join(t.TempDir(), "ca.pem")}
	require.NoError(t, os.WriteFile(s.ca, c.Authority.PEM, 0o600))
	s.fill(t)
	s.sidestep = s.start(t, "monitor", "monitor")
	require.NoError(t, s.sidestep.AwaitReady(ctx))
	return s
}

func (s *secured) fill(t *testing.T) {
	t.Helper()
	for _, index := range []harness.Index{
		{Name: "products", Shards: 3, Replicas: 1, Docs: 300, Seed: 1},
		{Name: "written", Shards: 3, Replicas: 1, Docs: 0, Seed: 2},
	} {
		require.NoError(t, s.cluster.CreateIndex(t.Context(), index))
	}
	require.NoError(t, s.cluster.Do(t.Context(), http.MethodPut, "/regions", object{
		"settings": object{"number_of_shards": 2, "number_of_replicas": 1},
		"mappings": object{"properties": object{"region": object{"type": "keyword"}, "n": object{"type": "long"}}},
	}, nil))
	var body strings.Builder
	for n := range 20 {
		fmt.Fprintf(&body, "{\"index\":{\"_id\":\"%d\"}}\n{\"n\":%d,\"region\":%q}\n", n, n, []string{"north", "south"}[n%2])
	}
	require.NoError(t, s.cluster.Do(t.Context(), http.MethodPost, "/regions/_bulk?refresh=true", []byte(body.String()), nil))
	require.NoError(t, s.cluster.WaitGreen(t.Context(), ""))
}

// start starts a sidestep with that account, and further lines of configuration,
// before the cluster.
func (s *secured) start(t *testing.T, user, password string, lines ...string) *harness.Front {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	account := fmt.Sprintf("upstream: {tls: {ca_file: %q}, auth: {username: %q, password_file: %q}}", s.ca, user, file)
	lines = append([]string{account, "routing: {when: always}"}, lines...)
	return startBefore(t, s.cluster, strings.Join(lines, "\n")+"\n")
}

// awaitFine waits until sidestep takes all nodes for well.
func (s *secured) awaitFine(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		known, fine, err := fineNodes(t.Context(), s.sidestep)
		require.NoError(t, err)
		return known == 3 && fine == 3
	}, patience, 200*time.Millisecond, "a node is not fine")
}

// through sends the request through sidestep, directly sends it to a node.
func (s *secured) through(t *testing.T, q search) *answer { return s.send(t, s.sidestep.URL, q) }

func (s *secured) directly(t *testing.T, q search) *answer {
	return s.send(t, s.cluster.Nodes[0].DirectURL, q)
}

func (s *secured) send(t *testing.T, base string, q search) *answer {
	t.Helper()
	a, err := sendBy(t.Context(), s.client, base, q)
	require.NoError(t, err, q)
	return a
}

// requireSame requires that a client sees the same through sidestep as directly.
func (s *secured) requireSame(t *testing.T, q search) *answer {
	t.Helper()
	got, want := s.through(t, q), s.directly(t, q)
	requireHead(t, q, want, got)
	if !json.Valid(want.body) { // none, or text
		require.Equal(t, string(want.body), string(got.body), q)
		return got
	}
	require.Equal(t, want.stable(t), got.stable(t), q)
	return got
}

// requireHead requires that status and headers are the same.
func requireHead(t *testing.T, q search, want, got *answer) {
	t.Helper()
	require.Equal(t, want.status, got.status, "%s\n%s", q, got.body)
	for _, header := range []string{"Content-Type", "Www-Authenticate", "X-Elastic-Product", "Warning"} {
		require.Equal(t, want.header.Values(header), got.header.Values(header), "%s: %s", q, header)
	}
}

// by returns the request with a user's name and password.
func (s search) by(user, password string) search {
	return s.with(basic(user, password))
}

// with returns the request with credentials; empty: without.
func (s search) with(credentials string) search {
	headers := make(map[string]string)
	for key, value := range s.headers {
		headers[key] = value
	}
	if credentials != "" {
		headers["Authorization"] = credentials
	}
	s.headers = headers
	return s
}

// key makes an API key that may read one index.
func (s *secured) key(t *testing.T, index string) (credentials string) {
	t.Helper()
	var made struct {
		Encoded string `json:"encoded"`
	}
	require.NoError(t, s.cluster.Do(t.Context(), http.MethodPost, "/_security/api_key", object{
		"name": index, "role_descriptors": object{"one": object{"indices": []any{object{"names": []string{index}, "privileges": []string{"read"}}}}},
	}, &made))
	return "ApiKey " + made.Encoded
}

// learned waits until searches of that user on the target are steered.
func (s *secured) learned(t *testing.T, target, user string) {
	t.Helper()
	ranked := func() float64 {
		return sumOf(t, s.sidestep, "sidestep_requests_total", map[string]string{"reason": "ranked"})
	}
	require.Eventually(t, func() bool {
		before := ranked()
		s.through(t, search{target: target, body: `{"size":0}`}.by(user, user)).results(t)
		return ranked() > before
	}, patience, 100*time.Millisecond, "searches on %q are not steered", target)
}

// Content of requests on the secured cluster.
const (
	firstThree  = `{"size":3,"sort":["n"]}`
	bothIndices = `{"index":"products"}` + "\n" + firstThree + "\n" + `{"index":"regions"}` + "\n" + firstThree + "\n"
	// Both documents are there: the engine refuses to create them where it does not
	// refuse the client.
	createBoth = `{"create":{"_index":"products","_id":"1"}}` + "\n" + `{"n":1}` + "\n" +
		`{"create":{"_index":"regions","_id":"1"}}` + "\n" + `{"n":1}` + "\n"
)

// steerable are requests whose URL sidestep changes where it steers them.
func steerable() []search {
	return []search{
		{target: "products", body: firstThree},
		{target: "regions", body: firstThree},
		{target: "products,regions", body: firstThree},
		{target: "*", body: firstThree},
		{path: "/products/_count"},
		{path: "/regions/_doc/1"},
		{path: "/products/_doc/1"},
		{path: "/products/_doc/1", method: http.MethodHead},
		{path: "/_mget", body: `{"docs":[{"_index":"products","_id":"1"},{"_index":"regions","_id":"1"}]}`},
	}
}

// others are requests whose URL stays as it is.
func others() []search {
	ndjson := map[string]string{"Content-Type": "application/x-ndjson"}
	return []search{
		{target: "nowhere"},
		{path: "/_msearch", headers: ndjson, body: bothIndices},
		{path: "/_bulk", headers: ndjson, body: createBoth},
		{path: "/_cat/indices", query: "h=index,health,docs.count&s=index"},
		{path: "/_security/_authenticate"},
		{path: "/_cluster/health", query: "filter_path=status"},
	}
}

func basic(user, password string) (credentials string) {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// strangers are credentials that the engine does not know.
func strangers() map[string]string {
	return map[string]string{
		"none":            "",
		"wrong password":  basic("reader", "wrong"),
		"unknown user":    basic("stranger", "stranger"),
		"unknown API key": "ApiKey " + base64.StdEncoding.EncodeToString([]byte("unknown:unknown")),
		"unknown scheme":  "Nonsense 1",
	}
}

// refusals compares what clients of all kinds of rights get through sidestep with
// what they get from the engine.
func (s *secured) refusals(t *testing.T) {
	s.learned(t, "products", "everything")
	s.learned(t, "regions", "everything")
	for name, credentials := range map[string]string{
		"rights to read one index": basic("reader", "reader"),
		"rights to write":          basic("writer", "writer"),
		"rights to read all":       basic("everything", "everything"),
		"no rights":                basic("nobody", "nobody"),
		"API key for one index":    s.key(t, "products"),
	} {
		t.Run(name, func(t *testing.T) {
			statuses := make(map[int]int)
			for _, q := range append(steerable(), others()...) {
				statuses[s.requireSame(t, q.with(credentials)).status]++
			}
			t.Logf("answers by status: %v", statuses)
		})
	}
	for name, credentials := range strangers() {
		t.Run(name, func(t *testing.T) {
			for _, q := range others() {
				require.Equal(t, http.StatusUnauthorized, s.requireSame(t, q.with(credentials)).status, q)
			}
			for _, q := range steerable() {
				q = q.with(credentials)
				got := s.through(t, q)
				requireHead(t, q, s.directly(t, q), got)
				require.Equal(t, http.StatusUnauthorized, got.status)
				require.NotEmpty(t, got.header.Values("Www-Authenticate"))
			}
		})
	}
}

// quotedRefusals is about the refusal of a client that the engine does not know: it
// quotes the request line, which must be the one that the client sent.
func (s *secured) quotedRefusals(t *testing.T) {
	s.learned(t, "products", "everything")
	s.learned(t, "regions", "everything")
	for name, credentials := range strangers() {
		t.Run(name, func(t *testing.T) {
			for _, q := range steerable() {
				s.requireSame(t, q.with(credentials))
			}
		})
	}
}

// monitorIsEnough is about sidestep's own account: with what it needs, and with less.
func (s *secured) monitorIsEnough(t *testing.T) {
	// The first probes of the shared sidestep met nodes that had just started, and may have
	// taken too long.
	own := *s
	own.sidestep = s.start(t, "monitor", "monitor")
	require.NoError(t, own.sidestep.AwaitReady(t.Context()))
	s = &own
	s.learned(t, "products", "reader")
	require.Eventually(t, func() bool {
		log, err := os.ReadFile(s.sidestep.LogPath)
		require.NoError(t, err)
		return strings.Contains(string(log), "probing is not permitted") &&
			sumOf(t, s.sidestep, "sidestep_probes_total", map[string]string{"result": "unfit"}) > 0
	}, patience, 100*time.Millisecond, "probes need read, and it is said that they are refused")
	require.Zero(t, sumOf(t, s.sidestep, "sidestep_probes_total", map[string]string{"result": "failed"}))
	s.awaitFine(t) // a probe that is refused says nothing about a node

	told, code := s.check(t, s.sidestep)
	require.Zero(t, code)
	f := told.find(t, "^sidestep's account lacks read on all indices: sidestep sends no probes")
	require.Equal(t, []string{"note", "account", "grant its role the privilege read on all indices"}, []string{f.Level, f.Topic, f.Advice})

	prober := s.start(t, "prober", "prober")
	require.NoError(t, prober.AwaitReady(t.Context()))
	told, code = s.check(t, prober)
	require.Zero(t, code)
	told.find(t, "^sidestep's account has all the privileges that it needs$")

	half := s.start(t, "half", "half", "bulk: {single_shard: [{index: bulked}]}")
	told, code = s.check(t, half)
	require.Equal(t, 1, code)
	told.find(t, "^sidestep's account lacks monitor on all indices")
	told.find(t, "^sidestep's account lacks view_index_metadata on all indices")
	require.Eventually(t, func() bool {
		s.requireServed(t, half)
		return sumOf(t, half, "sidestep_requests_total", map[string]string{"reason": "ranked"}) > 0
	}, patience, 100*time.Millisecond, "searches that name an index are steered all the same")

	refused := s.start(t, "monitor", "wrong")
	told, code = s.check(t, refused)
	require.Equal(t, 1, code)
	told.find(t, "refuse")
	s.requireServed(t, refused)
}

// requireServed requires that clients are served, whatever sidestep's account may do.
func (s *secured) requireServed(t *testing.T, f *harness.Front) {
	t.Helper()
	for range 6 {
		got := s.send(t, f.URL, search{target: "products", body: firstThree}.by("reader", "reader"))
		require.Len(t, got.results(t).Hits.Hits, 3)
	}
}

// check runs the sub-command check for that sidestep and returns what it found and
// the exit code.
func (s *secured) check(t *testing.T, f *harness.Front) (r report, code int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return sumOf(t, f, "sidestep_cluster_state", map[string]string{"state": "connecting"}) == 0
	}, patience, 50*time.Millisecond)
	r = inTime(t, func() (r report) {
		cmd := exec.CommandContext(t.Context(), shared.Binary, "check", "--admin", f.AdminURL, "--output", "json")
		output, err := cmd.Output()
		if err != nil {
			require.ErrorAs(t, err, new(*exec.ExitError))
		}
		require.NoError(t, json.Unmarshal(output, &r), "%s", output)
		code = cmd.ProcessState.ExitCode()
		return r
	})
	return r, code
}

// documentsOfUsers is about users who see parts of an index.
func (s *secured) documentsOfUsers(t *testing.T) {
	s.learned(t, "regions", "everything")
	seen := make(map[string][]string)
	for _, user := range []string{"north", "south", "everything", "short"} {
		for _, q := range []search{
			{target: "regions", body: `{"size":20,"sort":["n"]}`},
			{target: "regions", body: `{"size":0,"aggs":{"regions":{"terms":{"field":"region"}}}}`},
			{target: "regions", body: `{"size":5,"sort":["n"],"query":{"term":{"region":"north"}}}`},
			{target: "*", body: `{"size":20,"sort":["n"],"query":{"exists":{"field":"region"}}}`},
			{path: "/regions/_count"},
			{path: "/regions/_doc/1"},
			{path: "/regions/_doc/2"},
			{path: "/regions/_mget", body: `{"ids":["1","2","3"]}`},
			{path: "/_msearch", headers: map[string]string{"Content-Type": "application/x-ndjson"}, body: bothIndices},
		} {
			s.requireSame(t, q.by(user, user))
		}
		all := search{target: "regions", body: `{"size":20,"sort":["n"]}`}.by(user, user)
		for range 20 { // whichever copies serve
			got := s.requireSame(t, all)
			seen[user] = nil
			for _, hit := range got.results(t).Hits.Hits {
				seen[user] = append(seen[user], hit.ID)
			}
		}
		if user == "short" {
			require.NotContains(t, string(s.through(t, all).body), `"region"`)
		}
	}
	require.Len(t, seen["everything"], 20)
	require.Len(t, seen["short"], 20)
	require.Len(t, seen["north"], 10)
	require.Len(t, seen["south"], 10)
	require.NotEqual(t, seen["north"], seen["south"])
}

// neverPlain asks the nodes' logs whether somebody spoke plain HTTP to them.
func (s *secured) neverPlain(t *testing.T) {
	plain := func(n *harness.Node) int {
		log, err := os.ReadFile(filepath.Join(n.LogDir(), "stdout"))
		require.NoError(t, err)
		return strings.Count(string(log), "plaintext http traffic on an https channel")
	}
	for _, n := range s.cluster.Nodes {
		require.Zero(t, plain(n), n.Name)
	}
	// The engine does log it.
	n := s.cluster.Nodes[0]
	_, err := send(t.Context(), strings.Replace(n.HTTPURL, "https:", "http:", 1), search{path: "/_cluster/health"})
	require.Error(t, err)
	require.Eventually(t, func() bool { return plain(n) > 0 }, patience, 100*time.Millisecond)
}
