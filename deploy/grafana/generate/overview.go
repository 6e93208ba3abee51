package main

// steerable are the operations that can be steered.
const steerable = `operation!~"scroll|async_search_result|pit_close|mtermvectors|bulk|write|other"`

// failingOpen are the reasons why what should be steered is not, or goes to every copy.
const failingOpen = `reason=~"fail_open|no_placement|stale_placement|preference_forbidden|unknown_target|shard_unavailable|request_line_too_long|held_bodies_full|failing_everywhere"`

// failedOutcomes are those of requests that failed for their client.
const failedOutcomes = `outcome=~"engine_error|unreachable|partial|cut_off"`

// ejectedStates are the states of nodes that get no share while others have a copy.
const ejectedStates = `state=~"slow|failing"`

// nodeStates are the states of nodes, the later the worse.
var nodeStates = []shown{
	{Text: "unknown", Color: "text"}, {Text: "fine", Color: "green"}, {Text: "ramping", Color: "blue"}, {Text: "busy", Color: "yellow"},
	{Text: "slow", Color: "orange"}, {Text: "failing", Color: "red"}, {Text: "unresponsive", Color: "dark-red"}, {Text: "unreachable", Color: "purple"},
}

// p99 of a histogram in the range given.
func p99(histogram, within string) string {
	return `histogram_quantile(0.99, sum by (le) (rate(` + histogram + `[` + within + `])))`
}

// overview is what an operator looks at first.
func overview() row {
	spared := p99(`sidestep_probe_duration_seconds_bucket{SEL, `+ejectedStates+`}`, "$__range")
	usual := p99(`sidestep_probe_duration_seconds_bucket{SEL, state="fine"}`, "$__range")
	return row{"Does it help?", []panel{
		{
			kind: stat, title: "Ready", width: 3, about: "Whether every chosen sidestep can steer searches; GET /-/ready says what is missing.",
			values:  []shown{{Text: "not ready", Color: "red"}, {Text: "ready", Color: "green"}},
			queries: []query{{`min(sidestep_ready{SEL})`, "ready"}},
		},
		{
			kind: stat, title: "Nodes ejected", width: 3, warn: 1, about: "Nodes that some sidestep has ejected: slow, failing or unreachable.",
			queries: []query{{`count(max by (node) (sidestep_node_state{NODE, state=~"slow|failing|unreachable"}) == 1) or vector(0)`, "nodes"}},
		},
		{
			kind: stat, title: "Requests", width: 3, unit: "reqps", about: "Requests of clients a second.",
			queries: []query{{`sum(rate(sidestep_requests_total{SEL}[$__rate_interval]))`, "requests"}},
		},
		{
			kind: stat, title: "Failed", width: 3, unit: "percentunit", warn: 0.001, bad: 0.01, about: "Requests that ended in an error of the engine's, a partial result, an answer that broke off or no connection, of all. SidestepClientErrors fires above 1 %.",
			queries: []query{{`(sum(rate(sidestep_requests_total{SEL, ` + failedOutcomes + `}[$__rate_interval])) or vector(0)) / sum(rate(sidestep_requests_total{SEL}[$__rate_interval]))`, "failed"}},
		},
		{
			kind: stat, title: "p99 of searches", width: 3, unit: "s", about: "99th percentile of the time of searches through sidestep.",
			queries: []query{{p99(`sidestep_request_duration_seconds_bucket{SEL, operation="search"}`, "$__rate_interval"), "p99"}},
		},
		{
			kind: stat, title: "Steered or left to the engine", width: 3, unit: "percentunit", about: "Requests that were steered, or left to the engine because no list would be better, of those of operations that can be steered. Why the rest is not: the row Decisions.",
			queries: []query{{`sum(rate(sidestep_requests_total{SEL, reason=~"ranked|no_statistics|affinity|no_outlier|no_gain"}[$__rate_interval])) / sum(rate(sidestep_requests_total{SEL, ` + steerable + `}[$__rate_interval]))`, "looked after"}},
		},
		{
			kind: stat, title: "Tail saved", width: 3, unit: "s", none: "nothing to save", about: "By how much the p99 of probes of ejected nodes is above that of fine nodes, in the time shown. A search that waited for such a node would have taken at least so much longer.",
			queries: []query{{spared + " - " + usual, "saved"}},
		},
		{
			kind: stat, title: "Second attempts", width: 3, unit: "percentunit", about: "Searches that were sent a second time because they were overdue, of all searches.",
			queries: []query{{`sum(rate(sidestep_hedges_total{SEL, result=~"won|lost"}[$__rate_interval])) / sum(rate(sidestep_requests_total{SEL, operation="search"}[$__rate_interval]))`, "hedged"}},
		},
		{
			title: "p99: searches, and probes of ejected nodes", width: 12, unit: "s", about: "p99 of searches through sidestep, beside the p99 of probes (the tiniest search there is) of ejected nodes and of the others. A probe that is not answered within a second counts as one second; an immediate failure counts in none of these.",
			queries: []query{
				{p99(`sidestep_request_duration_seconds_bucket{SEL, operation="search"}`, "$__rate_interval"), "searches through sidestep"},
				{p99(`sidestep_probe_duration_seconds_bucket{SEL, `+ejectedStates+`}`, "$__rate_interval"), "probes of ejected nodes"},
				{p99(`sidestep_probe_duration_seconds_bucket{SEL, state="fine"}`, "$__rate_interval"), "probes of fine nodes"},
			},
		},
		{
			kind: states, title: "State of each node", width: 12, values: nodeStates, about: "The worst that any chosen sidestep sees. Slow and failing nodes are ejected until probes succeed; busy ones have a queue, or use up their CPU quota, and are avoided; ramping ones are in slow start.",
			// A node that begins anew has another id than before, and both are known for a moment.
			queries: []query{{numbered("max by (node)", "sidestep_node_state{NODE, state", nodeStates), "{{node}}"}},
		},
	}}
}
