package poll

import (
	"net/url"

	"sidestep/internal/cluster"
)

// Question is a read-only request that sidestep makes of the cluster with its own
// account.
type Question struct {
	// Kind is the value of the label kind under which its polls are counted.
	Kind string
	// Path is escaped, with its query string and without a leading slash.
	Path string
}

// Questions lists a request of every kind that the engine is asked in normal
// operation, in the least costly form that needs the same rights. Those that are
// about one index are about the one given, and left out if it is empty.
func Questions(e cluster.Engine, index string) []Question {
	questions := []Question{
		{string(kindInfo), ""},
		{string(kindMembers), membersPath(e)},
		{string(kindNodes), nodesPath},
		{string(kindStats), "_nodes/_local" + statsMetrics + statsFields},
		{string(kindVersion), versionPath(e)},
		{string(kindSettings), settingsPath(e)},
		{string(kindExclusions), exclusionsPath(e)},
		{string(kindShutdowns), shutdownsPath(e)},
	}
	if index == "" {
		return questions
	}
	return append(questions,
		Question{string(kindRoutingTable), "_cluster/state/version,routing_table/" + url.PathEscape(index) + ownState(e) + "filter_path=version"},
		Question{string(kindSearchShards), searchShardsPath(cluster.Target{Expression: index})},
		Question{string(kindMetadata), layoutPath(e, index)},
		Question{string(kindAliases), aliasPath(e, index)},
		Question{string(kindCounts), countsPath(index)},
	)
}

// ownState begins the query of a question about the cluster state, which the node that is asked is to answer from its own
// copy. From Elasticsearch 9.2 on each does anyway, and logs the parameter as a critical deprecation, but of _search_shards.
func ownState(e cluster.Engine) string {
	if e.Distribution == cluster.Elasticsearch && (e.Major > 9 || e.Major == 9 && e.Minor >= 2) {
		return "?"
	}
	return "?local=true&"
}

// ownSettings is ownState for questions about settings. Of these Elasticsearch logs the parameter from 9.1 on, or 9.0.
func ownSettings(e cluster.Engine) string {
	if e.Distribution == cluster.Elasticsearch && e.Major >= 9 {
		return "?"
	}
	return ownState(e)
}
