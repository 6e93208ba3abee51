package cluster

import (
	"net/url"
	"strconv"
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
func Questions(e Engine, index string) []Question {
	questions := []Question{
		{string(pollInfo), ""},
		{string(pollMembers), membersPath},
		{string(pollNodes), nodesPath},
		{string(pollStats), "_nodes/_local" + statsMetrics + statsFields},
		{string(pollVersion), versionPath},
		{string(pollSettings), settingsPath},
	}
	name := url.PathEscape(index)
	switch {
	case e.listsPages():
		questions = append(questions, Question{string(pollListShards), "_list/shards" + shardColumns + "&size=" + strconv.Itoa(smallPage)})
	case index == "":
		questions = append(questions, Question{string(pollCatShards), catShardsPath})
	default:
		questions = append(questions, Question{string(pollCatShards), "_cat/shards/" + name + shardColumns})
	}
	if index == "" {
		return questions
	}
	return append(questions,
		Question{string(pollRoutingTable), "_cluster/state/version,routing_table/" + name + "?local=true&filter_path=version"},
		Question{string(pollSearchShards), searchShardsPath(Target{Expression: index})},
		Question{string(pollMetadata), layoutPath(index)},
		Question{string(pollAliases), aliasPath(e, index)},
	)
}
