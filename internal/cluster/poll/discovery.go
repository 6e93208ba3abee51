package poll

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"time"

	"sidestep/internal/cluster"
)

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 2 * time.Second
	// nodesWait is how long a node waits for the others that it asks for their part (nodesPath).
	nodesWait = 2 * time.Second
	// discoveryPause is the least time between two discoveries that hints ask for.
	discoveryPause = time.Second

	nodesPath = "_nodes/http,os,thread_pool?timeout=2s&filter_path=nodes.*.name,nodes.*.roles,nodes.*.attributes,nodes.*.host,nodes.*.http.publish_address,nodes.*.http.max_content_length_in_bytes,nodes.*.os.allocated_processors,nodes.*.thread_pool.search.queue_size"
)

func membersPath(e cluster.Engine) string {
	return "_cluster/state/version,nodes" + ownState(e) + "filter_path=cluster_uuid,version,nodes.*.name,nodes.*.ephemeral_id,nodes.*.transport_address,nodes.*.roles,nodes.*.attributes"
}

func settingsPath(e cluster.Engine) string {
	return "_all/_settings/index.store.type,index.warm,index.verified_before_close" + ownSettings(e) + "flat_settings=true&expand_wildcards=all"
}

// membership maps the ids of the nodes in the cluster state to their ephemeral
// ids, which change when a node restarts.
type membership map[string]string

// memberState is what a node's cluster state says of the members.
type memberState struct {
	ClusterUUID string               `json:"cluster_uuid"`
	Version     int64                `json:"version"`
	Nodes       map[string]stateNode `json:"nodes"` // by id
}

// stateNode is a node in the cluster state.
type stateNode struct {
	Name             string            `json:"name"`
	EphemeralID      string            `json:"ephemeral_id"`
	TransportAddress string            `json:"transport_address"`
	Roles            []string          `json:"roles"` // OpenSearch and old versions of Elasticsearch do not tell
	Attributes       map[string]string `json:"attributes"`
}

func (s *memberState) members() membership {
	m := make(membership, len(s.Nodes))
	for id, n := range s.Nodes {
		m[id] = n.EphemeralID
	}
	return m
}

// infoNode is a node in the answer of _nodes/http,os,thread_pool.
type infoNode struct {
	Name       string            `json:"name"`
	Host       string            `json:"host"`
	Roles      []string          `json:"roles"`
	Attributes map[string]string `json:"attributes"`
	HTTP       struct {
		PublishAddress string `json:"publish_address"`
		MaxBody        int64  `json:"max_content_length_in_bytes"`
	} `json:"http"`
	OS struct {
		AllocatedProcessors int `json:"allocated_processors"`
	} `json:"os"`
	ThreadPool struct {
		Search struct {
			QueueSize any `json:"queue_size"`
		} `json:"search"`
	} `json:"thread_pool"`
}

// searchQueue returns how many tasks the queue of the search pool holds, 0 if the node does not tell a number. A queue without
// a bound (-1) holds any number.
func (n *infoNode) searchQueue() int {
	size, _ := n.ThreadPool.Search.QueueSize.(float64)
	if size < 0 || size > cluster.MaxSearchQueue {
		return cluster.MaxSearchQueue
	}
	return int(size)
}

// discoverLoop lists the nodes at every interval, at a hint, and with growing
// pauses while nothing answers.
func (p *Poller) discoverLoop(ctx context.Context) {
	backoff := firstBackoff
	if s := p.Snapshot(); p.o.Source != nil && s != nil {
		p.takeOver(s)
		if !wait(ctx, rand.N(p.o.DiscoveryInterval), p.rediscover, nil) {
			return
		}
	}
	for {
		started := time.Now()
		err := p.discover(ctx)
		if ctx.Err() != nil {
			return
		}
		p.status.report(discovering, err)
		pause := p.meanRate.stretch(p.o.DiscoveryInterval, discoveryLongest)
		if err != nil && stateOf(err) != StateNoShardsAPI {
			pause = min(Jitter(backoff), pause)
			longest := lastBackoff
			if stateOf(err) == StateUnauthorized {
				longest = ceilingInterval
			}
			backoff = min(2*backoff, longest)
		} else {
			backoff = firstBackoff
		}
		if !wait(ctx, pause, p.rediscover, nil) || !Sleep(ctx, time.Until(started.Add(min(discoveryPause, pause)))+p.meanRate.spread(discoveryPause, ceilingInterval)) {
			return
		}
	}
}

