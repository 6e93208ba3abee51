package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Distributions that can be started.
const (
	OpenSearch    = "opensearch"
	Elasticsearch = "elasticsearch"
)

// ClusterOptions says which cluster to start. The zero value is one node of
// OpenSearch without proxies.
type ClusterOptions struct {
	Distribution string // OpenSearch (default) or Elasticsearch
	Version      string // default: DefaultVersion(Distribution)
	Nodes        int    // default 1
	// Proxied puts toxiproxy before every node's transport and HTTP port and has
	// the node publish the proxies' addresses, so that every node-to-node and
	// client connection passes through them.
	Proxied bool
	// Security, if set, has the nodes speak TLS and demand credentials. For
	// Elasticsearch alone. Do uses an account of its own.
	Security *Security
	// Dir holds configuration, data and logs of the nodes. Default: a new folder
	// under os.TempDir. It must be empty or absent; Stop removes its data.
	Dir        string
	HeapMB     int               // heap of a node, default 512
	Processors int               // node.processors, default 1
	Settings   map[string]string // further node settings; they win over ours
	// NodeSettings are those of the first node, the second, …; they win over all.
	NodeSettings []map[string]string
	// SerialGC lets the JVMs collect garbage with one thread and touch their heaps when they
	// need them: they start with a tenth less CPU, and in half the memory. For tests that
	// measure nothing.
	SerialGC bool
	// BeforeStart, if set, is called when all addresses are known and no node runs
	// yet.
	BeforeStart func(*Cluster) error
	// StartTimeout bounds the start of the whole cluster, default [Patience].
	StartTimeout time.Duration
	Logf         func(format string, args ...any) // progress; nil is silent
}

// DefaultVersion is the version of a distribution the tests are written for.
func DefaultVersion(distribution string) string {
	if distribution == Elasticsearch {
		return "8.19.4"
	}
	return "3.6.0"
}

func (o ClusterOptions) withDefaults() ClusterOptions {
	if o.Distribution == "" {
		o.Distribution = OpenSearch
	}
	if o.Version == "" {
		o.Version = DefaultVersion(o.Distribution)
	}
	o.Nodes = max(o.Nodes, 1)
	if o.HeapMB == 0 {
		o.HeapMB = 512
	}
	if o.Processors == 0 {
		o.Processors = 1
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = Patience
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o
}

// Cluster is a running cluster.
type Cluster struct {
	Distribution string
	Version      string
	// Dir holds a folder per node with its configuration, data and logs.
	Dir   string
	Nodes []*Node

	// Authority signed the nodes' certificates; nil without ClusterOptions.Security.
	Authority *Authority

	options ClusterOptions
	client  *http.Client
}

// StartCluster fetches the distribution if need be, starts all nodes at once and
// returns when every node sees all the others. On failure nothing is left
// running, and the error names the folder with the logs. An error about a missing
// JDK or Maven says in one line what to install.
func StartCluster(ctx context.Context, options ClusterOptions) (*Cluster, error) {
	o := options.withDefaults()
	release, err := parseRelease(o.Distribution, o.Version)
	if err != nil {
		return nil, err
	}
	java, err := release.findJDK()
	if err != nil {
		return nil, err
	}
	home, err := release.fetch(ctx, o.Logf)
	if err != nil {
		return nil, err
	}
	owner, err := nodeUser()
	if err != nil {
		return nil, err
	}
	if o.Dir, err = makeDir(o.Dir); err != nil {
		return nil, err
	}
	launch := launcher{release: release, home: home, jdk: java, owner: owner, options: o, silence: silence}
	if err := launch.secure(); err != nil {
		return nil, err
	}
	launch.transport = launch.newTransport()
	if launch.java, err = launch.writeJava(); err != nil {
		return nil, err
	}
	c := &Cluster{
		Distribution: o.Distribution, Version: o.Version, Dir: o.Dir, Authority: launch.authority, options: o,
		client: &http.Client{Timeout: 2 * time.Minute, Transport: launch.transport},
	}
	began := time.Now()
	o.Logf("%s %s: starting %d nodes with JDK %d (%s)", o.Distribution, o.Version, o.Nodes, java.Major, java.Home)
	if err := c.startWithPorts(ctx, launch); err != nil {
		c.kill()
		return nil, fmt.Errorf("start %s %s: %w (logs: %s)", o.Distribution, o.Version, err, c.Dir)
	}
	o.Logf("%s %s: %d nodes up after %.0f s", o.Distribution, o.Version, o.Nodes, time.Since(began).Seconds())
	return c, nil
}

// startWithPorts starts the nodes, with other ports when one of theirs was taken
// between its choice and the node's start: several clusters may start at once. Not
// when BeforeStart has handed the addresses out already.
func (c *Cluster) startWithPorts(ctx context.Context, launch launcher) error {
	for try := 1; ; try++ {
		err := c.startNodes(ctx, launch)
		if err == nil || try == 3 || c.options.BeforeStart != nil || !c.portTaken(err) {
			return err
		}
		c.options.Logf("a port was taken meanwhile, starting again: %v", err)
		c.kill()
		for _, node := range c.Nodes {
			if err := os.RemoveAll(node.dir); err != nil {
				return fmt.Errorf("start again with other ports: %w", err)
			}
		}
		c.Nodes = nil
	}
}

// portTaken reports whether the start failed because somebody else listens on a
// port of ours.
func (c *Cluster) portTaken(err error) bool {
	const text = "address already in use"
	if strings.Contains(err.Error(), text) {
		return true
	}
	for _, node := range c.Nodes {
		log, err := os.ReadFile(filepath.Join(node.LogDir(), "stdout"))
		if err == nil && strings.Contains(strings.ToLower(string(log)), text) {
			return true
		}
	}
	return false
}

func (c *Cluster) startNodes(ctx context.Context, launch launcher) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	for i := range c.options.Nodes {
		node, err := newNode(fmt.Sprintf("node-%d", i+1), launch)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
	}
	if hook := c.options.BeforeStart; hook != nil {
		if err := hook(c); err != nil {
			return err
		}
	}
	for _, node := range c.Nodes {
		if err := node.configure(c.Nodes); err != nil {
			return err
		}
		if err := node.start(); err != nil {
			return err
		}
	}
	if err := c.waitNodes(ctx); err != nil {
		return err
	}
	return c.allowKeys(ctx)
}

