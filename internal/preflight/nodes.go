package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"sidestep/internal/cluster"
)

const (
	nodesPath  = "_nodes/http?timeout=2s&filter_path=nodes.*.name,nodes.*.version,nodes.*.roles,nodes.*.attributes"
	clocksPath = "_nodes/stats/os?timeout=2s&filter_path=nodes.*.name,nodes.*.timestamp"
	// maxSkew is how far a clock may be off before it is worth a word.
	maxSkew = time.Second
)

// nodeInfo is what a node tells of itself.
type nodeInfo struct {
	Name       string            `json:"name"`
	Version    string            `json:"version"`
	Roles      []string          `json:"roles"`
	Attributes map[string]string `json:"attributes"`
}

// known tells what the running sidestep says of itself.
func (c *Checker) known(facts Facts) []Finding {
	var found []Finding
	if s := facts.Snapshot; s != nil {
		found = append(found, Finding{OK, TopicCluster, fmt.Sprintf("%s %s, cluster %s", engineName(s.Engine), s.Engine.Version, cmp.Or(s.ClusterName, "without a name")), ""})
		if s.Engine.Serverless() {
			return append(found, Finding{Problem, TopicCluster, "serverless shows no shards: every request passes unchanged", "sidestep can do nothing here but forward"})
		}
	}
	if facts.Missing != nil {
		return append(found, Finding{Problem, TopicCluster, "searches are not steered yet: " + facts.Missing.Error(), "see the other findings, and sidestep's log"})
	}
	return append(found, Finding{OK, TopicCluster, "sidestep is ready: placement and statistics are there", ""})
}

func engineName(e cluster.Engine) string {
	switch e.Distribution {
	case "opensearch":
		return "OpenSearch"
	case "elasticsearch":
		return "Elasticsearch"
	}
	return e.Distribution
}

// nodes tells versions, roles and zones. The engine leaves nodes out that do not answer the one that is asked: of these
// the snapshot tells what they are.
func (c *Checker) nodes(ctx context.Context, via *url.URL, s *cluster.Snapshot) []Finding {
	var told struct {
		Nodes map[string]nodeInfo `json:"nodes"`
	}
	if err := c.ask.get(ctx, via, nodesPath, &told); err != nil {
		return []Finding{{Note, TopicNodes, "what the nodes say of themselves could not be read: " + err.Error(), ""}}
	}
	nodes, silent := slices.Collect(maps.Values(told.Nodes)), []string{}
	for _, n := range s.Nodes {
		if _, ok := told.Nodes[n.ID]; !ok {
			nodes, silent = append(nodes, nodeInfo{Name: n.Name, Roles: n.Roles, Attributes: n.Attributes}), append(silent, n.Name)
		}
	}
	slices.SortFunc(nodes, func(a, b nodeInfo) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(silent)
	found := []Finding{versions(nodes), c.roles(nodes)}
	if len(silent) > 0 {
		found = append(found, Finding{
			Note, TopicNodes, plural(len(silent), "1 node says nothing of itself", "%d nodes say nothing of themselves") + " within 2 s: " + list(silent),
			"nothing to do if they are known to be down; else look at the network between the nodes, and at their logs",
		})
	}
	if c.o.Zone != "" {
		found = append(found, zones(nodes, c.o.Zone))
	}
	return found
}

func versions(nodes []nodeInfo) Finding {
	by := map[string]int{}
	for _, n := range nodes {
		if n.Version != "" {
			by[n.Version]++
		}
	}
	switch all := slices.Sorted(maps.Keys(by)); {
	case len(all) == 0:
		return Finding{Note, TopicNodes, "no node tells its version", ""}
	case len(all) > 1:
		return Finding{Note, TopicNodes, "the nodes' versions differ: " + counts(by), "finish the upgrade; sidestep works meanwhile"}
	case by[all[0]] < len(nodes):
		return Finding{OK, TopicNodes, fmt.Sprintf("%d of %d nodes tell their version, %s", by[all[0]], len(nodes), all[0]), ""}
	default:
		return Finding{OK, TopicNodes, plural(len(nodes), "1 node, version ", "all %d nodes have version ") + all[0], ""}
	}
}

// counts lists what there is how often, by name.
func counts(by map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, by[name]))
	}
	return strings.Join(parts, ", ")
}

func (c *Checker) roles(nodes []nodeInfo) Finding {
	data, managers, coordinating := 0, 0, 0
	for _, n := range nodes {
		known := cluster.Node{Roles: n.Roles}
		if known.Data() {
			data++
		}
		if known.Coordinating() {
			coordinating++
		}
		if slices.Contains(n.Roles, "master") || slices.Contains(n.Roles, "cluster_manager") {
			managers++
		}
	}
	text := fmt.Sprintf("%s: %d with data, %d that may be elected, %d that searches may be sent through",
		plural(len(nodes), "1 node", "%d nodes"), data, managers, coordinating)
	switch {
	case data < 2:
		return Finding{Problem, TopicNodes, text, "with one data node there is nothing to choose from: sidestep needs replicas on other nodes"}
	case coordinating == 0:
		return Finding{Problem, TopicNodes, text, "searches go through data, ingest or coordinating-only nodes: there is none"}
	}
	return Finding{OK, TopicNodes, text, ""}
}

