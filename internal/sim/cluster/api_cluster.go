package simcluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const clusterName = "simulated"

func (c *Cluster) uuid() string { return fmt.Sprintf("sim-%018x", c.opts.Seed) }

func (c *Cluster) version() string {
	if c.opts.Engine == Elasticsearch {
		return "8.19.4"
	}
	return "3.6.0"
}

// flavor is the build flavor that Elasticsearch tells of itself.
func (c *Cluster) flavor() string {
	if c.opts.Serverless {
		return "serverless"
	}
	return "default"
}

// info answers GET /.
func (n *Node) info() any {
	c := n.cluster
	version := map[string]any{
		"number": c.version(), "build_type": "tar", "build_hash": "simulated", "build_date": "2026-01-01T00:00:00Z",
		"build_snapshot": false, "lucene_version": "10.3.2",
		"minimum_wire_compatibility_version": "2.19.0", "minimum_index_compatibility_version": "2.0.0",
	}
	tagline := "The OpenSearch Project: https://opensearch.org/"
	if c.opts.Engine == Elasticsearch {
		tagline = "You Know, for Search"
		version["build_flavor"] = c.flavor()
	} else {
		version["distribution"] = OpenSearch
	}
	return map[string]any{
		"name": n.name, "cluster_name": clusterName, "cluster_uuid": c.uuid(), "version": version, "tagline": tagline,
	}
}

func (n *Node) clusterAPI(r *request) (reply, *apiError) {
	c := n.cluster
	switch {
	case r.at(1) == "settings" && r.method == http.MethodPut:
		return c.putSettings(r.body)
	case r.at(1) == "settings":
		return c.settings(r.flag("include_defaults")), nil
	case r.at(1) == "health":
		return answer(c.health()), nil
	case r.at(1) == "pending_tasks":
		return answer(map[string]any{"tasks": []any{}}), n.fromManager(r)
	case r.at(1) == "state":
		return n.clusterState(r)
	default:
		return r.noHandler(), nil
	}
}

// fromManager waits for the elected manager, unless the request is for local
// knowledge: it hangs as long as the manager is paused.
func (n *Node) fromManager(r *request) *apiError {
	manager := n.cluster.byID[n.cluster.state.Load().manager()]
	if r.flag("local") || manager == nil {
		return nil
	}
	if err := manager.travel(r.ctx, n); err != nil {
		return manager.failure(r.ctx, err)
	}
	return nil
}

// clusterState answers _cluster/state[/metrics[/target]].
func (n *Node) clusterState(r *request) (reply, *apiError) {
	if err := n.fromManager(r); err != nil {
		return reply{}, err
	}
	s := n.cluster.state.Load()
	wanted := metricsOf(r.at(2))
	names, missing := s.resolve(r.at(3), time.Now())
	if missing != "" && !r.flag("ignore_unavailable") {
		return reply{}, noSuchIndex(missing)
	}
	out := map[string]any{"cluster_name": clusterName, "cluster_uuid": n.cluster.uuid()}
	if wanted.has("version") {
		out["version"], out["state_uuid"] = s.Version, fmt.Sprintf("state-%016d", s.Version)
	}
	if wanted.has("nodes") {
		out["nodes"] = n.cluster.nodeRefs()
	}
	if wanted.has("master_node") || wanted.has("cluster_manager_node") {
		out["master_node"] = s.manager()
	}
	if wanted.has("routing_table") {
		out["routing_table"] = map[string]any{"indices": json.RawMessage(s.routingTable(names))}
	}
	if wanted.has("metadata") {
		out["metadata"] = map[string]any{"cluster_uuid": n.cluster.uuid(), "indices": s.metadata(names)}
	}
	return answer(out), nil
}

// nodeRefs describes the living nodes as cluster state and _search_shards do.
func (c *Cluster) nodeRefs() map[string]any {
	refs := map[string]any{}
	for _, n := range c.living() {
		refs[n.id] = map[string]any{
			"name": n.name, "ephemeral_id": fmt.Sprintf("e-%s-%x", n.id, n.life.Load().since.UnixNano()), "transport_address": n.transport(), "attributes": n.attributes(),
		}
	}
	return refs
}

// appendRouting describes a copy as routing table and _search_shards do.
func (c shardCopy) appendRouting(b []byte, ref shardRef) []byte {
	quoted := func(b []byte, key, value string) []byte {
		b = append(append(b, key...), ':')
		if value == "" {
			return append(b, "null"...)
		}
		return strconv.AppendQuote(b, value)
	}
	b = quoted(b, `{"state"`, string(c.State))
	b = strconv.AppendBool(append(b, `,"primary":`...), c.Kind == 'p')
	b = quoted(b, `,"node"`, c.Node)
	b = quoted(b, `,"relocating_node"`, c.Target)
	b = strconv.AppendInt(append(b, `,"shard":`...), int64(ref.Number), 10)
	b = quoted(b, `,"index"`, ref.Index)
	if c.Kind == 's' {
		b = append(b, `,"searchOnly":true`...)
	}
	if c.Node != "" {
		b = append(quoted(b, `,"allocation_id":{"id"`, c.Alloc), '}')
	}
	return append(b, '}')
}

// appendGroup lists copies of one shard.
func appendGroup(b []byte, ref shardRef, copies []shardCopy) []byte {
	b = append(b, '[')
	for i, c := range copies {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.appendRouting(b, ref)
	}
	return append(b, ']')
}