// URLs returns the address of every node as clients should use it: through its
// proxy if there is one.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		urls[i] = node.HTTPURL
	}
	return urls
}

// NodeNames returns the names of nodes.
func NodeNames(nodes []*Node) []string { return Names(nodes, func(n *Node) string { return n.Name }) }

// NodeByName returns the node called name ("node-1", …), nil if there is none.
func (c *Cluster) NodeByName(name string) *Node {
	for _, node := range c.Nodes {
		if node.Name == name {
			return node
		}
	}
	return nil
}

// ResetToxics takes away what was done to the connections of all nodes.
func (c *Cluster) ResetToxics(ctx context.Context) error {
	if !c.options.Proxied {
		return nil
	}
	return c.Each(func(n *Node) error { return n.ResetToxics(ctx) })
}

// Stop kills all nodes, waits until they are gone and removes their files.
func (c *Cluster) Stop() error {
	c.kill()
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("remove the files of the cluster: %w", err)
	}
	return nil
}

// StopKeepingLogs is Stop for a failed test: data is removed, logs stay in Dir.
func (c *Cluster) StopKeepingLogs() error {
	c.kill()
	var errs []error
	for _, node := range c.Nodes {
		errs = append(errs, os.RemoveAll(filepath.Join(node.dir, "data")), os.RemoveAll(filepath.Join(node.dir, "tmp")))
	}
	return errors.Join(errs...)
}

func (c *Cluster) kill() {
	_ = c.Each(func(node *Node) error {
		node.kill()
		node.closeProxies()
		return node.UnlimitCPU() // nothing is left in the group, and nothing depends on its end
	})
	c.client.CloseIdleConnections()
}

// makeDir makes the folder of a cluster, readable for the user the nodes run as.
func makeDir(dir string) (string, error) {
	if dir == "" {
		sweep(os.TempDir())
		dir = filepath.Join(os.TempDir(), fmt.Sprintf(clusterFolder, os.Getpid(), time.Now().UnixNano()))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of the cluster: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("look into the folder of the cluster: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("the folder of the cluster, %s, is not empty", dir)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("make the folder of the cluster: %w", err)
	}
	return absolute, nil
}

// clusterFolder is the name of the folder of a cluster, by process and time.
const clusterFolder = "sidestep-engine-%d-%d"

// sweep removes the data of clusters that were left by their process: it was killed, or its tests took
// too long. Their logs stay. Young folders are left alone: the process may be one that is not seen here.
func sweep(parent string) {
	folders, _ := filepath.Glob(filepath.Join(parent, "sidestep-engine-*")) // the pattern is well formed
	for _, folder := range folders {
		// Anybody may make a folder there, with links to other places in it.
		info, err := os.Lstat(folder)
		if err != nil || !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() { //nolint:forcetypeassert // so on all systems with engines
			continue
		}
		var pid int
		var began int64
		if _, err := fmt.Sscanf(filepath.Base(folder), clusterFolder, &pid, &began); err != nil {
			continue
		}
		if time.Since(time.Unix(0, began)) < time.Hour || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		for _, name := range []string{"data", "tmp"} {
			left, _ := filepath.Glob(filepath.Join(folder, "*", name))
			for _, one := range left {
				_ = os.RemoveAll(one)
			}
		}
	}
}
