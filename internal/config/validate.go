package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// words are the values of the keys that accept one of a few words.
var words = map[string][]string{
	"upstream.discovery":    {"sniff", "static"},
	"routing.mode":          {"route", "observe", "off"},
	"routing.when":          {"always", "outlier"},
	"routing.preference":    {"only_nodes", "prefer_nodes"},
	"bulk.mode":             {"route", "observe", "off"},
	"admission.mode":        {"off", "observe", "auto", "target"},
	"admission.writes.mode": {"off", "observe", "auto"},
	"clients.sniff":         {"rewrite", "pass"},
	"log.level":             {"debug", "info", "warn", "error"},
	"log.format":            {"text", "json"},
	"tracing.protocol":      {"http/protobuf", "http/json", "grpc"},
	"explain.header":        {"off", "authenticated", "on"},
}

// Validate returns every problem of the configuration, nil if it is valid. It opens the
// files that are named, so that a missing certificate or an empty secret is found before
// the start.
func (c Config) Validate() error { return Join(validate(c)...) }

// checker collects problems.
type checker struct{ problems []*Problem }

func validate(cfg Config) []*Problem {
	c := &checker{}
	c.listener("listen", cfg.Listen)
	c.serverTLS("listen_tls", cfg.ListenTLS)
	c.listener("admin.listen", cfg.Admin.Listen)
	c.admin(cfg.Admin)
	if cfg.Listen == cfg.Admin.Listen && !strings.HasSuffix(cfg.Listen, ":0") {
		c.add("admin.listen", "must differ from listen (%s)", cfg.Listen)
	}
	c.upstream(cfg.Upstream)
	c.notItself(cfg)
	c.cluster(cfg.Cluster)
	c.oneOf("routing.mode", cfg.Routing.Mode)
	c.oneOf("routing.when", cfg.Routing.When)
	c.oneOf("routing.preference", cfg.Routing.Preference)
	c.atLeast("routing.clients", cfg.Routing.Clients, 1)
	if b := cfg.Routing.HedgeBudget; !(b >= 0 && b <= 1) {
		c.add("routing.hedge_budget", "must be between 0 and 1, not %v", b)
	}
	c.zone(cfg.Routing.Zone)
	c.affinity(cfg.Routing.Affinity)
	c.bulk(cfg.Bulk)
	c.admission(cfg.Admission)
	c.clients(cfg.Clients)
	if cfg.Limits.HeldBody < 1 {
		c.add("limits.held_body", "must be at least 1B")
	}
	if one := cfg.Limits.HeldBody; cfg.Limits.HeldBodies < max(one, 1) {
		c.add("limits.held_bodies", "must be at least held_body (%s), which a single body may take", max(one, 1))
	}
	c.notNegative("limits.body_timeout", cfg.Limits.BodyTimeout)
	c.notNegative("limits.write_timeout", cfg.Limits.WriteTimeout)
	c.oneOf("explain.header", cfg.Explain.Header)
	c.positive("limits.read_header_timeout", cfg.Limits.ReadHeaderTimeout)
	if d := cfg.Limits.DrainDelay; d < 0 {
		c.add("limits.drain_delay", "must not be negative, as %s is: 0 means that a stop takes no connection any more", d)
	}
	c.positive("limits.shutdown_grace", cfg.Limits.ShutdownGrace)
	c.atLeast("limits.concurrent_streams", cfg.Limits.ConcurrentStreams, 0)
	c.diagnosis(cfg.Diagnosis)
	c.oneOf("log.level", cfg.Log.Level)
	c.oneOf("log.format", cfg.Log.Format)
	c.logs(cfg.Logs)
	c.tracing(cfg.Tracing)
	return c.problems
}

