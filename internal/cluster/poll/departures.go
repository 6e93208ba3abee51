package poll

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
)

const (
	exclusionKey = "cluster.routing.allocation.exclude."

	// announcedFor is for how long an announcement counts: one that was left behind must not
	// keep a node idle. rememberedFor is for how long it is known that it was made to a node
	// that is away since: when it is back, it is not about to leave again.
	announcedFor  = 10 * time.Minute
	rememberedFor = time.Hour
	// leaveOneIn: announcements count while they are about at most (n+1)/leaveOneIn of n data
	// nodes. If more are to leave, data is moved between halves of a cluster, for hours, and
	// the other half cannot serve all searches meanwhile.
	leaveOneIn = 3
	// shutdownsCostFactor is how many times as long as an answer about shutdowns took it is not
	// asked for again. Metadata of 1,000 indices with 100 fields each takes an engine 0.2 s.
	shutdownsCostFactor = 1000
)

func exclusionsPath(e cluster.Engine) string {
	return "_cluster/settings" + ownSettings(e) + "flat_settings=true&filter_path=*.*exclude*"
}

func shutdownsPath(e cluster.Engine) string {
	return "_cluster/state/metadata" + ownState(e) + "filter_path=metadata.node_shutdown.nodes.*.type,metadata.node_shutdown.nodes.*.node_ephemeral_id,metadata.decommissionedAttribute"
}

// announcements are what the cluster state says of nodes that are to leave.
type announcements struct {
	exclude          map[string][]string // patterns, by what they are about, such as _name
	attribute, value string              // of nodes that are decommissioned; empty: none are
	shutdown         map[string]string   // ephemeral ids, empty if they are not told, by ids of nodes that are to be shut down or restarted
}

// exclusions is the answer to exclusionsPath.
type exclusions struct {
	Persistent map[string]any `json:"persistent"`
	Transient  map[string]any `json:"transient"`
}

// patterns returns what excludes nodes. A transient setting wins.
func (e *exclusions) patterns() map[string][]string {
	found := map[string][]string{}
	for _, scope := range []map[string]any{e.Persistent, e.Transient} {
		for key, value := range scope {
			about, ok := strings.CutPrefix(key, exclusionKey)
			if !ok {
				continue
			}
			words, list := value.([]any)
			if !list {
				words = []any{value}
			}
			found[about] = nil
			for _, word := range words {
				for pattern := range strings.SplitSeq(fmt.Sprint(word), ",") {
					if pattern = strings.TrimSpace(pattern); pattern != "" {
						found[about] = append(found[about], pattern)
					}
				}
			}
		}
	}
	return found
}

// shutdowns is the answer to shutdownsPath.
type shutdowns struct {
	Metadata struct {
		Shutdown struct {
			Nodes map[string]struct {
				EphemeralID string `json:"node_ephemeral_id"` // most versions of Elasticsearch before 9 do not tell
			} `json:"nodes"` // by id
		} `json:"node_shutdown"` // Elasticsearch
		Decommission struct {
			Awareness map[string]string `json:"awareness"` // one attribute and its value
			Status    string            `json:"status"`
		} `json:"decommissionedAttribute"` // OpenSearch
	} `json:"metadata"`
}

// take replaces what is known by an answer.
func (a *announcements) take(s *shutdowns) {
	a.attribute, a.value, a.shutdown = "", "", map[string]string{}
	for id, n := range s.Metadata.Shutdown.Nodes {
		a.shutdown[id] = n.EphemeralID
	}
	if d := s.Metadata.Decommission; d.Status != "failed" {
		for a.attribute, a.value = range d.Awareness {
		}
	}
}

// about returns what is announced of a node, which runs at a host. What was announced before it restarted is not about it,
// where the engine tells: a shutdown is often read for the first time when the node is back.
func (a *announcements) about(n *cluster.Node, host string, state stateNode) cluster.Departure {
	ip, _, err := net.SplitHostPort(state.TransportAddress)
	if err != nil {
		ip = ""
	}
	meant, shutdown := a.shutdown[n.ID]
	switch {
	case shutdown && (meant == "" || meant == state.EphemeralID):
		return cluster.ShuttingDown
	case a.attribute != "" && n.Attributes[a.attribute] == a.value:
		return cluster.Decommissioned
	}
	for key, patterns := range a.exclude {
		var is []string
		switch key {
		case "_name":
			is = []string{n.Name}
		case "_id":
			is = []string{n.ID}
		case "_ip", "_host_ip", "_publish_ip":
			is = []string{ip}
		case "_host":
			is = []string{host, ip}
		default:
			is = []string{n.Attributes[key]}
		}
		if slices.ContainsFunc(is, func(v string) bool { return v != "" && es.MatchesAny(patterns, v) }) {
			return cluster.Excluded
		}
	}
	return cluster.Stays
}

// departures follows the announcements. It belongs to the goroutine of discoverLoop.
type departures struct {
	announcements
	uuid                   string
	excludedAt, shutdownAt int64                // versions of the cluster state that is known, at least; 0: none yet
	after                  time.Time            // the cost of shutdowns forbids to ask before
	failing                bool                 // it was logged that there is no answer
	hosts                  map[string]string    // by id of the node: what a node that is silent told before
	heard                  map[string]announced // by id of the node
}

