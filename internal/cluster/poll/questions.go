package poll

import (
	"net/url"
	"strconv"

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

// smallPage is the least that _list/shards takes as the size of a page.
const smallPage = 2000

// Questions lists a request of every kind that the engine is asked in normal
// operation, in the least costly form that needs the same rights. Those that are
// about one index are about the one given, and left out if it is empty.
func Questions(e cluster.Engine, index string) []Question {
	questions := []Question{
		{string(kindInfo), ""},
		{string(kindMembers), membersPath},
		{string(kindNodes), nodesPath},
		{string(kindStats), "_nodes/_local" + statsMetrics + statsFields},
		{string(kindVersion), versionPath},
		{string(kindSettings), settingsPath},
		{string(kindExclusions), exclusionsPath},
		{string(kindShutdowns), shutdownsPath},
	}
	name := url.PathEscape(index)
	switch {
	case listsPages(e):
		questions = append(questions, Question{string(kindListShards), "_list/shards" + shardColumns + "&size=" + strconv.Itoa(smallPage)})
	case index == "":
		questions = append(questions, Question{string(kindCatShards), catShardsPath})
	default:
		questions = append(questions, Question{string(kindCatShards), "_cat/shards/" + name + shardColumns})
	}
	if index == "" {
		return questions
	}
	return append(questions,
		Question{string(kindRoutingTable), "_cluster/state/version,routing_table/" + name + "?local=true&filter_path=version"},
		Question{string(kindSearchShards), searchShardsPath(cluster.Target{Expression: index})},
		Question{string(kindMetadata), layoutPath(index)},
		Question{string(kindAliases), aliasPath(e, index)},
	)
}