func (c *checker) add(path, format string, args ...any) {
	c.problems = append(c.problems, &Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// unreadable adds a problem that is the fault of a file, or of what is in the way to it. If cause is nil it
// is one of the configuration.
func (c *checker) unreadable(path string, cause error, format string, args ...any) {
	c.problems = append(c.problems, &Problem{Path: path, Message: fmt.Sprintf(format, args...), Cause: cause})
}

func (c *checker) listener(path, address string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		c.add(path, "%q is not an address: write host:port, such as 127.0.0.1:9210", address)
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		c.add(path, "port %q is not a number from 0 to 65535", port)
	}
}

// admin checks the section of the admin listener.
func (c *checker) admin(a Admin) {
	c.serverTLS("admin.tls", a.TLS)
	for i, name := range a.AllowedHosts {
		if name != "*" && (name == "" || strings.ContainsAny(name, "*:/@ \t")) {
			c.add(fmt.Sprintf("admin.allowed_hosts[%d]", i), "%q is not a host name: write it without scheme and port, or * for all names", name)
		}
	}
	c.secret("admin.token_file", a.TokenFile)
	c.secret("admin.snapshot_token_file", a.SnapshotTokenFile)
}

func (c *checker) serverTLS(path string, t ServerTLS) {
	c.keyPair(path, t.CertFile, t.KeyFile)
	if t.ClientCAFile == "" {
		return
	}
	if t.CertFile == "" && t.KeyFile == "" {
		c.add(path+".client_ca_file", "needs cert_file and key_file: without them the listener speaks plain HTTP")
	}
	c.certificates(path+".client_ca_file", t.ClientCAFile)
}

func (c *checker) keyPair(path, cert, key string) {
	switch {
	case cert == "" && key == "":
		return
	case cert == "":
		c.add(path+".cert_file", "must be set, as key_file is")
		return
	case key == "":
		c.add(path+".key_file", "must be set, as cert_file is")
		return
	}
	certData, keyData := c.content(path+".cert_file", cert), c.content(path+".key_file", key)
	if certData == nil || keyData == nil {
		return
	}
	if _, err := tls.X509KeyPair(certData, keyData); err != nil {
		c.add(path+".cert_file", "is not a certificate with its key: %s", strings.TrimPrefix(err.Error(), "tls: "))
	}
}

// content returns what a file holds; nil if it cannot be read, or is empty. The name of one that cannot be read is not
// quoted: it may be the secret itself, written where the name belongs.
func (c *checker) content(path, file string) []byte {
	data, err := os.ReadFile(file)
	switch {
	case err != nil:
		c.unreadable(path, err, "the file that it names cannot be read: %s", reason(err))
	case len(bytes.TrimSpace(data)) == 0:
		c.add(path, "%s is empty", file)
	default:
		return data
	}
	return nil
}

// secret checks the file of a secret, if one is named, and returns what it holds.
func (c *checker) secret(path, file string) string {
	if file == "" || c.content(path, file) == nil {
		return ""
	}
	secret, err := ReadSecret(file)
	if err != nil {
		c.add(path, "%v", err)
	}
	return secret
}

func (c *checker) certificates(path, file string) {
	if data := c.content(path, file); data != nil && !x509.NewCertPool().AppendCertsFromPEM(data) {
		c.add(path, "%s holds no certificate in PEM form", file)
	}
}

func (c *checker) upstream(u Upstream) {
	if len(u.URLs) == 0 {
		c.add("upstream.urls", "at least one node is needed, such as http://127.0.0.1:9200 (or give --upstream)")
	}
	schemes := make(map[string]bool)
	for i, raw := range u.URLs {
		path := fmt.Sprintf("upstream.urls[%d]", i)
		if parsed := c.url(path, raw, "http://127.0.0.1:9200", "sidestep's own account is upstream.auth"); parsed != nil {
			schemes[parsed.Scheme] = true
			if strings.Trim(parsed.Path, "/") != "" {
				c.add(path, "must be scheme, host and port alone, without a path")
			}
		}
		if first := slices.Index(u.URLs, raw); first < i {
			c.add(path, "is the same as upstream.urls[%d]", first)
		}
	}
	if len(schemes) > 1 {
		c.add("upstream.urls", "mixes http and https: all nodes of a cluster speak one of them")
	}
	c.oneOf("upstream.discovery", u.Discovery)
	if schemes["http"] && !schemes["https"] && u.TLS != (ClientTLS{}) {
		c.add("upstream.tls", "has no effect, as the URLs are http: write https, or remove it")
	}
	c.clientTLS("upstream.tls", u.TLS)
	c.auth(u.Auth)
	c.positive("upstream.dial_timeout", u.Dial)
	c.atLeast("upstream.idle_connections_per_node", u.IdleConnections, 1)
}

// notItself refuses the address of listen as that of a node: each request would be sent to sidestep
// again, thousands of times, until no connection can be opened.
func (c *checker) notItself(cfg Config) {
	own, port, _ := net.SplitHostPort(cfg.Listen)
	ip, err := netip.ParseAddr(own)
	everywhere := own == "" || err == nil && ip.IsUnspecified()
	for i, raw := range cfg.Upstream.URLs {
		node, err := url.Parse(raw)
		if err != nil || port == "" || cmp.Or(node.Port(), map[string]string{"http": "80", "https": "443"}[node.Scheme]) != port {
			continue
		}
		dialed := strings.EqualFold(node.Hostname(), "localhost") && ip == netip.IPv6Loopback() // before 127.0.0.1
		if hostOf(node.Hostname()) == hostOf(own) || dialed || everywhere && Loopback(net.JoinHostPort(node.Hostname(), port)) {
			c.add(fmt.Sprintf("upstream.urls[%d]", i), "is sidestep's own address, that of listen: give the cluster's")
		}
	}
}

// hostOf returns a name as it is compared: what listens on localhost listens on 127.0.0.1.
func hostOf(name string) string {
	if strings.EqualFold(name, "localhost") {
		return "127.0.0.1"
	}
	return strings.ToLower(name)
}

// url checks a URL, and returns it, nil if it is none of http or https, or holds what does not belong there. No message
// quotes the text, which may hold a password.
func (c *checker) url(path, raw, example, account string) *url.URL {
	parsed, err := url.Parse(raw)
	switch {
	case err != nil:
		c.add(path, "is not a URL, or its port is no number: write scheme, host and port, such as %s", example)
	case parsed.Scheme != "http" && parsed.Scheme != "https", parsed.Hostname() == "":
		c.add(path, "must be an http or https URL with a host, such as %s", example)
	case parsed.User != nil:
		c.add(path, "must not hold a user or password: %s", account)
	case parsed.Port() != "" && !reachable(parsed.Port()):
		c.add(path, "the port is not a number from 1 to 65535")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		c.add(path, "must have no query")
	default:
		return parsed
	}
	return nil
}

func (c *checker) clientTLS(path string, t ClientTLS) {
	if t.CAFile != "" {
		c.certificates(path+".ca_file", t.CAFile)
		if t.InsecureSkipVerify {
			c.add(path+".insecure_skip_verify", "contradicts ca_file: set one of them")
		}
	}
	c.keyPair(path, t.CertFile, t.KeyFile)
}

// source checks the relay.
func (c *checker) source(s Source, maxAge time.Duration) {
	c.positive("cluster.source.silence", s.Silence)
	if maxAge > 0 && s.Silence >= maxAge {
		c.add("cluster.source.silence", "must be shorter than placement_max_age (%s): else placement is too old before the cluster is polled", maxAge)
	}
	if s.URL == "" {
		if s.TLS != (ClientTLS{}) || s.BearerTokenFile != "" {
			c.add("cluster.source.url", "must be set, as tls or bearer_token_file is")
		}
		return
	}
	parsed := c.url("cluster.source.url", s.URL, "http://relay:9211/snapshot", "set bearer_token_file")
	switch {
	case parsed == nil:
	case strings.Trim(parsed.Path, "/") == "":
		c.add("cluster.source.url", "must have the path of the snapshot, as http://relay:9211/snapshot has")
	case parsed.Scheme == "http" && s.TLS != (ClientTLS{}):
		c.add("cluster.source.tls", "has no effect, as the URL is http: write https, or remove it")
	}
	c.clientTLS("cluster.source.tls", s.TLS)
	c.secret("cluster.source.bearer_token_file", s.BearerTokenFile)
}

func (c *checker) auth(a Auth) {
	kinds := 0
	for _, set := range []bool{a.Username != "" || a.PasswordFile != "", a.APIKeyFile != "", a.BearerTokenFile != ""} {
		if set {
			kinds++
		}
	}
	if kinds > 1 {
		c.add("upstream.auth", "set one kind of account: username and password_file, api_key_file, or bearer_token_file")
	}
	if a.Username != "" && a.PasswordFile == "" {
		c.add("upstream.auth.password_file", "must be set, as username is")
	}
	if a.Username == "" && a.PasswordFile != "" {
		c.add("upstream.auth.username", "must be set, as password_file is")
	}
	if strings.Contains(a.Username, ":") {
		c.add("upstream.auth.username", "must not hold a colon: basic authentication cannot carry one")
	}
	c.secret("upstream.auth.password_file", a.PasswordFile)
	if key := c.secret("upstream.auth.api_key_file", a.APIKeyFile); strings.ContainsAny(key, ": ") {
		c.add("upstream.auth.api_key_file", `%s must hold what the engine prints as "encoded" alone: base64 of id and key, without a colon or the word ApiKey`, a.APIKeyFile)
	}
	if token := c.secret("upstream.auth.bearer_token_file", a.BearerTokenFile); strings.Contains(token, " ") {
		c.add("upstream.auth.bearer_token_file", "%s must hold the token alone, without the word Bearer", a.BearerTokenFile)
	}
}

func (c *checker) cluster(k Cluster) {
	c.interval("cluster.discovery_interval", k.DiscoveryInterval)
	c.interval("cluster.placement_interval", k.PlacementInterval)
	c.positive("cluster.placement_max_age", k.PlacementMaxAge)
	c.interval("cluster.stats_interval", k.StatsInterval)
	c.interval("cluster.stats_idle_interval", k.StatsIdleInterval)
	c.positive("cluster.stats_timeout", k.StatsTimeout)
	c.positive("cluster.poll_timeout", k.PollTimeout)
	c.source(k.Source, k.PlacementMaxAge)
	if k.PlacementInterval > 0 && k.PlacementMaxAge > 0 && k.PlacementMaxAge <= k.PlacementInterval {
		c.add("cluster.placement_max_age", "must be longer than placement_interval (%s): else placement is always too old", k.PlacementInterval)
	}
}

func (c *checker) zone(z Zone) {
	switch {
	case z.Attribute == "" && z.Local != "":
		c.add("routing.zone.attribute", "must be set, as local is")
	case z.Attribute != "" && z.Local == "":
		c.add("routing.zone.local", "must be set, as attribute is (or give --zone)")
	}
	if name, ok := strings.CutPrefix(z.Attribute, "node.attr."); ok {
		c.add("routing.zone.attribute", "is the name alone: %q", name)
	}
	if !(z.Factor > 1) || math.IsInf(z.Factor, 1) {
		c.add("routing.zone.factor", "must be more than 1, not %v", z.Factor)
	}
}

func (c *checker) affinity(a Affinity) {
	for i, pattern := range a.Indices {
		c.pattern(fmt.Sprintf("routing.affinity.indices[%d]", i), pattern)
	}
}

// bulk checks which bulks are written to one shard. A pattern is located at its element
// of the list. An element that is not a mapping has no pattern either, and counts as one
// problem.
func (c *checker) bulk(b Bulk) {
	c.oneOf("bulk.mode", b.Mode)
	for i, s := range b.SingleShard {
		path := fmt.Sprintf("bulk.single_shard[%d]", i)
		if s.Index == "" {
			c.add(path, "needs an index: a name, or a pattern of names such as logs-*")
			continue
		}
		c.pattern(path+".index", s.Index)
	}
	for i, r := range b.RoutingSize {
		path := fmt.Sprintf("bulk.routing_size[%d]", i)
		if r.Index == "" {
			c.add(path, "needs an index: a name, or a pattern of names such as orders-*")
			continue
		}
		c.pattern(path+".index", r.Index)
		if r.Size < 1 {
			c.add(path+".size", "must be at least 1, a divisor of the number of shards, not %d", r.Size)
		}
	}
	c.notNegative("bulk.retry_rejected", b.RetryRejected)
	if b.RetryRejected > 0 && !b.Idempotent {
		c.add("bulk.retry_rejected", "needs bulk.idempotent: true, so that nothing is stored twice when a connection breaks meanwhile")
	}
	if !(b.MaxSkew >= 1.1) || math.IsInf(b.MaxSkew, 1) {
		c.add("bulk.max_skew", "must be at least 1.1, not %v", b.MaxSkew)
	}
}

// pattern checks the name of an index, with * as wildcard.
func (c *checker) pattern(path, pattern string) {
	switch {
	case pattern == "":
		c.add(path, "must not be empty: write * for all indices")
	case strings.ContainsAny(pattern, ",? \t") || strings.HasPrefix(pattern, "-"):
		c.add(path, "%q is not a name or a pattern of names, whose only wildcard is *", pattern)
	}
}

func (c *checker) clients(k Clients) {
	c.oneOf("clients.sniff", k.Sniff)
	if k.PublishAddress == "" {
		return
	}
	host, port, err := net.SplitHostPort(k.PublishAddress)
	if err != nil || host == "" || strings.ContainsAny(host, "/ @") || !reachable(port) {
		c.add("clients.publish_address", "%q is not an address: write host:port, such as search.example:9210", k.PublishAddress)
	} else if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		c.add("clients.publish_address", "%q can be listened on but not reached: write the address that clients use", k.PublishAddress)
	}
}

