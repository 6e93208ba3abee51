// Package config is sidestep's configuration: the schema of the YAML file, its
// defaults, strict decoding and validation. Every problem is reported at once,
// each with the path of its key.
package config

import (
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Config is the whole configuration. The names of the keys are the yaml tags;
// deploy/sidestep.yaml explains each.
type Config struct {
	Listen    string    `yaml:"listen"`
	ListenTLS ServerTLS `yaml:"listen_tls"`
	Admin     Admin     `yaml:"admin"`
	Upstream  Upstream  `yaml:"upstream"`
	Cluster   Cluster   `yaml:"cluster"`
	Routing   Routing   `yaml:"routing"`
	Bulk      Bulk      `yaml:"bulk"`
	Admission Admission `yaml:"admission"`
	Clients   Clients   `yaml:"clients"`
	Limits    Limits    `yaml:"limits"`
	Explain   Explain   `yaml:"explain"`
	Diagnosis Diagnosis `yaml:"diagnosis"`
	Log       Log       `yaml:"log"`
	Logs      Logs      `yaml:"logs"`
	Tracing   Tracing   `yaml:"tracing"`
}

// ServerTLS is the TLS of a listener; plain HTTP while CertFile is empty.
type ServerTLS struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ClientCAFile, if set, makes a client certificate signed by it compulsory.
	ClientCAFile string `yaml:"client_ca_file"`
}

// Enabled reports whether the listener speaks TLS.
func (t ServerTLS) Enabled() bool { return t.CertFile != "" }

// Admin is the second listener: health, metrics, explanations, the switch.
type Admin struct {
	Listen string    `yaml:"listen"`
	TLS    ServerTLS `yaml:"tls"`
	// AllowedHosts are the names of the listener in requests over plain HTTP, besides its
	// own; "*" stands for all.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// TokenFile, if set, holds the bearer token that changes need.
	TokenFile string `yaml:"token_file"`
	// SnapshotTokenFile, if set, holds the bearer token that other sidesteps need for the
	// snapshot.
	SnapshotTokenFile string `yaml:"snapshot_token_file"`
	// Profiles says whether profiles of the process are served.
	Profiles bool `yaml:"profiles"`
}

// Loopback reports whether a listener on address can be reached only from its own machine.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// Upstream is the cluster behind sidestep and how to reach it.
type Upstream struct {
	// URLs are the seeds: with discovery "sniff" any one living node is enough.
	URLs      []string      `yaml:"urls"`
	Discovery string        `yaml:"discovery"` // "sniff" or "static"
	TLS       ClientTLS     `yaml:"tls"`
	Auth      Auth          `yaml:"auth"`
	Dial      time.Duration `yaml:"dial_timeout"`
	// IdleConnections bounds the unused connections kept open to each node.
	IdleConnections int `yaml:"idle_connections_per_node"`
}

// Parsed returns the parsed URLs. Call it on a valid configuration: it skips a URL that
// cannot be parsed.
func (u Upstream) Parsed() []*url.URL {
	parsed := make([]*url.URL, 0, len(u.URLs))
	for _, raw := range u.URLs {
		if one, err := url.Parse(raw); err == nil {
			parsed = append(parsed, one)
		}
	}
	return parsed
}

