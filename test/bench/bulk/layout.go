package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	nodeCount = 3
	shards    = 6
	// affected are the shards that the degraded node holds copies of: the first ones.
	affected = 2
)

// layout is where the copies of each shard are: names of nodes.
type layout struct{ primary, replica [shards]string }

// newLayout lays the shards out over three nodes, the one to degrade first. It holds
// nothing but its part of the affected shards; the others share the rest evenly.
func newLayout(r role, names []string) layout {
	slow, others := names[0], names[1:]
	var l layout
	for shard := range shards {
		one, two := others[shard%2], others[(shard+1)%2]
		switch {
		case r == holdsBoth:
			one, two = names[shard%nodeCount], names[(shard+1)%nodeCount]
		case shard >= affected:
		case r == holdsPrimaries:
			one, two = slow, one
		case r == holdsReplicas:
			two = slow
		}
		l.primary[shard], l.replica[shard] = one, two
	}
	return l
}

// commands of _cluster/reroute that bring an index into its layout: its primaries, and
// when these are there its replicas.
func (l layout) commands(index string) (primaries, replicas []any) {
	for shard := range shards {
		place := func(node string) map[string]any {
			return map[string]any{"index": index, "shard": shard, "node": node}
		}
		primary := place(l.primary[shard])
		primary["accept_data_loss"] = true // there is none yet
		primaries = append(primaries, map[string]any{"allocate_empty_primary": primary})
		replicas = append(replicas, map[string]any{"allocate_replica": place(l.replica[shard])})
	}
	return primaries, replicas
}