// reachable reports whether one can connect to a port of this number.
func reachable(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n != 0
}

func (c *checker) diagnosis(d Diagnosis) {
	if d.MaxSize < MiB {
		c.add("diagnosis.max_size", "must be at least 1MiB: a record may be so large")
	}
	if d.Dir == "" {
		return
	}
	switch info, err := os.Stat(d.Dir); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		c.unreadable("diagnosis.dir", err, "%s cannot be used: %s", d.Dir, reason(err))
	case err == nil && !info.IsDir():
		c.add("diagnosis.dir", "%s is not a folder", d.Dir)
	}
}

func (c *checker) positive(path string, d time.Duration) {
	if d <= 0 {
		c.add(path, "must be longer than 0, not %s", d)
	}
}

// leastInterval keeps a unit that was mistaken, such as 1ns, from becoming thousands of polls a second.
const leastInterval = 10 * time.Millisecond

func (c *checker) interval(path string, d time.Duration) {
	if d < leastInterval {
		c.add(path, "must be at least %s, not %s: the cluster is asked so often", leastInterval, d)
	}
}

func (c *checker) notNegative(path string, d time.Duration) {
	if d < 0 {
		c.add(path, "must not be negative: %s", d)
	}
}

func (c *checker) atLeast(path string, n, least int) {
	if n < least {
		c.add(path, "must be at least %d, not %d", least, n)
	}
}

func (c *checker) oneOf(path, value string) {
	if !slices.Contains(words[path], value) {
		c.add(path, "%q is not one of %s", value, strings.Join(words[path], ", "))
	}
}