// takeOver begins with what a relay told. All that had it for a relay begin to poll at the same moment: what costs the
// engine much is not read again by all at once.
func (p *Poller) takeOver(s *cluster.Snapshot) {
	d := &p.departures
	d.of(s.ClusterUUID)
	d.announcements, d.excludedAt, d.shutdownAt = announcements{}, 0, 0
	// What the relay was told before it was silent the last time it has said anew since.
	maps.DeleteFunc(d.heard, func(_ string, a announced) bool { return a.what == cluster.DrainedAtRelay })
	d.after = time.Now().Add(rand.N(wholeGrace))
	p.leftAlone = leftAlone{uuid: s.ClusterUUID, after: time.Now().Add(rand.N(wholeGrace))}
}

// Jitter spreads a duration by ±20 %.
func Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

func (p *Poller) discover(ctx context.Context) error {
	found, from, err := p.Recognise(ctx)
	if err != nil {
		return err
	}
	if found.Engine.Serverless() {
		p.discovered(found, nil, nil, nil)
		return errNoShardsAPI
	}
	state, from, err := p.askMembers(ctx, cmp.Or(p.newest.Load(), from), found.Engine, found.ClusterUUID)
	if err != nil {
		return err
	}
	p.readDepartures(ctx, from, found, state.Version)
	nodes, err := p.listNodes(ctx, from, state)
	if err != nil {
		return err
	}
	p.discovered(found, nodes, new(state.members()), p.listLeftAlone(ctx, from, found, state.Version))
	return nil
}