// String tells the layout, a node after the other.
func (l layout) String() string {
	var names []string
	for shard := range shards {
		names = append(names, l.primary[shard], l.replica[shard])
	}
	slices.Sort(names)
	var parts []string
	for _, name := range slices.Compact(names) {
		part := name + ":"
		for shard := range shards {
			if l.primary[shard] == name {
				part += fmt.Sprintf(" %dp", shard)
			}
			if l.replica[shard] == name {
				part += fmt.Sprintf(" %dr", shard)
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// createIndex makes an index without replicas, laid out.
func (s *stage) createIndex(ctx context.Context, a arm, l layout) error {
	settings := map[string]any{
		"number_of_shards": shards, "number_of_replicas": 0,
		// We allocate all copies; only until they are there.
		"routing.allocation.enable": "none",
		// A node that comes back finds its own copies.
		"unassigned.node_left.delayed_timeout": "30m",
		// While it is filled.
		"refresh_interval": "-1", "translog.durability": "async",
	}
	for key, value := range a.settings {
		settings[key] = value
	}
	keyword := map[string]any{"type": "keyword"}
	definition := map[string]any{
		"settings": map[string]any{"index": settings},
		"mappings": map[string]any{"properties": map[string]any{
			"@timestamp": map[string]any{"type": "date"}, "message": map[string]any{"type": "text"},
			"level": keyword, "host": keyword, "status": map[string]any{"type": "integer"},
		}},
	}
	if err := s.Cluster.Do(ctx, http.MethodPut, "/"+a.index+"?wait_for_active_shards=0", definition, nil); err != nil {
		return fmt.Errorf("create index %s: %w", a.index, err)
	}
	primaries, _ := l.commands(a.index)
	if err := s.reroute(ctx, primaries); err != nil {
		return err
	}
	if err := s.Cluster.WaitGreen(ctx, a.index); err != nil {
		return err
	}
	return s.sameSettings(ctx, a)
}

// sameSettings fails unless the engine knows the settings that make an arm.
func (s *stage) sameSettings(ctx context.Context, a arm) error {
	var answer map[string]struct{ Settings map[string]string }
	if err := s.Cluster.Do(ctx, http.MethodGet, "/"+a.index+"/_settings?flat_settings=true", nil, &answer); err != nil {
		return fmt.Errorf("read the settings of %s: %w", a.index, err)
	}
	for key, want := range a.settings {
		if got := answer[a.index].Settings["index."+key]; got != fmt.Sprint(want) {
			return fmt.Errorf("the setting index.%s of %s is %q, want %v", key, a.index, got, want)
		}
	}
	return nil
}

// addReplicas completes an index that has been filled, and gives it the settings that
// it is measured with: the engine's defaults.
func (s *stage) addReplicas(ctx context.Context, a arm, l layout) error {
	one := map[string]any{"index.number_of_replicas": 1}
	if err := s.Cluster.Do(ctx, http.MethodPut, "/"+a.index+"/_settings", one, nil); err != nil {
		return fmt.Errorf("add replicas to %s: %w", a.index, err)
	}
	_, replicas := l.commands(a.index)
	if err := s.reroute(ctx, replicas); err != nil {
		return err
	}
	if err := s.Cluster.WaitGreen(ctx, a.index); err != nil {
		return err
	}
	defaults := map[string]any{
		"index.routing.allocation.enable": "all", "index.refresh_interval": nil, "index.translog.durability": nil,
	}
	if err := s.Cluster.Do(ctx, http.MethodPut, "/"+a.index+"/_settings", defaults, nil); err != nil {
		return fmt.Errorf("complete %s: %w", a.index, err)
	}
	return nil
}

// swapped returns the shards whose primary and replica have to change places for another
// layout; nil if the layouts differ in more than that, or nothing is laid out.
func (l layout) swapped(other layout) []int {
	swap := []int{}
	for shard := range shards {
		switch {
		case l.primary[shard] == "":
			return nil
		case l.primary[shard] == other.primary[shard] && l.replica[shard] == other.replica[shard]:
		case l.primary[shard] == other.replica[shard] && l.replica[shard] == other.primary[shard]:
			swap = append(swap, shard)
		default:
			return nil
		}
	}
	return swap
}

// promote has the replicas of shards become their primaries. The copies that were the
// primaries find their files where they are.
func (s *stage) promote(ctx context.Context, swap []int) error {
	if len(swap) == 0 {
		return nil
	}
	for _, a := range s.arms {
		now := map[string]any{"index.unassigned.node_left.delayed_timeout": "0s"}
		if err := s.Cluster.Do(ctx, http.MethodPut, "/"+a.index+"/_settings", now, nil); err != nil {
			return fmt.Errorf("promote replicas of %s: %w", a.index, err)
		}
		var commands []any
		for _, shard := range swap {
			commands = append(commands, map[string]any{"cancel": map[string]any{
				"index": a.index, "shard": shard, "node": s.laidOut.primary[shard], "allow_primary": true,
			}})
		}
		if err := s.reroute(ctx, commands); err != nil {
			return err
		}
		if err := s.Cluster.WaitGreen(ctx, a.index); err != nil {
			return err
		}
		later := map[string]any{"index.unassigned.node_left.delayed_timeout": "30m"}
		if err := s.Cluster.Do(ctx, http.MethodPut, "/"+a.index+"/_settings", later, nil); err != nil {
			return fmt.Errorf("promote replicas of %s: %w", a.index, err)
		}
	}
	return nil
}

func (s *stage) reroute(ctx context.Context, commands []any) error {
	body := map[string]any{"commands": commands}
	if err := s.Cluster.Do(ctx, http.MethodPost, "/_cluster/reroute?filter_path=acknowledged", body, nil); err != nil {
		return fmt.Errorf("allocate copies: %w", err)
	}
	return nil
}

// layoutOf returns where the copies of an index are.
func (s *stage) layoutOf(ctx context.Context, index string) (layout, error) {
	var rows []struct{ Shard, Prirep, State, Node string }
	if err := s.Cluster.Do(ctx, http.MethodGet, "/_cat/shards/"+index+"?format=json&h=shard,prirep,state,node", nil, &rows); err != nil {
		return layout{}, fmt.Errorf("find the copies of %s: %w", index, err)
	}
	var l layout
	for _, row := range rows {
		var shard int
		if _, err := fmt.Sscan(row.Shard, &shard); err != nil || shard < 0 || shard >= shards {
			return l, fmt.Errorf("find the copies of %s: shard %q", index, row.Shard)
		}
		if row.State != "STARTED" {
			continue
		}
		if row.Prirep == "p" {
			l.primary[shard] = row.Node
		} else {
			l.replica[shard] = row.Node
		}
	}
	return l, nil
}

// errMoved says that copies are no longer where they were laid out.
var errMoved = errors.New("copies have moved")

// verify fails unless every index has the layout.
func (s *stage) verify(ctx context.Context, want layout) error {
	for _, a := range s.arms {
		got, err := s.layoutOf(ctx, a.index)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%w: %s is laid out as %s, want %s", errMoved, a.index, got, want)
		}
	}
	return nil
}

// documentsOf returns how many documents the primary of each shard has.
func (s *stage) documentsOf(ctx context.Context, index string) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := s.Cluster.Do(ctx, http.MethodPost, "/"+index+"/_refresh", nil, nil); err != nil {
		return nil, fmt.Errorf("count the documents of %s: %w", index, err)
	}
	var rows []struct{ Prirep, Docs string }
	if err := s.Cluster.Do(ctx, http.MethodGet, "/_cat/shards/"+index+"?format=json&h=prirep,docs", nil, &rows); err != nil {
		return nil, fmt.Errorf("count the documents of %s: %w", index, err)
	}
	var counts []float64
	for _, row := range rows {
		if row.Prirep != "p" {
			continue
		}
		var n float64
		if _, err := fmt.Sscan(row.Docs, &n); err != nil {
			return nil, fmt.Errorf("count the documents of %s: %q", index, row.Docs)
		}
		counts = append(counts, n)
	}
	return counts, nil
}