// ClientTLS says which certificates to trust and which one to present.
type ClientTLS struct {
	CAFile             string `yaml:"ca_file"`
	CertFile           string `yaml:"cert_file"`
	KeyFile            string `yaml:"key_file"`
	ServerName         string `yaml:"server_name"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
}

// Auth is sidestep's own account, used only for its polls. Secrets are read from files;
// at most one kind may be set.
type Auth struct {
	Username        string `yaml:"username"`
	PasswordFile    string `yaml:"password_file"`
	APIKeyFile      string `yaml:"api_key_file"`
	BearerTokenFile string `yaml:"bearer_token_file"`
}

// Kinds of account, as [Auth.Kind] names them.
const (
	AuthNone   = "none"
	AuthBasic  = "basic"
	AuthAPIKey = "api_key"
	AuthBearer = "bearer"
)

// Kind names the kind of account that is set.
func (a Auth) Kind() string {
	switch {
	case a.Username != "":
		return AuthBasic
	case a.APIKeyFile != "":
		return AuthAPIKey
	case a.BearerTokenFile != "":
		return AuthBearer
	}
	return AuthNone
}

// Cluster says how often sidestep polls the cluster, and how long it waits.
type Cluster struct {
	DiscoveryInterval time.Duration `yaml:"discovery_interval"`
	PlacementInterval time.Duration `yaml:"placement_interval"`
	PlacementMaxAge   time.Duration `yaml:"placement_max_age"`
	StatsInterval     time.Duration `yaml:"stats_interval"`
	StatsIdleInterval time.Duration `yaml:"stats_idle_interval"`
	StatsTimeout      time.Duration `yaml:"stats_timeout"`
	PollTimeout       time.Duration `yaml:"poll_timeout"`
	Source            Source        `yaml:"source"`
}

// Source is a relay: another sidestep whose view is read in place of polling the cluster.
type Source struct {
	URL             string    `yaml:"url"` // of its snapshot; empty: the cluster is polled
	TLS             ClientTLS `yaml:"tls"`
	BearerTokenFile string    `yaml:"bearer_token_file"`
	// Silence is how long the relay may be silent before the cluster is polled instead.
	Silence time.Duration `yaml:"silence"`
}

// Parsed returns the parsed URL, nil if there is none. Call it on a valid configuration.
func (s Source) Parsed() *url.URL {
	if s.URL == "" {
		return nil
	}
	parsed, _ := url.Parse(s.URL)
	return parsed
}

// Routing says which searches are steered, and how.
type Routing struct {
	Mode string `yaml:"mode"` // "route", "observe" or "off"
	// Policy says nothing, as there is one alone. It is accepted for one more release, with a warning.
	Policy string `yaml:"policy"`
	// When says which steerable searches are rewritten: "always", or "outlier": only
	// while a node is ejected or about to be.
	When string `yaml:"when"`
	// Preference is the preference they get: "only_nodes" or "prefer_nodes".
	Preference string `yaml:"preference"`
	// Clients is n in C3's formula: how many sidesteps send to the same nodes.
	Clients int `yaml:"clients"`
	// HedgeBudget is the share of steered searches that may be hedged; 0: none.
	HedgeBudget float64 `yaml:"hedge_budget"`
	// CoordinatingOnly says that requests may be sent through nodes without data.
	CoordinatingOnly bool       `yaml:"coordinating_only"`
	Operations       Operations `yaml:"operations"`
	Zone             Zone       `yaml:"zone"`
	Affinity         Affinity   `yaml:"affinity"`
}

// Operations says which operations are steered; the others pass.
type Operations struct {
	Search          bool `yaml:"search"`
	SearchTemplate  bool `yaml:"search_template"`
	Count           bool `yaml:"count"`
	AsyncSearch     bool `yaml:"async_search"`
	PIT             bool `yaml:"pit"`
	MSearch         bool `yaml:"msearch"`
	MSearchTemplate bool `yaml:"msearch_template"`
	Get             bool `yaml:"get"`
	Explain         bool `yaml:"explain"`
	TermVectors     bool `yaml:"termvectors"`
	MGet            bool `yaml:"mget"`
}

// Off returns the names of the operations that are switched off, as the keys are called.
func (o Operations) Off() []string {
	var off []string
	for key, on := range fieldsOf(reflect.ValueOf(o)) {
		if !on.Bool() {
			off = append(off, key)
		}
	}
	slices.Sort(off)
	return off
}

// Zone keeps reads in sidestep's own zone. Zones are ignored while Attribute and Local
// are empty.
type Zone struct {
	// Attribute is the node attribute whose values are the zones, as in
	// cluster.routing.allocation.awareness.attributes.
	Attribute string `yaml:"attribute"`
	Local     string `yaml:"local"` // sidestep's own
	// Factor is how many times better a copy in another zone must rank to be used.
	Factor float64 `yaml:"factor"`
}

// Affinity says which searches keep to the same copies.
type Affinity struct {
	// Strings: those whose preference is a custom string, by that string.
	Strings bool `yaml:"strings"`
	// Indices: those without a preference whose target matches one of these patterns, by
	// their target.
	Indices []string `yaml:"indices"`
}

// Clients says how sidestep treats features of client libraries.
type Clients struct {
	// Sniff is the answer to a request for the nodes' addresses: "pass", the nodes' own,
	// or "rewrite", sidestep's.
	Sniff string `yaml:"sniff"`
	// PublishAddress is sidestep's own, host:port as clients reach it. If empty it is the
	// address at which the client's connection arrived.
	PublishAddress string `yaml:"publish_address"`
}

// Bulk says which bulks are written to one shard each.
type Bulk struct {
	// Mode is "route", "observe" (what would be done is only counted) or "off".
	Mode string `yaml:"mode"`
	// SingleShard are the indices whose bulks go to one shard; empty: none.
	SingleShard []SingleShard `yaml:"single_shard"`
	// RoutingSize are the indices whose documents with a routing of the client's are
	// spread over logical shards; empty: none.
	RoutingSize []RoutingSize `yaml:"routing_size"`
	// Avoid says to avoid shards with a copy on a node in trouble. Without it all shards
	// are drawn evenly.
	Avoid bool `yaml:"avoid"`
	// Idempotent gives ids to documents without ids, so that a bulk can be repeated when
	// a connection broke.
	Idempotent bool `yaml:"idempotent"`
	// RetryRejected is how long operations that the engine rejects (429) are repeated; 0:
	// they are not.
	RetryRejected time.Duration `yaml:"retry_rejected"`
	// MaxSkew bounds the documents of the fullest shard, as a multiple of the mean. At
	// this bound evenness is preferred to healthy shards.
	MaxSkew float64 `yaml:"max_skew"`
}

// SingleShard names indices. Documents written to them get a routing.
type SingleShard struct {
	Index string `yaml:"index"` // a name, with * as wildcard
}

// RoutingSize names indices with logical shards.
type RoutingSize struct {
	Index string `yaml:"index"` // a name, with * as wildcard
	// Size is how many shards are in a slot: a divisor of their number, and less.
	Size int `yaml:"size"`
	// Writes: bulks are written to one slot; nil is true. Reads by routing visit all slots
	// in any case.
	Writes *bool `yaml:"writes"`
}

// Write reports whether bulks are written to one slot.
func (r RoutingSize) Write() bool { return r.Writes == nil || *r.Writes }

// Patterns returns the names and patterns of SingleShard.
func (b Bulk) Patterns() []string {
	patterns := make([]string, len(b.SingleShard))
	for i, s := range b.SingleShard {
		patterns[i] = s.Index
	}
	return patterns
}

// Limits bound the memory and time that one client can take from sidestep.
type Limits struct {
	HeldBody Size `yaml:"held_body"`
	// HeldBodies bounds the bytes of all held bodies together.
	HeldBodies Size `yaml:"held_bodies"`
	// BodyTimeout is how long a client may send nothing of a body that it began,
	// WriteTimeout how long it may read nothing of its answer; 0: any time.
	BodyTimeout       time.Duration `yaml:"body_timeout"`
	WriteTimeout      time.Duration `yaml:"write_timeout"`
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout"`
	// DrainDelay is how long connections are still accepted after a stop begins.
	DrainDelay    time.Duration `yaml:"drain_delay"`
	ShutdownGrace time.Duration `yaml:"shutdown_grace"`
	// ConcurrentStreams is how many requests a client may have in flight on one HTTP/2
	// connection; 0: clients are served HTTP/1.1 only.
	ConcurrentStreams int `yaml:"concurrent_streams"`
}

