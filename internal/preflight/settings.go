package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"sidestep/internal/cluster"
)

const (
	settingsPath = "_cluster/settings?include_defaults=true&filter_path=*.cluster.routing,*.cluster.search"

	adaptiveKey  = "cluster.routing.use_adaptive_replica_selection"
	awarenessKey = "cluster.routing.allocation.awareness.attributes"
	strictKey    = "cluster.routing.weighted.strict"
	ignoreKey    = "cluster.search.ignore_awareness_attributes"

	// weightsRight reads weights; cluster_monitor does not hold it.
	weightsRight = "cluster:admin/routing/awareness/weights/get"
)

// settings tells which settings of the engine meet with what sidestep does.
func (c *Checker) settings(ctx context.Context, via *url.URL, engine cluster.Engine) []Finding {
	var scopes map[string]json.RawMessage
	if err := c.ask.get(ctx, via, settingsPath, &scopes); err != nil {
		return []Finding{{Note, TopicSettings, "the cluster's settings could not be read: " + err.Error(), ""}}
	}
	set := map[string]string{}
	for _, scope := range []string{"defaults", "persistent", "transient"} { // the last one wins
		var values map[string]any
		if json.Unmarshal(scopes[scope], &values) == nil {
			flatten(set, "", values)
		}
	}
	found := []Finding{adaptive(set)}
	var attributes []string
	if s := set[awarenessKey]; s != "" {
		attributes = strings.Split(s, ",")
	}
	found = append(found, c.awareness(attributes, set)...)
	if engine.Distribution == cluster.OpenSearch {
		for _, attribute := range attributes {
			found = append(found, c.weights(ctx, via, attribute, set[strictKey] != "false")...)
		}
	}
	return found
}

// flatten reads settings, nested or flat, into one level. Lists are joined by commas.
func flatten(into map[string]string, prefix string, values map[string]any) {
	for key, value := range values {
		switch v := value.(type) {
		case map[string]any:
			flatten(into, prefix+key+".", v)
		case []any:
			words := make([]string, len(v))
			for i, word := range v {
				words[i] = fmt.Sprint(word)
			}
			into[prefix+key] = strings.Join(words, ",")
		default:
			into[prefix+key] = strings.ReplaceAll(fmt.Sprint(v), " ", "")
		}
	}
}

func adaptive(set map[string]string) Finding {
	switch set[adaptiveKey] {
	case "true":
		return Finding{OK, TopicSettings, "the engine's own adaptive selection is on: it decides while no node stands out", ""}
	case "false":
		return Finding{
			Note, TopicSettings, "the engine's own adaptive selection is off: while no node stands out copies take turns",
			"set " + adaptiveKey + " to true, or routing.when to always",
		}
	}
	return Finding{Note, TopicSettings, "the engine does not tell whether its own adaptive selection is on", ""}
}

// awareness tells of zones that only one side knows.
func (c *Checker) awareness(attributes []string, set map[string]string) []Finding {
	names := strings.Join(attributes, ", ")
	switch {
	case len(attributes) == 0 && c.o.Zone == "":
		return []Finding{{OK, TopicSettings, "no awareness attributes, and no zone of sidestep's own", ""}}
	case len(attributes) == 0:
		return []Finding{{
			Note, TopicSettings, "sidestep prefers its own " + c.o.Zone + ", but the cluster has no awareness attribute: copies of a shard may all be in one",
			"set " + awarenessKey + " to " + c.o.Zone,
		}}
	case c.o.Zone == "" && set[ignoreKey] == "false":
		return []Finding{{
			Note, TopicSettings, fmt.Sprintf("the engine prefers copies with the coordinating node's own %s; sidestep does not when it steers", names),
			"set routing.zone.attribute and routing.zone.local",
		}}
	case c.o.Zone == "":
		return []Finding{{
			Note, TopicSettings, fmt.Sprintf("copies are spread by %s, and sidestep uses those of all values alike", names),
			"set routing.zone.attribute and routing.zone.local if searches should stay in one",
		}}
	case !slices.Contains(attributes, c.o.Zone):
		return []Finding{{
			Note, TopicSettings, fmt.Sprintf("copies are spread by %s, and sidestep's zones are %s", names, c.o.Zone),
			"choose one: where a zone lacks copies, searches leave it",
		}}
	}
	return []Finding{{OK, TopicSettings, "copies are spread by " + names + ", which sidestep's zones are, too", ""}}
}

// weights tells of weighted routing (OpenSearch).
func (c *Checker) weights(ctx context.Context, via *url.URL, attribute string, strict bool) []Finding {
	var told struct {
		Weights map[string]any `json:"weights"`
	}
	path := "_cluster/routing/awareness/" + url.PathEscape(attribute) + "/weights?local=true"
	err := c.ask.get(ctx, via, path, &told)
	var no *refusal
	switch {
	case strict && errors.As(err, &no) && no.forbidden():
		return []Finding{{
			Note, TopicSettings, "it cannot be read whether weighted routing by " + attribute + " is set; it would be strict, and sidestep would steer nothing",
			grantOpenSearch + weightsRight + ", or look at GET " + path,
		}}
	case err != nil || len(told.Weights) == 0:
		return nil // not set, or not for this version
	}
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(told.Weights)) {
		parts = append(parts, fmt.Sprintf("%s %v", zone, told.Weights[zone]))
	}
	text := fmt.Sprintf("weighted routing by %s is set: %s", attribute, strings.Join(parts, ", "))
	if strict {
		return []Finding{{
			Problem, TopicSettings, text + "; it is strict, so the cluster refuses preferences for nodes, and sidestep steers nothing",
			"delete the weights, or set " + strictKey + " to false",
		}}
	}
	return []Finding{{
		Note, TopicSettings, text + "; what sidestep steers does not keep to the weights",
		"leave the choice to one of the two: delete the weights, or switch sidestep to observe",
	}}
}
