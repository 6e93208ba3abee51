package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// problems returns those that [Join] put into err.
func problems(err error) (all []*Problem) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			all = append(all, one.(*Problem)) //nolint:errorlint // as Join made it
		}
	}
	return all
}

// Each file in testdata/bad breaks one rule and ends with the problems expected,
// a "# want:" line each.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			var want []string
			for line := range strings.Lines(string(data)) {
				if text, ok := strings.CutPrefix(line, "# want: "); ok {
					want = append(want, strings.TrimSpace(text))
				}
			}
			_, err = Parse(filepath.Base(file), data)
			require.Error(t, err)
			require.Equal(t, want, strings.Split(err.Error(), "\n"))
			require.NotContains(t, err.Error(), "hunter")
		})
	}
}

func TestGoodFile(t *testing.T) {
	cfg, err := Load("testdata/good.yaml")
	require.NoError(t, err)
	require.Equal(t, Config{
		Listen: "0.0.0.0:9210",
		Admin: Admin{
			Listen: "127.0.0.1:9311", AllowedHosts: []string{"sidestep.monitoring.svc", "*"},
			TokenFile: "testdata/secret", SnapshotTokenFile: "testdata/secret", Profiles: true,
		},
		Upstream: Upstream{
			URLs:      []string{"http://10.0.0.1:9200", "http://10.0.0.2:9200/"},
			Discovery: "static",
			Auth:      Auth{Username: "monitor", PasswordFile: "testdata/secret"},
			Dial:      250 * time.Millisecond, IdleConnections: 8,
		},
		Cluster: Cluster{
			DiscoveryInterval: time.Minute,
			PlacementInterval: 2 * time.Second,
			PlacementMaxAge:   30 * time.Second,
			StatsInterval:     250 * time.Millisecond,
			StatsIdleInterval: 3 * time.Second,
			StatsTimeout:      300 * time.Millisecond,
			PollTimeout:       3 * time.Second,
			Source: Source{
				URL: "https://relay:9211/snapshot", TLS: ClientTLS{ServerName: "relay"}, BearerTokenFile: "testdata/secret",
				Silence: 2 * time.Second,
			},
		},
		Routing: Routing{
			Mode: "observe", When: "outlier", Preference: "prefer_nodes", Clients: 4, HedgeBudget: 0.1,
			Operations: Operations{Search: true, SearchTemplate: true, AsyncSearch: true, MSearch: true, MSearchTemplate: true, Get: true, Explain: true, TermVectors: true, MGet: true},
			Zone:       Zone{Attribute: "zone", Local: "eu-1a", Factor: 2},
			Affinity:   Affinity{Strings: false, Indices: []string{"products", "logs-*"}},
		},
		Diagnosis: Diagnosis{Dir: "testdata", MaxSize: 2 * MiB},
		Bulk:      Bulk{Mode: "observe", SingleShard: []SingleShard{{Index: "logs-*"}, {Index: "events"}}, RoutingSize: []RoutingSize{{Index: "orders-*", Size: 2}, {Index: "old", Size: 3, Writes: new(bool)}}, Idempotent: true, RetryRejected: 2 * time.Second, MaxSkew: 2},
		Admission: Admission{
			Mode: "target", TargetResponseTime: 500 * time.Millisecond, Min: 4, Max: 40,
			Queue: AdmissionQueue{Length: 100, Bytes: MiB, Time: 3 * time.Second},
			Classes: []AdmissionClass{{
				Name: "reports", Match: AdmissionMatch{Operation: "search", Index: "archive-*", User: "kim", OpaqueIDPrefix: "report-"},
				Weight: 0.5, Rate: 5, Deadline: time.Second, Downgrade: "default",
			}},
			Writes: AdmissionWrites{Mode: "observe", Min: 2, Max: 20, Queue: AdmissionWriteQueue{Length: 50, Time: 4 * time.Second}},
		},
		Clients: Clients{Sniff: "rewrite", PublishAddress: "search.example:9210"},
		Limits:  Limits{HeldBody: 512 * KiB, HeldBodies: 8 * MiB, BodyTimeout: 20 * time.Second, WriteTimeout: 0, ReadHeaderTimeout: 5 * time.Second, DrainDelay: 15 * time.Second, ShutdownGrace: 90 * time.Second, ConcurrentStreams: 16},
		Explain: Explain{Header: "off"},
		Log:     Log{Level: "debug", Format: "json"},
		Logs:    Logs{Slow: SlowLog{Threshold: 300 * time.Millisecond, Keep: 20, Output: "stderr"}, Access: AccessLog{Output: "testdata/access.log", Sample: 0.25}},
		Tracing: Tracing{
			Endpoint: "https://collector:4317", Protocol: "grpc", SampleRatio: 0.5, TrustClientSampling: true,
			HeadersFile: "testdata/headers", ServiceName: "products-search",
		},
	}, cfg)
	require.NoError(t, cfg.Validate())
	require.Len(t, cfg.Upstream.Parsed(), 2)
	require.Equal(t, "relay:9211", cfg.Cluster.Source.Parsed().Host)
	require.Equal(t, []string{"count", "pit"}, cfg.Routing.Operations.Off())
	require.Empty(t, Default().Routing.Operations.Off())
	headers, err := cfg.Tracing.Headers()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"authorization": "Bearer hunter2", "X-Tenant": "shop"}, headers)
}

// The reference file is documentation: it must show every key with its default.
func TestReferenceFileIsTheDefaults(t *testing.T) {
	data, err := os.ReadFile("../../deploy/sidestep.yaml")
	require.NoError(t, err)

	var cfg Config
	decoded := decode(data, &cfg)
	require.Empty(t, decoded.problems)
	require.Equal(t, Default(), cfg)
	for _, key := range keys() {
		if listOf(key) == "" && key != "routing.policy" { // the lists are empty, and that says nothing any more
			require.Contains(t, decoded.lines, key, "deploy/sidestep.yaml lacks a key")
		}
	}
}