// zones tells how the nodes with data are spread over sidestep's zones.
func zones(nodes []nodeInfo, attribute string) Finding {
	by, without := map[string]int{}, []string{}
	for _, n := range nodes {
		known := cluster.Node{Roles: n.Roles}
		if !known.Data() {
			continue
		}
		if zone := n.Attributes[attribute]; zone != "" {
			by[zone]++
			continue
		}
		without = append(without, n.Name)
	}
	if len(without) > 0 {
		return Finding{
			Problem, TopicNodes, fmt.Sprintf("nodes with data that have no attribute %s: %s", attribute, list(without)),
			"set node.attr." + attribute + " on them, or correct routing.zone.attribute",
		}
	}
	return Finding{OK, TopicNodes, fmt.Sprintf("nodes with data by %s: %s", attribute, counts(by)), ""}
}

// clocks compares the nodes' clocks with our own.
func (c *Checker) clocks(ctx context.Context, via *url.URL) []Finding {
	var told struct {
		Nodes map[string]struct {
			Name string `json:"name"`
			At   int64  `json:"timestamp"` // Unix milliseconds
		} `json:"nodes"`
	}
	asked := time.Now()
	if err := c.ask.get(ctx, via, clocksPath, &told); err != nil {
		return []Finding{{Note, TopicNodes, "the nodes' clocks could not be read: " + err.Error(), ""}}
	}
	answered := time.Now()
	var off []string
	var most time.Duration
	for _, n := range told.Nodes {
		skew := outside(time.UnixMilli(n.At), asked, answered)
		most = max(most, skew.Abs())
		if skew.Abs() > maxSkew {
			off = append(off, fmt.Sprintf("%s by %+.1f s", n.Name, skew.Seconds()))
		}
	}
	if len(off) == 0 {
		return []Finding{{OK, TopicNodes, fmt.Sprintf("the nodes' clocks agree with this one to within %.0f ms", math.Ceil((most+answered.Sub(asked)).Seconds()*1000)), ""}}
	}
	slices.Sort(off)
	return []Finding{{
		Note, TopicNodes, "the nodes' clocks differ from sidestep's: " + list(off),
		"nothing that sidestep decides depends on it, but its log and the nodes' cannot be laid side by side: synchronise the clocks",
	}}
}

// outside returns how far at is from the time between from and to; after it is
// positive.
func outside(at, from, to time.Time) time.Duration {
	switch {
	case at.Before(from):
		return at.Sub(from)
	case at.After(to):
		return at.Sub(to)
	}
	return 0
}

// copies tells how much there is to choose from.
func copies(s *cluster.Snapshot) []Finding {
	indices, shards, lone, waiting, unserved := 0, 0, 0, 0, []string{}
	for index := range s.Indices() {
		indices++
		for _, shard := range index.Shards {
			serving := 0
			for _, copied := range shard.Copies {
				if copied.Serving() {
					serving++
				}
			}
			shards++
			switch {
			case serving == 0:
				unserved = append(unserved, fmt.Sprintf("%s[%d]", index.Name, shard.Number))
			case serving == 1 && len(shard.Copies) > 1:
				waiting++
			case serving == 1:
				lone++
			}
		}
	}
	if shards == 0 {
		return []Finding{{Note, TopicCopies, "no shard is known", "create an index, or wait until placement was read"}}
	}
	text := fmt.Sprintf("%s, %s", plural(indices, "1 index", "%d indices"), plural(shards, "1 shard", "%d shards"))
	var found []Finding
	if len(unserved) > 0 {
		slices.Sort(unserved)
		found = append(found, Finding{Problem, TopicCopies, "no copy serves " + list(unserved), "searches on these indices pass and the engine fails them: see GET _cluster/allocation/explain"})
	}
	if waiting > 0 {
		found = append(found, Finding{
			Note, TopicCopies, fmt.Sprintf("%s, of which %d (%s) have replicas and only one copy that serves: the others are on their way, or not assigned", text, waiting, percent(int64(waiting), int64(shards))),
			"wait until the cluster is green; if that lasts, see GET _cluster/allocation/explain",
		})
	}
	if lone == 0 {
		if len(found) == 0 {
			found = append(found, Finding{OK, TopicCopies, text + ", each with more than one copy", ""})
		}
		return found
	}
	level := Note
	if lone == shards {
		level = Problem
	}
	return append(found, Finding{
		level, TopicCopies, fmt.Sprintf("%s, of which %d (%s) have one copy only", text, lone, percent(int64(lone), int64(shards))),
		"there is nothing to choose from: set index.number_of_replicas to 1 or more where searches matter",
	})
}