// routingTable is the JSON of the indices in the routing table.
func (s *state) routingTable(names []string) []byte {
	b := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, name), `:{"shards":{`...)
		for number, copies := range s.index(name).Shards {
			if number > 0 {
				b = append(b, ',')
			}
			b = append(strconv.AppendQuote(b, strconv.Itoa(number)), ':')
			b = appendGroup(b, shardRef{name, number}, copies)
		}
		b = append(b, "}}"...)
	}
	return append(b, '}')
}

// memberships returns the aliases of each index, sorted.
func (s *state) memberships() map[string][]string {
	of := map[string][]string{}
	for _, alias := range sortedKeys(s.Aliases) {
		for _, index := range s.Aliases[alias] {
			of[index] = append(of[index], alias)
		}
	}
	return of
}

func (s *state) metadata(names []string) map[string]any {
	indices, aliases := map[string]any{}, s.memberships()
	for _, name := range names {
		ix := s.index(name)
		indices[name] = map[string]any{
			"version": 1, "state": "open", "routing_num_shards": ix.Spec.RoutingNumShards, "aliases": append([]string{}, aliases[name]...),
			"settings": map[string]any{"index": ix.settings()},
		}
	}
	return indices
}

// settings of an index, all strings.
func (ix *indexState) settings() map[string]any {
	settings := map[string]any{
		"uuid": ix.UUID, "provided_name": ix.Spec.Name,
		"number_of_shards": strconv.Itoa(ix.Spec.Shards), "number_of_replicas": strconv.Itoa(ix.Spec.Replicas),
	}
	if ix.Spec.RoutingPartitionSize > 1 {
		settings["routing_partition_size"] = strconv.Itoa(ix.Spec.RoutingPartitionSize)
	}
	if ix.Spec.SegmentReplication {
		settings["replication"] = map[string]any{"type": "SEGMENT"}
	}
	return settings
}

// aliases answers GET /{index}/_alias.
func (n *Node) aliases(r *request) (reply, *apiError) {
	s := n.cluster.state.Load()
	names, missing := s.resolve(r.at(0), time.Now())
	if missing != "" {
		return reply{}, noSuchIndex(missing)
	}
	out, memberships := map[string]any{}, s.memberships()
	for _, name := range names {
		out[name] = map[string]any{"aliases": named(memberships[name])}
	}
	return answer(out), nil
}

// named returns an empty object for each name.
func named(names []string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		out[name] = map[string]any{}
	}
	return out
}

// metadata answers GET /{index}.
func (n *Node) metadata(names []string) reply {
	s := n.cluster.state.Load()
	out, memberships := map[string]any{}, s.memberships()
	for name, meta := range s.metadata(names) {
		out[name] = map[string]any{
			"aliases": named(memberships[name]), "mappings": map[string]any{}, "settings": meta.(map[string]any)["settings"],
		}
	}
	return answer(out)
}

func (c *Cluster) health() any {
	s := c.state.Load()
	count := map[copyState]int{}
	primaries, status := 0, "green"
	s.eachCopy(func(cp shardCopy) {
		count[cp.State]++
		switch {
		case cp.active() && cp.Kind == 'p':
			primaries++
		case cp.Kind == 'p':
			status = "red"
		case !cp.active() && status == "green":
			status = "yellow"
		}
	})
	active := count[started] + count[relocating]
	percent := 100.0
	if all := active + count[initializing] + count[unassigned]; all > 0 {
		percent = 100 * float64(active) / float64(all)
	}
	return map[string]any{
		"cluster_name": clusterName, "status": status, "timed_out": false,
		"number_of_nodes": len(s.Nodes), "number_of_data_nodes": len(s.Nodes),
		"active_primary_shards": primaries, "active_shards": active,
		"relocating_shards": count[relocating], "initializing_shards": count[initializing],
		"unassigned_shards": count[unassigned], "active_shards_percent_as_number": percent,
		"delayed_unassigned_shards": 0, "number_of_pending_tasks": 0, "number_of_in_flight_fetch": 0,
		"task_max_waiting_in_queue_millis": 0,
	}
}

// searchShards answers _search_shards: the copies a search would try, in order.
func (n *Node) searchShards(r *request, target string) (reply, *apiError) {
	if err := r.allow("local", "routing", "preference", "ignore_unavailable", "allow_no_indices", "expand_wildcards",
		"master_timeout", "cluster_manager_timeout"); err != nil {
		return reply{}, err
	}
	if err := n.fromManager(r); err != nil {
		return reply{}, err
	}
	s, _, err := r.searchRequest(target, nil)
	if err != nil {
		return reply{}, err
	}
	plan, err := n.plan(s)
	if err != nil {
		return reply{}, err
	}
	memberships := n.cluster.state.Load().memberships()
	indices := map[string]any{}
	shards := []byte{'['}
	for i, a := range plan {
		if indices[a.ref.Index] == nil {
			detail := map[string]any{}
			if aliases := memberships[a.ref.Index]; len(aliases) > 0 && target != a.ref.Index {
				detail["aliases"] = aliases
			}
			indices[a.ref.Index] = detail
		}
		if i > 0 {
			shards = append(shards, ',')
		}
		shards = appendGroup(shards, a.ref, a.copies)
	}
	shards = append(shards, ']')
	return answer(map[string]any{"nodes": n.cluster.nodeRefs(), "indices": indices, "shards": json.RawMessage(shards)}), nil
}
