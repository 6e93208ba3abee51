package simcluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/benbjohnson/immutable"
)

// copyState is the state of a shard copy as the engines print it.
type copyState string

const (
	started      copyState = "STARTED"
	relocating   copyState = "RELOCATING"
	initializing copyState = "INITIALIZING"
	unassigned   copyState = "UNASSIGNED"
)

// shardCopy is one copy of a shard.
type shardCopy struct {
	Node   string // id, empty if unassigned
	Kind   byte   // 'p' primary, 'r' replica, 's' search-only replica
	State  copyState
	Target string // node id that a relocating copy moves to
	Alloc  string // allocation id, changes with every assignment
}

func (c shardCopy) active() bool { return c.State == started || c.State == relocating }

// shardRef names a shard.
type shardRef struct {
	Index  string
	Number int
}

func (r shardRef) String() string { return fmt.Sprintf("[%s][%d]", r.Index, r.Number) }

// indexState is one index. The copies of its shards are in Shards, by number.
type indexState struct {
	Spec   IndexSpec
	UUID   string
	Shards [][]shardCopy
}

// any reports whether some copy is like this.
func (ix *indexState) any(like func(shardCopy) bool) bool {
	return slices.ContainsFunc(ix.Shards, func(copies []shardCopy) bool { return slices.ContainsFunc(copies, like) })
}

// state is the cluster state. A published state is never changed: the functions
// of this file return a changed copy.
type state struct {
	Version int64
	Serial  int // source of uuids and allocation ids
	Nodes   []string
	// Indices shares what did not change with the states before: a cluster may have
	// tens of thousands, and a thousand changes a second.
	Indices *immutable.Map[string, *indexState]
	Aliases map[string][]string // alias to index names
	// Adaptive is whether adaptive replica selection is on, AdaptiveDefault what
	// holds while no setting says.
	Adaptive, AdaptiveDefault bool
	Settings                  map[string]map[string]any // "transient" and "persistent", flat keys
	Balancing                 int                       // where the next index starts
}

func newState(nodes []string, adaptive bool) *state {
	return &state{
		Version: 1, Nodes: nodes, Adaptive: adaptive, AdaptiveDefault: adaptive,
		Indices: immutable.NewMap[string, *indexState](nil), Aliases: map[string][]string{},
		Settings: map[string]map[string]any{"transient": {}, "persistent": {}},
	}
}

// change returns a copy with the next version. What it refers to is shared: it is
// replaced, not changed.
func (s *state) change() *state {
	next := *s
	next.Version++
	return &next
}

// index returns an index, nil if there is none of that name.
func (s *state) index(name string) *indexState {
	ix, _ := s.Indices.Get(name)
	return ix
}

// edit returns an index of a state that is being made, to be changed.
func (s *state) edit(name string) *indexState {
	clone := *s.index(name)
	clone.Shards = make([][]shardCopy, len(clone.Shards))
	for i, copies := range s.index(name).Shards {
		clone.Shards[i] = slices.Clone(copies)
	}
	s.Indices = s.Indices.Set(name, &clone)
	return &clone
}

