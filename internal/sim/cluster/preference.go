package simcluster

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// orderer puts the copies of a shard into the order in which a coordinating node
// tries them.
type orderer struct {
	state  *state
	local  string                        // id of the coordinating node
	name   func(id string) string        // of a node
	rotate func(shardRef) uint32         // grows by one with each call for a shard
	rank   func([]shardCopy) []shardCopy // nil: adaptive selection is off
	strict bool                          // preferences for nodes are refused
}

// order returns the copies of ref to try, first choice first, under a preference.
// None is not an error: the shard is unavailable.
func (o orderer) order(ref shardRef, preference string) ([]shardCopy, *apiError) {
	copies := o.state.index(ref.Index).Shards[ref.Number]
	active, init := split(copies)
	if !strings.HasPrefix(preference, "_") {
		return o.unkeyed(ref, active, init, preference), nil
	}
	keyword, arg, _ := strings.Cut(preference, ":")
	if keyword == "_shards" {
		_, rest, _ := strings.Cut(arg, "|")
		return o.order(ref, rest)
	}
	if o.strict && (keyword == "_only_nodes" || keyword == "_prefer_nodes") {
		return nil, &apiError{
			Status: http.StatusForbidden, Type: "preference_based_search_not_allowed_exception",
			Reason: "Preference type based routing not allowed with strict weighted shard routing enabled",
		}
	}
	active = rotated(active, o.rotate(ref))
	on := func(nodes ...string) func(shardCopy) bool {
		return func(c shardCopy) bool { return slices.Contains(nodes, c.Node) }
	}
	switch keyword {
	case "_only_nodes":
		criteria := strings.Split(arg, ",")
		listed := o.match(criteria)
		found := append(keep(active, on(listed...)), keep(init, on(listed...))...)
		if len(found) == 0 {
			return nil, noDataNodes(criteria, ref)
		}
		return found, nil
	case "_prefer_nodes":
		return append(preferred(active, on(strings.Split(arg, ",")...)), init...), nil
	case "_local":
		return append(preferred(active, on(o.local)), init...), nil
	case "_only_local":
		return keep(append(active, init...), on(o.local)), nil
	default:
		return nil, illegalArgument("no Preference for [" + keyword + "]")
	}
}

// unkeyed orders copies without a preference, or with a custom string, which
// always leads to the same rotation.
func (o orderer) unkeyed(ref shardRef, active, init []shardCopy, custom string) []shardCopy {
	if custom != "" {
		seed := 31*hash(custom) + hash(ref.String())
		return append(rotated(active, seed), rotated(init, seed)...)
	}
	isSearch := func(c shardCopy) bool { return c.Kind == 's' }
	if slices.ContainsFunc(active, isSearch) {
		active, init = keep(active, isSearch), keep(init, isSearch)
	}
	active = rotated(active, o.rotate(ref))
	if o.rank != nil {
		active = o.rank(active)
	}
	return append(active, init...)
}

// match resolves node criteria: ids, names, * patterns of either, _all, _local.
func (o orderer) match(criteria []string) []string {
	var ids []string
	for _, id := range o.state.Nodes {
		name := o.name(id)
		for _, c := range criteria {
			if c == "_all" || c == "_local" && id == o.local || matches(c, id) || matches(c, name) {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids
}

// shardFilter returns the shard numbers that a _shards: preference keeps, nil for
// all.
func shardFilter(preference string) (map[int]bool, *apiError) {
	arg, ok := strings.CutPrefix(preference, "_shards:")
	if !ok {
		return nil, nil
	}
	list, _, _ := strings.Cut(arg, "|")
	wanted := map[int]bool{}
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, &apiError{Status: 400, Type: "number_format_exception", Reason: fmt.Sprintf("For input string: %q", s)}
		}
		wanted[n] = true
	}
	return wanted, nil
}

func noDataNodes(criteria []string, ref shardRef) *apiError {
	noun := "criteria" // the engines have singular and plural the wrong way round
	if len(criteria) > 1 {
		noun = "criterion"
	}
	return illegalArgument(fmt.Sprintf("no data nodes with %s [%s] found for shard: %s",
		noun, strings.Join(criteria, ","), ref))
}

// split returns the active copies, and the initializing ones, which include the
// targets of relocations.
func split(copies []shardCopy) (active, init []shardCopy) {
	for _, c := range copies {
		if c.active() {
			active = append(active, c)
		}
		if c.State == initializing {
			init = append(init, c)
		}
		if c.State == relocating {
			init = append(init, shardCopy{Node: c.Target, Kind: c.Kind, State: initializing, Target: c.Node, Alloc: c.Alloc})
		}
	}
	return active, init
}

// rotated is how the engines "shuffle": so a list of some of the copies gets an
// uneven share, the one after a left-out copy more.
func rotated(copies []shardCopy, seed uint32) []shardCopy {
	if len(copies) < 2 {
		return copies
	}
	at := int(seed % uint32(len(copies))) //nolint:gosec // few copies
	return append(slices.Clone(copies[at:]), copies[:at]...)
}

func keep(copies []shardCopy, ok func(shardCopy) bool) []shardCopy {
	return slices.DeleteFunc(slices.Clone(copies), func(c shardCopy) bool { return !ok(c) })
}

// preferred moves the copies that ok names to the front.
func preferred(copies []shardCopy, ok func(shardCopy) bool) []shardCopy {
	return append(keep(copies, ok), keep(copies, func(c shardCopy) bool { return !ok(c) })...)
}
