package main

// nodes is what is measured of each node.
func nodes() row {
	of := func(aggregate, metric string) []query {
		return []query{{aggregate + ` by (node) (` + metric + `)`, "{{node}}"}}
	}
	return row{"Nodes", []panel{
		{
			title: "Response time", unit: "s", about: "EWMA of the time of a shard search on the node, as seen from outside; of several sidesteps the longest. R in the rank.",
			queries: of("max", `sidestep_node_response_time_seconds{NODE}`),
		},
		{
			title: "Service time", unit: "s", about: "EWMA of the time of a shard search on the node itself, by its own counters. Where the response time is far above it and the queue is short, the way to the node is slow. S in the rank.",
			queries: of("max", `sidestep_node_service_time_seconds{NODE}`),
		},
		{
			title: "Search queue", unit: "short", about: "EWMA of the polled queue of the search thread pool.",
			queries: of("max", `sidestep_node_queue{NODE}`),
		},
		{
			title: "Rank", unit: "none", about: "q̂·S, the time until a shard query is done, in milliseconds; lower is better. It chooses the copy for searches of one shard, and the listed nodes while a node is ejected.",
			queries: of("max", `sidestep_node_rank{NODE}`),
		},
		{
			title: "Share of searches", unit: "percentunit", about: "The node's part of the expected shard queries of the last minute. It is 0 for an ejected node, and grows within seconds in slow start.",
			queries: of("avg", `sidestep_node_share_ratio{NODE}`),
		},
		{
			title: "Outstanding", unit: "short", about: "Searches and reads by id whose list had the node and that are not answered yet.",
			queries: of("sum", `sidestep_node_outstanding{NODE}`),
		},
		{
			title: "Searches", unit: "reqps", about: "Searches and reads by id a second whose list had the node.",
			queries: of("sum", `rate(sidestep_node_searches_total{NODE}[$__rate_interval])`),
		},
		{
			title: "Failures", unit: "short", about: "Failures a second that were blamed on the node, because the same search succeeded elsewhere or the node could not be reached.",
			queries: of("sum", `rate(sidestep_node_failures_total{NODE}[$__rate_interval])`),
		},
		{
			title: "Probes: mean time", unit: "s", about: "Time of a tiny search on the node. Ejected and suspect nodes are probed, and beside these one node a second.",
			queries: []query{{`sum by (node) (rate(sidestep_node_probe_duration_seconds_sum{NODE}[$__rate_interval])) / (sum by (node) (rate(sidestep_node_probe_duration_seconds_count{NODE}[$__rate_interval])) > 0)`, "{{node}}"}},
		},
		{
			title: "HTTP overhead", unit: "s", about: "EWMA of the response time less took when the node coordinates: its HTTP side and the way there.",
			queries: of("max", `sidestep_node_http_overhead_seconds{NODE}`),
		},
		{
			title: "Share of coordination", unit: "percentunit", about: "The node's part of the requests that were sent through the nodes, steered or not, each attempt. A node that is ejected, or about to leave, coordinates nothing while another can.",
			queries: []query{{`sum by (node) (rate(sidestep_node_coordinated_total{NODE}[$__rate_interval])) / on () group_left () (sum(rate(sidestep_node_coordinated_total{SEL}[$__rate_interval])) > 0)`, "{{node}}"}},
		},
		{
			title: "Age of statistics", unit: "s", warn: 2, about: "Time since the node last answered a poll; nodes that serve nothing searched are asked every cluster.stats_idle_interval.",
			queries: of("max", `sidestep_node_poll_age_seconds{NODE}`),
		},
		{
			title: "Answers polls", unit: "short", about: "How many of the chosen sidesteps reach the node with their polls.",
			queries: of("sum", `sidestep_node_up{NODE}`),
		},
	}}
}

// spikes is what was recorded of nodes in trouble.
func spikes() row {
	return row{"Spikes: nodes in trouble, recorded", []panel{
		{
			title: "Spikes by cause", unit: "short", stacked: true, about: "Recorded in the last five minutes, by the cause found. GET /spikes of the sidestep has evidence, hot threads and the counters of the node.",
			queries: []query{{`sum by (cause) (increase(sidestep_spikes_total{SEL}[5m])) > 0`, "{{cause}}"}},
		},
		{
			title: "Captures", unit: "short", about: "Captures of nodes in trouble in the last five minutes, by result. refused: sidestep's account lacks the privilege; dropped: too many at once.",
			queries: []query{{`sum by (result) (increase(sidestep_spike_captures_total{SEL}[5m]))`, "{{result}}"}},
		},
		{
			title: "Records kept", unit: "bytes", about: "Size of the records that are kept, bounded by diagnosis.max_size.",
			queries: []query{{`sidestep_spike_record_bytes{SEL}`, "{{instance}}"}},
		},
		{
			title: "Records lost", unit: "short", about: "Records that could not be written to diagnosis.dir in the last hour.",
			queries: []query{{`sum by (instance) (increase(sidestep_spike_write_failures_total{SEL}[1h]))`, "{{instance}}"}},
		},
		{
			title: "Baselines", unit: "short", about: "Readings of the counters of healthy nodes in the last five minutes, by result; spikes are compared with them.",
			queries: []query{{`sum by (result) (increase(sidestep_spike_baselines_total{SEL}[5m]))`, "{{result}}"}},
		},
		{
			title: "Number of records", unit: "short", about: "Records of spikes that are kept.",
			queries: []query{{`sidestep_spike_records{SEL}`, "{{instance}}"}},
		},
	}}
}