// Explain says which clients get decisions.
type Explain struct {
	// Header says which clients get X-Sidestep-Decision on demand: "off" none,
	// "authenticated" those that the engine allowed to see what they asked for, "on" all.
	Header string `yaml:"header"`
}

// Diagnosis says whether and where trouble of nodes is recorded.
type Diagnosis struct {
	Enabled bool `yaml:"enabled"`
	// Dir is the folder of the records; empty: they are kept in memory.
	Dir string `yaml:"dir"`
	// MaxSize bounds all records together.
	MaxSize Size `yaml:"max_size"`
}

// Log says what is logged on standard error, and in which form.
type Log struct {
	Level  string `yaml:"level"`  // "debug", "info", "warn" or "error"
	Format string `yaml:"format"` // "text" or "json"
}

// Logs says which requests are kept and logged.
type Logs struct {
	Slow   SlowLog   `yaml:"slow"`
	Access AccessLog `yaml:"access"`
}

// SlowLog is the log of slow requests.
type SlowLog struct {
	Threshold time.Duration `yaml:"threshold"` // from which on a request is slow; 0: none is
	// Keep is how many requests of each kind are kept for /slow; 0: none.
	Keep   int    `yaml:"keep"`
	Output string `yaml:"output"` // "stdout", "stderr", a file; empty: none
}

