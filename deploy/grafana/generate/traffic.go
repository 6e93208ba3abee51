package main

// dataPlane is rate, errors and duration of what clients ask.
func dataPlane() row {
	quantile := func(q, by string) string {
		return `histogram_quantile(` + q + `, sum by (` + by + `) (rate(sidestep_request_duration_seconds_bucket{SEL, operation="search"}[$__rate_interval])))`
	}
	overhead := func(q string) string {
		return `histogram_quantile(` + q + `, sum by (le) (rate(sidestep_overhead_seconds_bucket{SEL}[$__rate_interval])))`
	}
	return row{"Data plane: rate, errors, duration", []panel{
		{
			title: "Requests by operation", unit: "reqps", stacked: true, about: "Requests of clients a second, by what they ask.",
			queries: []query{{`sum by (operation) (rate(sidestep_requests_total{SEL}[$__rate_interval]))`, "{{operation}}"}},
		},
		{
			title: "Requests that failed", unit: "reqps", stacked: true, about: "By outcome: client_error (4xx but 429), engine_error (429, 5xx), partial (shards failed on every attempt), cut_off (the node broke the answer off), unreachable (no node), refused (429 by admission), canceled (the client left).",
			queries: []query{{`sum by (outcome) (rate(sidestep_requests_total{SEL, outcome!="ok"}[$__rate_interval]))`, "{{outcome}}"}},
		},
		{
			title: "Duration of searches", unit: "s", about: "From the request's head to the end of the answer.",
			queries: []query{{quantile("0.5", "le"), "p50"}, {quantile("0.95", "le"), "p95"}, {quantile("0.99", "le"), "p99"}},
		},
		{
			title: "p99 by operation", unit: "s", about: "99th percentile of the time from the request's head to the end of the answer.",
			queries: []query{{`histogram_quantile(0.99, sum by (operation, le) (rate(sidestep_request_duration_seconds_bucket{SEL}[$__rate_interval])))`, "{{operation}}"}},
		},
		{
			title: "p99 of searches by sidestep", unit: "s", about: "A sidestep that differs from the others has another network path to the cluster, or too little CPU.",
			queries: []query{{quantile("0.99", "instance, le"), "{{instance}}"}},
		},
		{
			title: "What sidestep adds", unit: "s", warn: 0.005, about: "Time in sidestep itself before the answer begins: total time less waiting for client and nodes.",
			queries: []query{{overhead("0.5"), "p50"}, {overhead("0.99"), "p99"}},
		},
	}}
}

// decisions is what is steered, and why the rest is not.
func decisions() row {
	return row{"Decisions", []panel{
		{
			title: "Requests that could be steered, by reason", unit: "reqps", width: 12, stacked: true, about: "Of operations that can be steered. ranked, no_statistics, affinity: steered. no_outlier, no_gain: no node stands out, or a list would be no better, the engine decides. fail_open: every copy of some shard is on a node that should be ejected. overloaded: nodes reject searches, so nothing is steered or sent twice. The others pass; docs/metrics.md explains each.",
			queries: []query{{`sum by (reason) (rate(sidestep_requests_total{SEL, ` + steerable + `}[$__rate_interval]))`, "{{reason}}"}},
		},
		{
			title: "Failing open", unit: "percentunit", width: 12, bad: 0.05, about: "Requests that should be steered and were not, of those that could be. SidestepFailingOpen fires above 5 %.",
			queries: []query{{`sum by (reason) (rate(sidestep_requests_total{SEL, ` + failingOpen + `}[$__rate_interval])) / on () group_left sum(rate(sidestep_requests_total{SEL, ` + steerable + `}[$__rate_interval]))`, "{{reason}}"}},
		},
		{
			title: "Searches in multi-searches, by reason", unit: "reqps", stacked: true, about: "Each search of a multi-search has a decision of its own.",
			queries: []query{{`sum by (reason) (rate(sidestep_msearch_items_total{SEL}[$__rate_interval])) > 0`, "{{reason}}"}},
		},
		{
			title: "Decisions not applied", unit: "reqps", stacked: true, about: "In mode observe: what would have been done.", none: "no sidestep is in mode observe",
			queries: []query{{`sum by (reason) (rate(sidestep_observed_decisions_total{SEL}[$__rate_interval]))`, "{{reason}}"}},
		},
		{
			title: "Clients that sniff", unit: "reqps", about: "passed: clients learn the nodes' addresses and can go around sidestep; rewritten: they learn sidestep's.",
			queries: []query{{`sum by (result) (rate(sidestep_sniffs_total{SEL}[$__rate_interval]))`, "{{result}}"}},
		},
	}}
}

