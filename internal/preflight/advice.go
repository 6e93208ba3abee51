package preflight

// explanation says what a reason for passing means to an operator.
type explanation struct {
	means, advice string
	// trouble says that sidestep should do better than that.
	trouble bool
}

// explanations by reason; docs/metrics.md has the whole set.
func explanations() map[string]explanation {
	return map[string]explanation{
		"no_choice":             {means: "every shard has one copy only", advice: "set index.number_of_replicas to 1 or more"},
		"overloaded":            {means: "all copies of some shard are on nodes that reject searches, their queues being full", advice: "the cluster gets more searches than it can take: send fewer, or add nodes and replicas", trouble: true},
		"observe":               {means: "mode observe", advice: "switch to route"},
		"operation_off":         {means: "the operation is switched off", advice: "see routing.operations"},
		"client_preference":     {means: "the client chose copies itself by its preference", advice: "take the preference out of the client where nothing depends on it; strings are kept and steered with routing.affinity.strings"},
		"remote_target":         {means: "a search across clusters", advice: "put a sidestep in front of the other cluster"},
		"pit":                   {means: "a search with a point in time, which allows no preference", advice: "nothing to do: it stays with the copies of its opening, which sidestep chooses"},
		"unreadable_body":       {means: "without a target, and the body could hide a point in time or cannot be read", advice: "name the index in the path, and send JSON that is not compressed"},
		"unreadable_header":     {means: "the header of an item of a multi-search cannot be read for certain", advice: "write header lines with known keys, each once"},
		"unverifiable":          {means: "a multi-search whose answer may hide that preferences are refused", advice: "do without filter_path and formats other than JSON in multi-searches"},
		"ambiguous_query":       {means: "a parameter does not decode, or the routing is given twice", advice: "look at what the client sends"},
		"typed_path":            {means: "a mapping type in the path", advice: "drop the type: 8.x does not know it"},
		"indices_options":       {means: "wildcards with expand_wildcards or ignore_throttled", advice: "drop the parameter where the default does"},
		"unknown_target":        {means: "the first on a target, which is learned meanwhile", advice: "nothing to do unless it grows: then clients use ever new targets, such as long lists of indices: use an alias"},
		"shard_unavailable":     {means: "a shard has no copy that serves", advice: "see GET _cluster/allocation/explain", trouble: true},
		"no_placement":          {means: "nothing was known yet of where copies are", advice: "normal for the first second; else see what is said above of cluster and account", trouble: true},
		"stale_placement":       {means: "where copies are could not be confirmed for cluster.placement_max_age", advice: "see whether any node answers _cluster/state/version?local=true", trouble: true},
		"unsupported_index":     {means: "a searchable snapshot, a warm index or the like", advice: "nothing to do: the engine knows better where these are fast"},
		"closed_index":          {means: "an index of the target is closed", advice: "open it, or take it out of the target: the engine refuses such searches"},
		"empty_target":          {means: "the target stands for no shard", advice: "nothing to do: look whether the clients mean it"},
		"not_one_index":         {means: "a document is read from what is no single index", advice: "read it from its index instead of an alias of several"},
		"routed_by_fields":      {means: "a document is read from a time series or logsdb index, or one with virtual shards, where its id does not tell the shard", advice: "nothing to do"},
		"segment_replication":   {means: "a document is read from an index with segment replication, which its primary must serve", advice: "nothing to do"},
		"request_line_too_long": {means: "the list of nodes would not fit in the request line", advice: "give more replicas or fewer nodes to such targets, or shorten the client's own parameters"},
		"body_too_large":        {means: "the body is larger than limits.held_body", advice: "raise limits.held_body, or send smaller bodies"},
		"held_bodies_full":      {means: "so many request bodies are held already that more would exceed limits.held_bodies", advice: "raise limits.held_bodies, or send smaller bodies"},
		"failing_everywhere":    {means: "second attempts failed as the first ones did, so searches went out once, as the client wrote them", advice: "look at the cluster: it fails or rejects most searches"},
		"too_many_items":        {means: "items of a multi-search beyond the first 100 targets, or too long, or more than 10,000 items or documents", advice: "send smaller multi-searches and multi gets"},
		"preference_forbidden":  {means: "the cluster refuses preferences for nodes (strict weighted routing)", advice: "delete the weights, or set cluster.routing.weighted.strict to false", trouble: true},
		"no_gain":               {means: "a node should be kept out, but a list would have to use it, or others that are as slow, or full: the engine's own selection decides", advice: "more replicas give sidestep more to choose from; sidestep explain TARGET names the node"},
	}
}
