package main

// knowledge is what is known of the cluster, and what it costs to know it.
func knowledge() row {
	polls := `sidestep_cluster_polls_total{SEL`
	conversation := []shown{
		{Text: "connecting", Color: "blue"}, {Text: "ok", Color: "green"}, {Text: "unreachable", Color: "red"},
		{Text: "unauthorized", Color: "orange"}, {Text: "not_an_engine", Color: "purple"}, {Text: "no_shards_api", Color: "text"},
	}
	return row{"What is known of the cluster", []panel{
		{
			kind: states, title: "State of the cluster", about: "unauthorized: sidestep's own account is refused; no_shards_api: serverless.",
			values:  conversation,
			queries: []query{{numbered("sum by (instance)", "sidestep_cluster_state{SEL, state", conversation), "{{instance}}"}},
		},
		{
			title: "Age of the placement", unit: "s", warn: 30, bad: 60, about: "Time since the placement was last confirmed. From cluster.placement_max_age on (60 s if not set) searches pass unsteered.",
			queries: []query{{`sidestep_cluster_placement_age_seconds{SEL}`, "{{instance}}"}},
		},
		{
			title: "Unsettled copies", unit: "short", about: "Copies that are relocating, initializing, unassigned, or closed with their index; the largest number of any sidestep.",
			queries: []query{{`max by (state) (sidestep_cluster_placement_unsettled_copies{SEL})`, "{{state}}"}},
		},
		{
			title: "Placement", unit: "short", about: "Known nodes, indices, shards and copies that can serve searches; the largest number of any sidestep.",
			queries: []query{
				{`max(sidestep_cluster_nodes{SEL})`, "nodes"},
				{`max(sidestep_cluster_placement_indices{SEL})`, "indices"},
				{`max(sidestep_cluster_placement_shards{SEL})`, "shards"},
				{`max(sidestep_cluster_placement_copies{SEL})`, "copies"},
			},
		},
		{
			title: "Fetches of the placement", unit: "ops", about: "By source and result. A cluster whose state moves all the time has it fetched all the time, within bounds.",
			queries: []query{{`sum by (source, result) (rate(sidestep_cluster_placement_refreshes_total{SEL}[$__rate_interval]))`, "{{source}} {{result}}"}},
		},
		{
			title: "Targets learned", unit: "ops", about: "Look-ups of aliases, wildcards and lists, by result. dropped: too many different ones at once. throttled: too many unknown ones.",
			queries: []query{{`sum by (result) (rate(sidestep_cluster_learns_total{SEL}[$__rate_interval]))`, "{{result}}"}},
		},
		{
			title: "Targets known", unit: "short", about: "Aliases, wildcards and lists whose shards are known.",
			queries: []query{{`sidestep_cluster_learned_targets{SEL}`, "{{instance}}"}},
		},
		{
			title: "Polls of the cluster", unit: "reqps", stacked: true, about: "What sidestep asks the cluster (or its relay) a second, by kind.",
			queries: []query{{`sum by (kind) (rate(` + polls + `}[$__rate_interval]))`, "{{kind}}"}},
		},
		{
			title: "Polls that failed", unit: "reqps", stacked: true, about: "unresponsive: the deadline passed; unreachable: refused or reset; failed: an HTTP error or an unreadable answer.",
			queries: []query{{`sum by (kind, result) (rate(` + polls + `, result!="ok"}[$__rate_interval]))`, "{{kind}} {{result}}"}},
		},
		{
			title: "p99 of polls", unit: "s", about: "By kind, failed ones too.",
			queries: []query{{`histogram_quantile(0.99, sum by (kind, le) (rate(sidestep_cluster_poll_duration_seconds_bucket{SEL}[$__rate_interval])))`, "{{kind}}"}},
		},
		{
			title: "Interval of statistics", unit: "s", warn: 2, about: "The longest interval at which a node that is searched is polled. It grows where many sidesteps poll the same nodes: then use a relay.",
			queries: []query{{`sidestep_cluster_stats_interval_seconds{SEL}`, "{{instance}}"}},
		},
	}}
}