// announced is an announcement about a node.
type announced struct {
	what        cluster.Departure
	ephemeralID string // of the node then: it changes when the node restarts
	since       time.Time
}

// of forgets what is about another cluster than the one with this uuid.
func (d *departures) of(uuid string) {
	if d.uuid != uuid {
		*d = departures{uuid: uuid, heard: map[string]announced{}, hosts: map[string]string{}}
	}
}

// asked reports whether it was asked which nodes leave like this. Until then what a relay told stays.
func (d *departures) asked(as cluster.Departure) bool {
	switch as {
	case cluster.DrainedAtRelay:
		return false // the cluster does not know
	case cluster.Excluded:
		return d.excludedAt > 0
	}
	return d.shutdownAt > 0
}

// outdated reports whether what is known of a version of the cluster state is to be asked of a node
// that has this one: it is newer, or the cluster went back to a lower one.
func (p *Poller) outdated(known, version int64) bool {
	s := p.Snapshot()
	return version > known || s != nil && s.Version < known
}

// readDepartures asks a node that has this version of the cluster state what is announced, if what
// is known is outdated. Exclusions are cheap to tell. For shutdowns the engine walks over the metadata
// of all indices: they are asked for during a thousandth of the time, and not before this sidestep
// knows the cluster: many may start at once. While an answer cannot be had, what was known stays.
func (p *Poller) readDepartures(ctx context.Context, from *url.URL, found *cluster.Identity, version int64) {
	d := &p.departures
	d.of(found.ClusterUUID)
	ask := func(kind Kind, path string, into any) error {
		return p.endpoints.askOne(ctx, from, Query{Kind: kind, Path: path, Deadline: min(localDeadline, p.o.PollTimeout), Decode: DecodeJSON(into)})
	}
	var failed error
	answered := false
	if p.outdated(d.excludedAt, version) {
		var answer exclusions
		if failed = ask(kindExclusions, exclusionsPath(found.Engine), &answer); failed == nil {
			d.exclude, d.excludedAt, answered = answer.patterns(), version, true
		}
	}
	if started := time.Now(); p.Snapshot() != nil && p.outdated(d.shutdownAt, version) && !started.Before(d.after) {
		var answer shutdowns
		err := ask(kindShutdowns, shutdownsPath(found.Engine), &answer)
		if err == nil {
			d.take(&answer)
			d.shutdownAt, answered = version, true
		}
		d.after = time.Now().Add(shutdownsCostFactor * time.Since(started))
		failed = cmp.Or(failed, err)
	}
	if failed == nil && answered {
		d.failing = false
	}
	if failed != nil && !d.failing && ctx.Err() == nil {
		p.o.Logger.Warn("it cannot be read which nodes are to leave", "err", failed)
		d.failing = true
	}
}

// mark notes which of the nodes are about to leave; before is what was known of them, by id.
func (d *departures) mark(nodes []*cluster.Node, before map[string]*cluster.Node, states map[string]stateNode, told map[string]infoNode, now time.Time) {
	leaving, data, going := make([]cluster.Departure, len(nodes)), 0, 0
	for i, n := range nodes {
		state := states[n.ID]
		if host := told[n.ID].Host; host != "" {
			d.hosts[n.ID] = host
		}
		what := d.about(n, d.hosts[n.ID], state)
		if was := before[n.ID]; was != nil && (what == cluster.Stays || was.Leaving == cluster.DrainedAtRelay) && !d.asked(was.Leaving) && (was.EphemeralID == "" || was.EphemeralID == state.EphemeralID) {
			what = was.Leaving
		}
		leaving[i] = d.counts(n.ID, announced{what, state.EphemeralID, now})
		if n.Data() {
			data++
			if leaving[i] != cluster.Stays && leaving[i] != cluster.DrainedAtRelay { // what an operator says has no bound
				going++
			}
		}
	}
	for i, n := range nodes {
		if going > (data+1)/leaveOneIn && leaving[i] != cluster.DrainedAtRelay {
			leaving[i] = cluster.Stays
		}
		if n.Leaving != leaving[i] {
			changed := *n // it may be published
			changed.Leaving = leaving[i]
			nodes[i] = &changed
		}
	}
	maps.DeleteFunc(d.hosts, func(id, _ string) bool { _, here := states[id]; return !here })
	for id, h := range d.heard {
		if _, here := states[id]; !here && now.Sub(h.since) >= rememberedFor {
			delete(d.heard, id)
		}
	}
}

// counts returns what is announced of a node if that still counts.
func (d *departures) counts(id string, a announced) cluster.Departure {
	if a.what == cluster.Stays {
		delete(d.heard, id)
		return cluster.Stays
	}
	first := d.heard[id]
	if first.what != a.what {
		first = a
		d.heard[id] = a
	}
	if first.ephemeralID != a.ephemeralID || a.since.Sub(first.since) >= announcedFor {
		return cluster.Stays
	}
	return a.what
}