// attempts is what is sent again or on sidestep's own account.
func attempts() row {
	return row{"Further attempts", []panel{
		{
			title: "Second attempts for overdue searches", unit: "reqps", about: "won: the second attempt was sooner; lost: the first was; over_budget: wanted and not made (routing.hedge_budget); unlikely: not made, as those made before lost.",
			queries: []query{{`sum by (result) (rate(sidestep_hedges_total{SEL}[$__rate_interval]))`, "{{result}}"}},
		},
		{
			title: "Failovers by cause", unit: "reqps", stacked: true, about: "Attempts that were followed by another one. no_copy: the placement was outdated; rejected: 429; partial: shards failed; forbidden: the cluster refuses preferences.",
			queries: []query{{`sum by (cause) (rate(sidestep_failovers_total{SEL}[$__rate_interval]))`, "{{cause}}"}},
		},
		{
			title: "Probes by result", unit: "reqps", about: "Tiny searches of sidestep's own that test a node. unfit: inconclusive, mostly as sidestep's account may not search.",
			queries: []query{{`sum by (result) (rate(sidestep_probes_total{SEL}[$__rate_interval]))`, "{{result}}"}},
		},
	}}
}

// bulks is what is kept on one shard.
func bulks() row {
	const none = "no index is in bulk.single_shard"
	return row{"Bulks kept on one shard", []panel{
		{
			title: "Bulks by result", unit: "reqps", stacked: true, none: none, about: "one_shard: all of their operations were given a routing; one_slot: the same, some in place of the client's; mixed: some were; passed: none was.",
			queries: []query{{`sum by (result) (rate(sidestep_bulks_total{SEL}[$__rate_interval]))`, "{{result}}"}},
		},
		{
			title: "Operations by plan", unit: "ops", stacked: true, none: none, about: "planned: given the routing of one shard. The others stay unchanged; docs/metrics.md explains each reason.",
			queries: []query{{`sum by (plan) (rate(sidestep_bulk_operations_total{SEL}[$__rate_interval])) > 0`, "{{plan}}"}},
		},
		{
			title: "Items by outcome", unit: "ops", stacked: true, none: none, about: "Of the answers, where these can be read. rejected: 429.",
			queries: []query{{`sum by (outcome) (rate(sidestep_bulk_items_total{SEL}[$__rate_interval]))`, "{{outcome}}"}},
		},
		{
			title: "Shards chosen for bulks", unit: "ops", stacked: true, none: none, about: "even: no shard is in trouble. avoided: one that is not, as some are. bound: the others have as much as bulk.max_skew allows. all_sick: all are in trouble.",
			queries: []query{{`sum by (choice) (rate(sidestep_bulk_choices_total{SEL}[$__rate_interval]))`, "{{choice}}"}},
		},
		{
			title: "Skew", unit: "short", warn: 1.5, bad: 1.65, none: none, about: "Level of the fullest shard, relative to the mean, since sidestep first wrote to the index. bulk.max_skew bounds it (1.5 if not set); SidestepBulkSkew goes by 1.65.",
			queries: []query{{`max by (index) (sidestep_bulk_skew{SEL})`, "{{index}}"}},
		},
		{
			title: "Operations in a bulk", unit: "short", none: none, about: "Of bulks that sidestep reads.",
			queries: []query{
				{`histogram_quantile(0.5, sum by (le) (rate(sidestep_bulk_documents_bucket{SEL}[$__rate_interval])))`, "p50"},
				{`histogram_quantile(0.99, sum by (le) (rate(sidestep_bulk_documents_bucket{SEL}[$__rate_interval])))`, "p99"},
			},
		},
	}}
}

// admissions is what waits before the cluster.
func admissions() row {
	const none = "admission.mode is off"
	return row{"Admission", []panel{
		{
			title: "Limits", unit: "short", none: none, about: "Shard queries that all clients may have in flight on a node, as the sidestep that allows least sees it.",
			queries: []query{{`min by (node) (sidestep_admission_limit{NODE})`, "{{node}}"}},
		},
		{
			title: "In flight", unit: "short", none: none, about: "Shard queries that sidesteps sent and nodes have not answered, by their expected share.",
			queries: []query{{`sum by (node) (sidestep_admission_in_flight{NODE})`, "{{node}}"}},
		},
		{
			title: "Waiting searches", unit: "short", stacked: true, none: none, about: "By class.",
			queries: []query{{`sum by (class) (sidestep_admission_queue{SEL})`, "{{class}}"}},
		},
		{
			title: "Refused and dropped", unit: "reqps", stacked: true, none: none, about: "Refused: answered 429, by reason. Dropped: the client left while its search waited.",
			queries: []query{
				{`sum by (class, reason) (rate(sidestep_admission_refusals_total{SEL}[$__rate_interval])) > 0`, "{{class}} {{reason}}"},
				{`sum by (class) (rate(sidestep_admission_dropped_total{SEL}[$__rate_interval])) > 0`, "{{class}} dropped"},
			},
		},
		{
			title: "Time waited, p99", unit: "s", none: none, about: "Of searches that waited.",
			queries: []query{{`histogram_quantile(0.99, sum by (class, le) (rate(sidestep_admission_wait_seconds_bucket{SEL}[$__rate_interval])))`, "{{class}}"}},
		},
		{
			title: "Utilisation", unit: "percentunit", warn: 0.7, bad: 0.9, none: "no statistics of nodes", about: "Part of the search threads of all nodes that is at work.",
			queries: []query{{`max(sidestep_cluster_utilisation{SEL})`, "threads at work"}},
		},
	}}
}