// names returns the names of all indices, sorted.
func (s *state) names() []string {
	names := make([]string, 0, s.Indices.Len())
	for all := s.Indices.Iterator(); !all.Done(); {
		name, _, _ := all.Next()
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *state) nextAlloc() string {
	s.Serial++
	return fmt.Sprintf("alloc-%015d", s.Serial)
}

func (s *state) manager() string {
	if len(s.Nodes) == 0 {
		return ""
	}
	return s.Nodes[0]
}

// withIndex adds an index, its copies started, spread over the nodes in turn.
func (s *state) withIndex(spec IndexSpec) (*state, error) {
	spec = spec.withDefaults()
	if spec.Name == "" {
		return nil, fmt.Errorf("create index: no name")
	}
	if s.index(spec.Name) != nil || s.Aliases[spec.Name] != nil {
		return nil, fmt.Errorf("create index %s: exists already", spec.Name)
	}
	if spec.RoutingNumShards%spec.Shards != 0 {
		return nil, fmt.Errorf("create index %s: %d routing shards for %d shards", spec.Name, spec.RoutingNumShards, spec.Shards)
	}
	next := s.change()
	next.Serial++
	ix := &indexState{Spec: spec, UUID: fmt.Sprintf("index-%016d", next.Serial)}
	kinds := append([]byte{'p'}, slices.Repeat([]byte{'r'}, spec.Replicas)...)
	kinds = append(kinds, slices.Repeat([]byte{'s'}, spec.SearchReplicas)...)
	for number := range spec.Shards {
		copies := make([]shardCopy, len(kinds))
		for i, kind := range kinds {
			copies[i] = shardCopy{Kind: kind, State: unassigned}
			if i < len(next.Nodes) {
				node := next.Nodes[(next.Balancing+number+i)%len(next.Nodes)]
				copies[i] = shardCopy{Node: node, Kind: kind, State: started, Alloc: next.nextAlloc()}
			}
		}
		ix.Shards = append(ix.Shards, copies)
	}
	next.Balancing++
	next.Indices = next.Indices.Set(spec.Name, ix)
	if len(spec.Aliases) > 0 {
		next.Aliases = maps.Clone(s.Aliases)
	}
	for _, alias := range spec.Aliases {
		next.Aliases[alias] = append(slices.Clone(next.Aliases[alias]), spec.Name)
	}
	return next, nil
}

func (s *state) withoutIndex(name string) (*state, error) {
	if s.index(name) == nil {
		return nil, fmt.Errorf("delete index %s: no such index", name)
	}
	next := s.change()
	next.Indices = next.Indices.Delete(name)
	cloned := false
	for alias, names := range s.Aliases {
		if !slices.Contains(names, name) {
			continue
		}
		if !cloned {
			next.Aliases, cloned = maps.Clone(s.Aliases), true
		}
		next.Aliases[alias] = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
		if len(next.Aliases[alias]) == 0 {
			delete(next.Aliases, alias)
		}
	}
	return next, nil
}

// withAlias points an alias at indices, or removes it if there are none.
func (s *state) withAlias(alias string, indices []string) (*state, error) {
	if s.index(alias) != nil {
		return nil, fmt.Errorf("set alias %s: an index has that name", alias)
	}
	for _, name := range indices {
		if s.index(name) == nil {
			return nil, fmt.Errorf("set alias %s: no such index %s", alias, name)
		}
	}
	next := s.change()
	next.Aliases = maps.Clone(s.Aliases)
	delete(next.Aliases, alias)
	if len(indices) > 0 {
		next.Aliases[alias] = slices.Clone(indices)
	}
	return next, nil
}

// withRelocation starts to move a started copy of a shard between two nodes.
func (s *state) withRelocation(shard shardRef, from, to string) (*state, error) {
	fail := func(why string) (*state, error) {
		return nil, fmt.Errorf("relocate %s from %s to %s: %s", shard, from, to, why)
	}
	ix := s.index(shard.Index)
	if ix == nil || shard.Number < 0 || shard.Number >= len(ix.Shards) {
		return fail("no such shard")
	}
	if !slices.Contains(s.Nodes, to) {
		return fail("no such node")
	}
	copies := ix.Shards[shard.Number]
	if slices.ContainsFunc(copies, func(c shardCopy) bool { return c.Node == to || c.Target == to }) {
		return fail("the node has a copy already")
	}
	at := slices.IndexFunc(copies, func(c shardCopy) bool { return c.Node == from && c.State == started })
	if at < 0 {
		return fail("no started copy there")
	}
	next := s.change()
	moving := &next.edit(shard.Index).Shards[shard.Number][at]
	moving.State, moving.Target = relocating, to
	return next, nil
}

// allocation is one copy on its way.
type allocation struct {
	shardRef
	ID string
}

// withRecovered completes the recovery or relocation of a copy. It returns nil if
// that allocation is gone.
func (s *state) withRecovered(a allocation) *state {
	unfinished := func(c shardCopy) bool { return c.Alloc == a.ID && c.State != started }
	ix := s.index(a.Index)
	if ix == nil {
		return nil
	}
	at := slices.IndexFunc(ix.Shards[a.Number], unfinished)
	if at < 0 {
		return nil
	}
	next := s.change()
	copies := next.edit(a.Index).Shards[a.Number]
	c := &copies[at]
	if c.State == relocating {
		c.Node, c.Target, c.Alloc = c.Target, "", next.nextAlloc()
	}
	c.State = started
	promote(copies)
	return next
}

// eachCopy visits all copies.
func (s *state) eachCopy(visit func(shardCopy)) {
	for all := s.Indices.Iterator(); !all.Done(); {
		_, ix, _ := all.Next()
		for _, copies := range ix.Shards {
			for _, c := range copies {
				visit(c)
			}
		}
	}
}

// withoutNode takes a node out: its copies are unassigned, where it held the
// primary a started replica takes over.
func (s *state) withoutNode(id string) *state {
	next := s.change()
	next.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n string) bool { return n == id })
	held := func(c shardCopy) bool { return c.Node == id || c.Target == id }
	for _, name := range s.names() {
		if !s.index(name).any(held) {
			continue
		}
		for _, copies := range next.edit(name).Shards {
			for i := range copies {
				c := &copies[i]
				switch {
				case c.Node == id:
					*c = shardCopy{Kind: c.Kind, State: unassigned}
				case c.Target == id:
					c.State, c.Target = started, ""
				}
			}
			promote(copies)
		}
	}
	return next
}

// promote makes an active replica the primary if the primary is not active.
func promote(copies []shardCopy) {
	lost := slices.IndexFunc(copies, func(c shardCopy) bool { return c.Kind == 'p' && !c.active() })
	successor := slices.IndexFunc(copies, func(c shardCopy) bool { return c.Kind == 'r' && c.active() })
	if lost < 0 || successor < 0 {
		return
	}
	copies[lost].Kind, copies[successor].Kind = 'r', 'p'
	copies[lost], copies[successor] = copies[successor], copies[lost]
}

// withNode lets a node join and gives it the unassigned copies it may hold, to be
// recovered. What is to recover is returned.
func (s *state) withNode(id string) (next *state, recovering []allocation) {
	next = s.change()
	if !slices.Contains(next.Nodes, id) {
		next.Nodes = append(slices.Clone(s.Nodes), id)
	}
	for _, name := range s.names() {
		if !s.index(name).any(func(c shardCopy) bool { return c.State == unassigned }) {
			continue
		}
		for number, copies := range next.edit(name).Shards {
			held := func(c shardCopy) bool { return c.Node == id || c.Target == id }
			at := slices.IndexFunc(copies, func(c shardCopy) bool { return c.State == unassigned })
			if at < 0 || slices.ContainsFunc(copies, held) {
				continue
			}
			copies[at] = shardCopy{Node: id, Kind: copies[at].Kind, State: initializing, Alloc: next.nextAlloc()}
			recovering = append(recovering, allocation{shardRef{name, number}, copies[at].Alloc})
		}
	}
	return next, recovering
}
