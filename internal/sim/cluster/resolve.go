package simcluster

import (
	"hash/fnv"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// resolve expands a target expression (names, aliases, wildcards, exclusions,
// date math of the form <logs-{now/d}>, _all or nothing) into sorted index names.
// missing is a plain name that does not exist.
func (s *state) resolve(target string, now time.Time) (names []string, missing string) {
	if target == "" || target == "_all" || target == "*" {
		return s.names(), ""
	}
	if s.index(target) != nil {
		return []string{target}, ""
	}
	found := map[string]bool{}
	wildcard := false
	for _, part := range strings.Split(target, ",") {
		part = dateMath(part, now)
		if excluded, ok := strings.CutPrefix(part, "-"); ok && wildcard {
			for _, name := range s.matching(excluded) {
				delete(found, name)
			}
			continue
		}
		wildcard = wildcard || strings.Contains(part, "*")
		matches := s.matching(part)
		if len(matches) == 0 && !strings.Contains(part, "*") {
			return nil, part
		}
		for _, name := range matches {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), ""
}

// matching returns the indices that a name or pattern means.
func (s *state) matching(pattern string) []string {
	if !strings.Contains(pattern, "*") {
		if s.index(pattern) != nil {
			return []string{pattern}
		}
		return s.Aliases[pattern]
	}
	var names []string
	for all := s.Indices.Iterator(); !all.Done(); {
		if name, _, _ := all.Next(); matches(pattern, name) {
			names = append(names, name)
		}
	}
	for alias, indices := range s.Aliases {
		if matches(pattern, alias) {
			names = append(names, indices...)
		}
	}
	return names
}

func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == name
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// dateMath replaces {now/d} in an expression between angle brackets.
func dateMath(expr string, now time.Time) string {
	inner, ok := strings.CutPrefix(expr, "<")
	if !ok || !strings.HasSuffix(inner, ">") {
		return expr
	}
	return strings.ReplaceAll(strings.TrimSuffix(inner, ">"), "{now/d}", now.UTC().Format("2006.01.02"))
}

// shardsOf lists the shards that a search on the indices touches: all, or those
// that the comma separated routing values lead to.
func (s *state) shardsOf(indices []string, routing string) []shardRef {
	var refs []shardRef
	for _, name := range indices {
		ix := s.index(name)
		wanted := ix.Spec.routedShards(routing)
		for number := range ix.Shards {
			if wanted == nil || slices.Contains(wanted, number) {
				refs = append(refs, shardRef{name, number})
			}
		}
	}
	return refs
}

// hash stands in for the engines' hash of a preference.
func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum32()
}