// The configurations in the examples must be ones that sidestep takes; only the
// files they mount are missing here.
func TestKubernetesExamples(t *testing.T) {
	for file, want := range map[string]int{"kubernetes": 1, "kubernetes-fleet": 2} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile("../../deploy/" + file + ".yaml")
			require.NoError(t, err)
			found := 0
			documents := yaml.NewDecoder(bytes.NewReader(data))
			for {
				var document struct {
					Kind string            `yaml:"kind"`
					Data map[string]string `yaml:"data"`
					Spec struct {
						Affinity string `yaml:"sessionAffinity"`
					} `yaml:"spec"`
				}
				err := documents.Decode(&document)
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				if document.Kind == "Service" { // of relays, of which a sidecar reads one
					require.Equal(t, "ClientIP", document.Spec.Affinity)
				}
				text, ok := document.Data["sidestep.yaml"]
				if !ok {
					continue
				}
				found++
				_, err = Parse("sidestep.yaml", []byte(text))
				for _, p := range problems(err) {
					require.Regexp(t, `_file$`, p.Path, p.Error())
					require.Contains(t, p.Message, "cannot be read")
				}
			}
			require.Equal(t, want, found)
		})
	}
}

var yamlExample = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// So must those in the documents.
func TestExamplesInDocuments(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, name := range documents {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, example := range yamlExample.FindAllStringSubmatch(string(text), -1) {
			found++
			_, err := Parse(filepath.Base(name), []byte(example[1]), Override{
				Path: "upstream.urls", Flag: "--upstream", Apply: func(c *Config) { c.Upstream.URLs = []string{"http://a:9200"} },
			})
			for _, p := range problems(err) {
				require.Regexp(t, `_file$`, p.Path, p.Error())
				require.Contains(t, p.Message, "cannot be read")
			}
		}
	}
	require.Greater(t, found, 5)
}

func TestEverySchemaKeyHasAName(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(section reflect.Type) {
		for i := range section.NumField() {
			field := section.Field(i)
			require.Regexp(t, `^[a-z_]+$`, field.Tag.Get("yaml"), field.Name)
			if field.Type.Kind() == reflect.Struct {
				walk(field.Type)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

func TestDefaultsNeedOnlyAnUpstream(t *testing.T) {
	_, err := Load("")
	require.EqualError(t, err, "upstream.urls: at least one node is needed, such as http://127.0.0.1:9200 (or give --upstream)")

	cfg := Default()
	cfg.Upstream.URLs = []string{"http://127.0.0.1:9200"}
	require.NoError(t, cfg.Validate())
}

func TestOverridesWinOverTheFile(t *testing.T) {
	data := []byte("listen: nowhere\nupstream: {urls: [http://a:9200]}\nlog:\n")
	listen := func(address string) Override {
		return Override{Path: "listen", Flag: "--listen", Apply: func(c *Config) { c.Listen = address }}
	}

	cfg, err := Parse("f.yaml", data, listen("127.0.0.1:1"))
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", cfg.Listen)
	require.Equal(t, Default().Log, cfg.Log)

	_, err = Parse("f.yaml", data, listen("somewhere"), Override{
		Path: "upstream.urls", Flag: "--upstream", Apply: func(c *Config) { c.Upstream.URLs = []string{"ftp://a"} },
	})
	require.Equal(t, []string{
		`--listen: listen: "somewhere" is not an address: write host:port, such as 127.0.0.1:9210`,
		`--upstream: upstream.urls[0]: must be an http or https URL with a host, such as http://127.0.0.1:9200`,
	}, strings.Split(err.Error(), "\n"))
}

func TestUnreadableFile(t *testing.T) {
	_, err := Load("testdata/missing.yaml")
	require.EqualError(t, err, "testdata/missing.yaml: cannot be read: no such file or directory")
}

func TestLogValueHidesCredentials(t *testing.T) {
	cfg := Default()
	cfg.Upstream.URLs = []string{"https://elastic:hunter2@a:9200/?token=hunter2", "hunter2"}
	cfg.Upstream.Auth.APIKeyFile = "/run/secrets/key"
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("configuration", "config", cfg)

	require.NotContains(t, out.String(), "hunter2")
	var logged struct {
		Config struct {
			Upstream []string
			Auth     string
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &logged))
	require.Equal(t, []string{"https://a:9200", "(not a URL)"}, logged.Config.Upstream)
	require.Equal(t, "api_key", logged.Config.Auth)
}

func TestLoopback(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:9211": true, "127.8.9.10:0": true, "localhost:9211": true, "LOCALHOST:9211": true, "[::1]:9211": true,
		"[::ffff:127.0.0.1]:9211": true, "0.0.0.0:9211": false, ":9211": false, "[::]:9211": false, "10.0.0.1:9211": false,
		"localhost.example:9211": false, "nonsense": false,
	} {
		require.Equal(t, want, Loopback(listen), listen)
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "100B": 100, "1KiB": KiB, "1 MiB": MiB, "3GiB": 3 * GiB, "1048576": MiB,
	} {
		got, err := ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := ParseSize(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "1MB", "9999999999GiB", "1 k"} {
		_, err := ParseSize(text)
		require.Error(t, err, text)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/bad/*.yaml", "../../deploy/sidestep.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(data)
		}
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("upstream: &u {urls: *u}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := Default()
		d := decode(data, &cfg) // reads no file, whatever the data names
		for _, p := range d.problems {
			require.NotEmpty(t, p.Message)
			require.Positive(t, p.line)
		}
	})
}
