package harness

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// launcher is what all nodes of a cluster are started with.
type launcher struct {
	release release
	home    string // unpacked distribution
	jdk     jdk
	java    string              // home of what start scripts take for the JDK
	owner   *syscall.Credential // nil: ourselves
	options ClusterOptions
	// authority signs the nodes' certificates; nil without security.
	authority *Authority
	transport http.RoundTripper // for requests to the nodes
	silence   time.Duration     // after which a node is started once more
}

// scheme returns the scheme of the nodes' addresses.
func (l launcher) scheme() string {
	if l.authority != nil {
		return "https"
	}
	return "http"
}

// settings returns the node settings, which the engine reads as YAML.
func (l launcher) settings(n *Node, all []*Node) map[string]string {
	var seeds, names []string
	for _, node := range all {
		seeds = append(seeds, loopback(node.publishedTransport()))
		names = append(names, node.Name)
	}
	s := map[string]string{
		"cluster.name":           "sidestep-test",
		"node.name":              n.Name,
		"node.processors":        strconv.Itoa(l.options.Processors),
		"path.data":              filepath.Join(n.dir, "data"),
		"path.logs":              filepath.Join(n.dir, "logs"),
		"network.host":           "127.0.0.1",
		"http.port":              strconv.Itoa(n.httpPort),
		"http.publish_port":      strconv.Itoa(n.publishedHTTP()),
		"transport.port":         strconv.Itoa(n.transportPort),
		"transport.publish_port": strconv.Itoa(n.publishedTransport()),
		"discovery.seed_hosts":   list(seeds),
		// A developer's disk is often fuller than the engines like.
		"cluster.routing.allocation.disk.threshold_enabled": "false",
	}
	if !mmapAllowed() {
		s["node.store.allow_mmap"] = "false"
	}
	bootstrap := "cluster.initial_cluster_manager_nodes"
	if l.release.distribution == Elasticsearch {
		bootstrap = "cluster.initial_master_nodes"
		maps.Copy(s, l.securitySettings())
	}
	s[bootstrap] = list(names)
	maps.Copy(s, l.options.Settings)
	if at := slices.Index(all, n); at < len(l.options.NodeSettings) {
		maps.Copy(s, l.options.NodeSettings[at])
	}
	return s
}

// mmapAllowed reports whether the kernel grants the engines as many memory maps
// as they ask for.
func mmapAllowed() bool {
	data, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return true // not Linux
	}
	count, err := strconv.Atoi(strings.TrimSpace(string(data)))
	return err == nil && count >= 262144
}

func list(values []string) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.Quote(value)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// writeConfig makes the node's own folders and configuration.
func (l launcher) writeConfig(n *Node, all []*Node) error {
	config := filepath.Join(n.dir, "config")
	for _, dir := range []string{"data", "logs", "tmp"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			return fmt.Errorf("make the folders of %s: %w", n.Name, err)
		}
	}
	if err := os.CopyFS(config, os.DirFS(filepath.Join(l.home, "config"))); err != nil {
		return fmt.Errorf("copy the configuration of %s: %w", n.Name, err)
	}
	settings := l.settings(n, all)
	var yaml strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&yaml, "%s: %s\n", key, settings[key])
	}
	path := filepath.Join(config, l.release.distribution+".yml")
	if err := os.WriteFile(path, []byte(yaml.String()), 0o644); err != nil {
		return fmt.Errorf("configure %s: %w", n.Name, err)
	}
	if err := trimJVMOptions(filepath.Join(config, "jvm.options"), l.options.SerialGC); err != nil {
		return fmt.Errorf("configure the JVM of %s: %w", n.Name, err)
	}
	if err := l.writeSecurity(n); err != nil {
		return fmt.Errorf("configure the security of %s: %w", n.Name, err)
	}
	if err := give(n.dir, l.owner); err != nil {
		return fmt.Errorf("hand the folders of %s to the user it runs as: %w", n.Name, err)
	}
	return nil
}

// trimJVMOptions drops the options that write below the distribution's own
// folder, which the nodes share and may not write to; with serial also that of the
// collector, of which there may be only one.
func trimJVMOptions(path string, serial bool) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	unwanted := []string{"-Xlog:gc", "-Xlog:all", "-XX:ErrorFile", "HeapDump", "-Xloggc"}
	if serial {
		unwanted = append(unwanted, "-XX:+UseG1GC")
	}
	lines := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool {
		return slices.ContainsFunc(unwanted, func(option string) bool {
			return strings.Contains(line, option)
		})
	})
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644)
}

// environment returns the variables the engine's start script reads.
func (l launcher) environment(n *Node) []string {
	prefix := "OPENSEARCH_"
	if l.release.distribution == Elasticsearch {
		prefix = "ES_"
	}
	heap := strconv.Itoa(l.options.HeapMB) + "m"
	// With their second compiler nodes get faster after minutes under load, but five that
	// compile on a small machine take twice as long to start and are slower until then.
	jvm := "-Xms" + heap + " -Xmx" + heap + " -XX:TieredStopAtLevel=1"
	if l.options.SerialGC {
		jvm += " -XX:+UseSerialGC -XX:-AlwaysPreTouch"
	}
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + n.dir,
		"JAVA_HOME=" + l.java,
		prefix + "JAVA_HOME=" + l.java,
		prefix + "PATH_CONF=" + filepath.Join(n.dir, "config"),
		prefix + "TMPDIR=" + filepath.Join(n.dir, "tmp"),
		prefix + "JAVA_OPTS=" + jvm,
		// The process of Elasticsearch that starts a node compiles what it runs but once.
		"CLI_JAVA_OPTS=-XX:TieredStopAtLevel=1",
	}
}