// askMembers asks for the members of the cluster with this uuid, a given node first, nil is any. It
// returns which node answered: nodes apply a new state one after the other, and whatever else is asked
// about this version is asked of that node. Behind one of the addresses may be another cluster.
func (p *Poller) askMembers(ctx context.Context, first *url.URL, e cluster.Engine, uuid string) (*memberState, *url.URL, error) {
	var state *memberState
	from, err := p.endpoints.askFirst(ctx, first, Query{
		Kind: kindMembers, Path: membersPath(e), Deadline: min(localDeadline, p.o.PollTimeout),
		Decode: func(r io.Reader) error {
			state = &memberState{}
			if err := json.NewDecoder(r).Decode(state); err != nil {
				return err
			}
			if told := state.ClusterUUID; told != "" && told != uuid {
				return fmt.Errorf("the answer is of another cluster (uuid %s)", state.ClusterUUID)
			}
			return nil
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list the members of the cluster: %w", err)
	}
	return state, from, nil
}

// listNodes asks the members for what each tells of itself. A member that does not tell, because
// it is stuck, stays as it was known.
func (p *Poller) listNodes(ctx context.Context, from *url.URL, state *memberState) ([]*cluster.Node, error) {
	var told struct {
		Nodes map[string]infoNode `json:"nodes"`
	}
	_, err := p.endpoints.askFirst(ctx, from, Query{Kind: kindNodes, Path: nodesPath, Deadline: max(p.o.PollTimeout, nodesWait+staticSlack), Decode: DecodeJSON(&told)})
	if err != nil {
		return nil, fmt.Errorf("list the nodes' addresses: %w", err)
	}
	nodes := p.nodesBefore()
	maps.DeleteFunc(nodes, func(id string, _ *cluster.Node) bool { _, member := state.Nodes[id]; return !member })
	for id, n := range state.Nodes {
		member := cluster.Node{ID: id, Name: n.Name, Roles: n.Roles, Attributes: n.Attributes}
		if before := nodes[id]; before != nil {
			member = *before // it may be published
		}
		member.EphemeralID = n.EphemeralID
		nodes[id] = &member
	}
	published, members := map[string]string{}, 0
	for id, n := range told.Nodes {
		member, known := state.Nodes[id]
		if !known {
			continue // it joined since; or another node had to be asked, which is of another cluster
		}
		members++
		roles := n.Roles
		if roles == nil {
			roles = []string{} // it has none: nil would mean unknown
		}
		nodes[id] = &cluster.Node{ID: id, Name: n.Name, Roles: roles, Attributes: n.Attributes, Processors: n.OS.AllocatedProcessors, SearchQueue: n.searchQueue(), MaxBody: max(n.HTTP.MaxBody, 0), EphemeralID: member.EphemeralID}
		if n.HTTP.PublishAddress != "" && !p.o.Static {
			published[id] = p.addresses.published(n.HTTP.PublishAddress)
		}
	}
	if len(published) > 0 && len(published) < members {
		hint(p.rediscover) // a node joins before it serves HTTP
	}
	list := slices.SortedFunc(maps.Values(nodes), cluster.ByID)
	p.addresses.assign(list, published)
	p.departures.mark(list, p.nodesBefore(), state.Nodes, told.Nodes, time.Now())
	return list, nil
}

// discovered takes in what was found out about engine and nodes, which are sorted by id.
func (p *Poller) discovered(found *cluster.Identity, nodes []*cluster.Node, present *membership, leftAlone map[string]cluster.Miss) {
	p.endpoints.use(nodes)
	p.members.Store(present)
	if !p.store.Discovered(*found, nodes, leftAlone) {
		return
	}
	hint(p.remeasure)
	if !p.Snapshot().HasPlacement() {
		hint(p.replace)
	}
}

// DiscoveredByRelay takes in what a relay tells of engine and nodes, with their addresses by id.
func (p *Poller) DiscoveredByRelay(found *cluster.Identity, nodes []*cluster.Node, addresses map[string]string, leftAlone map[string]cluster.Miss) {
	if p.o.Static {
		addresses = nil
	}
	slices.SortFunc(nodes, cluster.ByID)
	p.addresses.assign(nodes, addresses)
	p.discovered(found, nodes, nil, leftAlone)
}

func (p *Poller) nodesBefore() map[string]*cluster.Node {
	nodes := map[string]*cluster.Node{}
	if s := p.Snapshot(); s != nil {
		for _, n := range s.Nodes {
			nodes[n.ID] = n
		}
	}
	return nodes
}

// leftAlone is of which version it is known which indices searches are not steered on. It belongs to the goroutine of
// discoverLoop.
type leftAlone struct {
	uuid    string    // of the cluster
	version int64     // of the cluster state, at least; 0: it was not asked yet
	after   time.Time // its cost forbids to ask before
}

// listLeftAlone names the indices that searches are not steered on: those of which the store is a snapshot or remote, and
// those that are closed. It asks a node that has this version of the cluster state. The answer holds only indices that have
// one of the settings, but the engine walks over all: it is asked when the cluster state moved. Nil, as while the answer
// cannot be had, is that what was known stays: not knowing costs speed on such indices, not results.
// That an index is closed is told by a setting of the engines' own, which they make when they
// close it and remove when they open it.
func (p *Poller) listLeftAlone(ctx context.Context, from *url.URL, of *cluster.Identity, version int64) map[string]cluster.Miss {
	known, started := &p.leftAlone, time.Now()
	if known.uuid != of.ClusterUUID {
		*known = leftAlone{uuid: of.ClusterUUID}
	}
	if !p.outdated(known.version, version) || started.Before(known.after) {
		return nil
	}
	var answer map[string]struct {
		Settings map[string]string `json:"settings"`
	}
	err := p.endpoints.askOne(ctx, from, Query{Kind: kindSettings, Path: settingsPath(of.Engine), Deadline: min(localDeadline, p.o.PollTimeout), Decode: DecodeJSON(&answer)})
	known.after = started.Add(wholeCostFactor * time.Since(started))
	if err != nil {
		return nil
	}
	known.version = version
	found := map[string]cluster.Miss{}
	for index, a := range answer {
		store := a.Settings["index.store.type"]
		switch {
		case a.Settings["index.verified_before_close"] == "true":
			found[index] = cluster.MissClosed
		case store == "remote_snapshot", store == "snapshot", a.Settings["index.warm"] == "true":
			found[index] = cluster.MissUnsupported
		}
	}
	return found
}