// AccessLog is the log of all requests.
type AccessLog struct {
	Output string  `yaml:"output"` // as in SlowLog
	Sample float64 `yaml:"sample"` // the share of requests that is logged, 0 to 1
}

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:9210",
		Admin:  Admin{Listen: "127.0.0.1:9211", AllowedHosts: []string{}},
		Upstream: Upstream{
			URLs:            []string{},
			Discovery:       "sniff",
			Dial:            time.Second,
			IdleConnections: 256,
		},
		Cluster: Cluster{
			DiscoveryInterval: 10 * time.Second,
			PlacementInterval: time.Second,
			PlacementMaxAge:   time.Minute,
			StatsInterval:     200 * time.Millisecond,
			StatsIdleInterval: 2 * time.Second,
			StatsTimeout:      time.Second,
			PollTimeout:       5 * time.Second,
			Source:            Source{Silence: 3 * time.Second},
		},
		Routing: Routing{
			Mode: "route", When: "outlier", Preference: "only_nodes", Clients: 1, HedgeBudget: 0.05,
			Operations: Operations{
				Search: true, SearchTemplate: true, Count: true, AsyncSearch: true, PIT: true, MSearch: true, MSearchTemplate: true,
				Get: true, Explain: true, TermVectors: true, MGet: true,
			},
			Zone:     Zone{Factor: 1.5},
			Affinity: Affinity{Strings: true, Indices: []string{}},
		},
		Bulk:      Bulk{Mode: "route", SingleShard: []SingleShard{}, RoutingSize: []RoutingSize{}, Avoid: true, MaxSkew: 1.5},
		Admission: Admission{Mode: "off", Classes: []AdmissionClass{}, Writes: AdmissionWrites{Mode: "off"}},
		Clients:   Clients{Sniff: "pass"},
		Limits: Limits{
			HeldBody:          MiB,
			HeldBodies:        64 * MiB,
			BodyTimeout:       time.Minute,
			WriteTimeout:      5 * time.Minute,
			ReadHeaderTimeout: 10 * time.Second,
			DrainDelay:        5 * time.Second,
			ShutdownGrace:     30 * time.Second,
			ConcurrentStreams: 250,
		},
		Explain:   Explain{Header: "authenticated"},
		Diagnosis: Diagnosis{Enabled: true, MaxSize: 16 * MiB},
		Log:       Log{Level: "info", Format: "text"},
		Logs:      Logs{Slow: SlowLog{Threshold: time.Second, Keep: 100}, Access: AccessLog{Sample: 1}},
		Tracing:   Tracing{SampleRatio: 0.01},
	}
}

// LogValue is the loggable form: URLs without user information, and of the account only
// its kind.
func (c Config) LogValue() slog.Value {
	urls := make([]string, len(c.Upstream.URLs))
	for i, raw := range c.Upstream.URLs {
		urls[i] = redactURL(raw)
	}
	return slog.GroupValue(
		slog.String("listen", c.Listen),
		slog.Bool("listen_tls", c.ListenTLS.Enabled()),
		slog.String("admin", c.Admin.Listen),
		slog.Bool("admin_tls", c.Admin.TLS.Enabled()),
		slog.Any("upstream", urls),
		slog.String("discovery", c.Upstream.Discovery),
		slog.String("auth", c.Upstream.Auth.Kind()),
		slog.String("source", redactSource(c.Cluster.Source.URL)),
		slog.String("mode", c.Routing.Mode),
	)
}

func redactSource(raw string) string {
	if raw == "" {
		return "polls"
	}
	return redactURL(raw)
}

// redactURL keeps scheme and host of raw. A text that is not a URL is hidden completely,
// as any part of it could be a password.
func redactURL(raw string) string {
	parsed, err := url.Parse(raw)
	if err != nil || parsed.Host == "" {
		return "(not a URL)"
	}
	return parsed.Scheme + "://" + parsed.Host
}