// relays is who tells whom what is known.
func relays() row {
	return row{"Relays", []panel{
		{
			title: "Source of the view of the cluster", unit: "short", about: "How many sidesteps follow a relay and how many poll for themselves.",
			queries: []query{{`sum by (source) (sidestep_cluster_source{SEL})`, "{{source}}"}},
		},
		{
			title: "Changes of the source", unit: "short", about: "How often a sidestep changed to its relay or to own polls, in the last hour.",
			queries: []query{{`sum by (source) (increase(sidestep_cluster_source_changes_total{SEL}[1h]))`, "{{source}}"}},
		},
		{
			title: "As a relay: answers", unit: "reqps", about: "Requests of other sidesteps for the snapshot, by result.",
			queries: []query{{`sum by (result) (rate(sidestep_relay_answers_total{SEL}[$__rate_interval]))`, "{{result}}"}},
		},
		{
			title: "As a relay: bytes", unit: "Bps", about: "Bytes a second that are sent to other sidesteps.",
			queries: []query{{`sum by (instance) (rate(sidestep_relay_bytes_total{SEL}[$__rate_interval]))`, "{{instance}}"}},
		},
	}}
}

// process is what sidestep itself takes.
func process() row {
	modes := []shown{{Text: "off", Color: "text"}, {Text: "observe", Color: "blue"}, {Text: "route", Color: "green"}}
	return row{"sidestep itself", []panel{
		{
			kind: states, title: "Mode", about: "off: everything passes; observe: decided and counted only; route: steered.",
			values:  modes,
			queries: []query{{numbered("sum by (instance)", "sidestep_routing_mode{SEL, mode", modes), "{{instance}}"}},
		},
		{
			title: "Configuration in force", unit: "short", bad: 1, about: "1: the last reload failed, and the configuration before it is still in force.",
			queries: []query{{`1 - sidestep_config_last_reload_successful{SEL}`, "{{instance}}"}},
		},
		{
			title: "Version", unit: "short", about: "How many of the chosen sidesteps are of which version.",
			queries: []query{{`count by (version, goversion) (sidestep_build_info{SEL})`, "{{version}} ({{goversion}})"}},
		},
		{
			title: "CPU", unit: "short", about: "Cores in use, beside those that the Go runtime may use.",
			queries: []query{
				{`rate(process_cpu_seconds_total{SEL}[$__rate_interval])`, "{{instance}}"},
				{`max(go_sched_gomaxprocs_threads{SEL})`, "may use"},
			},
		},
		{
			title: "Memory", unit: "bytes", about: "Resident memory of the process, and live and dead objects on its heap.",
			queries: []query{
				{`process_resident_memory_bytes{SEL}`, "{{instance}} resident"},
				{`go_memstats_heap_alloc_bytes{SEL}`, "{{instance}} heap"},
			},
		},
		{
			title: "Goroutines", unit: "short", about: "Each request in flight has a few.",
			queries: []query{{`go_goroutines{SEL}`, "{{instance}}"}},
		},
		{
			title: "File descriptors", unit: "percentunit", bad: 0.8, about: "Open file descriptors, as a share of the limit: connections of clients and to nodes. SidestepFileDescriptors fires above 80 %.",
			queries: []query{{`process_open_fds{SEL} / process_max_fds{SEL}`, "{{instance}}"}},
		},
		{
			title: "Longest garbage collection pause", unit: "s", about: "The longest pause of sidestep's own runtime.",
			queries: []query{{`go_gc_duration_seconds{SEL, quantile=~"1|1.0"}`, "{{instance}}"}},
		},
		{
			title: "Log lines dropped", unit: "ops", stacked: true, about: "Lines a second of the access log and the slow log that were not written. queue_full: the output does not keep up; write_failed: it refused them.",
			queries: []query{{`sum by (log, cause) (rate(sidestep_log_lines_dropped_total{SEL}[$__rate_interval]))`, "{{log}} {{cause}}"}},
		},
		{
			title: "Spans", unit: "ops", stacked: true, none: "nothing is traced", about: "Spans of traced requests a second. failed: the receiver did not take them; dropped: too many were waiting.",
			queries: []query{{`sum by (result) (rate(sidestep_trace_spans_total{SEL}[$__rate_interval]))`, "{{result}}"}},
		},
		{
			title: "Network", unit: "Bps", about: "Bytes a second that the host, or its container, receives and sends.",
			queries: []query{
				{`sum(rate(process_network_receive_bytes_total{SEL}[$__rate_interval]))`, "received"},
				{`sum(rate(process_network_transmit_bytes_total{SEL}[$__rate_interval]))`, "sent"},
			},
		},
	}}
}
