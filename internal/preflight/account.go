package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/poll"
)

const (
	privilegesPath = "_security/user/_has_privileges"
	privilegesBody = `{"cluster":["monitor"],"index":[{"names":["*"],"privileges":["monitor","view_index_metadata","read"]}]}`

	countsKind = "counts"
	searchKind = "search"
	searchPath = "/_search?size=0&terminate_after=1&request_cache=false&allow_partial_search_results=false&filter_path=took,_shards"

	grantElasticsearch = "grant its role the privilege "
	grantOpenSearch    = "grant its role "
)

// right is what a kind of question needs.
type right struct {
	// What the engines call it.
	opensearch, elasticsearch string
	// without says what sidestep cannot do without it.
	without string
	// optional rights cost speed, not steering.
	optional bool
}

const (
	noNodes      = "nodes are not found, and nothing is steered"
	noStats      = "nodes are not measured, and nothing is steered"
	noCopies     = "it is not known where copies are, and nothing is steered"
	noTargets    = "aliases and wildcards are not resolved, and their searches pass"
	noLayouts    = "reads by id pass"
	noCounts     = "the documents of bulk.single_shard are not counted"
	noProbes     = "sidestep sends no probes: clients' searches find out how nodes are, and when one is well again"
	noDepartures = "nodes that are excluded from allocation, decommissioned or shut down are searched until they are gone"
	noSettings   = "searchable snapshots and warm indices are not told apart, and are steered as the others"
)

// rights by kind of question.
func rights() map[string]right {
	const clusterMonitor, indicesMonitor = "cluster_monitor", "indices_monitor on all indices"
	const monitor, view = "monitor of the cluster", "view_index_metadata on all indices"
	return map[string]right{
		"info":          {opensearch: clusterMonitor, elasticsearch: monitor, without: noNodes},
		"members":       {opensearch: clusterMonitor, elasticsearch: monitor, without: noNodes},
		"nodes":         {opensearch: clusterMonitor, elasticsearch: monitor, without: noNodes},
		"stats":         {opensearch: clusterMonitor, elasticsearch: monitor, without: noStats},
		"version":       {opensearch: clusterMonitor, elasticsearch: monitor, without: noCopies},
		"routing_table": {opensearch: clusterMonitor, elasticsearch: monitor, without: noCopies},
		"search_shards": {opensearch: "indices:admin/shards/search_shards on all indices", elasticsearch: view, without: noTargets},
		"metadata":      {opensearch: clusterMonitor, elasticsearch: monitor, without: noLayouts, optional: true},
		"aliases":       {opensearch: "indices:admin/aliases/get on all indices", elasticsearch: view, without: noLayouts, optional: true},
		countsKind:      {opensearch: clusterMonitor + " and " + indicesMonitor, elasticsearch: "monitor of the cluster and on all indices", without: noCounts, optional: true},
		"settings":      {opensearch: indicesMonitor, elasticsearch: view, without: noSettings, optional: true},
		"exclusions":    {opensearch: clusterMonitor, elasticsearch: monitor, without: noDepartures, optional: true},
		"shutdowns":     {opensearch: clusterMonitor, elasticsearch: monitor, without: noDepartures, optional: true},
		searchKind:      {opensearch: "indices:data/read/search on all indices", elasticsearch: "read on all indices", without: noProbes, optional: true},
	}
}

// account tells which rights sidestep's account lacks: by asking the engine where it
// answers that, else by making each kind of request once.
func (c *Checker) account(ctx context.Context, via *url.URL, s *cluster.Snapshot) []Finding {
	if s.Engine.Distribution == cluster.Elasticsearch {
		if found, known := c.privileges(ctx, via); known {
			return found
		}
	}
	return c.tried(ctx, via, s.Engine, sample(s))
}

// lacking does so where no engine was recognised: it may be the account that is in the way. If it is not,
// there is nothing to tell.
func (c *Checker) lacking(ctx context.Context, via *url.URL) []Finding {
	if found, known := c.privileges(ctx, via); known {
		return slices.DeleteFunc(found, func(f Finding) bool { return f.Level == OK })
	}
	var found []Finding
	questions := poll.Questions(cluster.Engine{}, "")
	for i, err := range c.asked(ctx, via, questions) {
		if no, ok := errors.AsType[*refusal](err); ok && no.forbidden() {
			found = append(found, lack(cluster.Engine{}, questions[i].Kind, no))
		}
	}
	return found
}

// asked asks all questions at once and returns how each was answered.
func (c *Checker) asked(ctx context.Context, via *url.URL, questions []poll.Question) []error {
	errs := make([]error, len(questions))
	var wg sync.WaitGroup
	for i, q := range questions {
		wg.Go(func() { errs[i] = c.ask.get(ctx, via, q.Path, nil) })
	}
	wg.Wait()
	return errs
}

// sample returns an index that is searched or could be; empty if none is known. It is no hidden one: the engines open
// these to few accounts.
func sample(s *cluster.Snapshot) string {
	for i := range s.Nodes {
		if shard, ok := s.AnyServed(i); ok && !shard.Hidden() {
			return shard.Index
		}
	}
	return ""
}

// privileges asks Elasticsearch; known is false where it has no security.
func (c *Checker) privileges(ctx context.Context, via *url.URL) (found []Finding, known bool) {
	var told struct {
		Cluster map[string]bool            `json:"cluster"`
		Index   map[string]map[string]bool `json:"index"`
	}
	err := c.ask.send(ctx, via, question{privilegesPath, privilegesBody}, &told)
	var no *refusal
	switch {
	case errors.As(err, &no) && no.unauthorized():
		return []Finding{{Problem, TopicAccount, "the cluster demands an account and refuses sidestep's: " + no.Error(), c.accountAdvice()}}, true
	case err != nil:
		return nil, false
	}
	lacks := func(level Level, privilege, without string) {
		found = append(found, Finding{level, TopicAccount, fmt.Sprintf("sidestep's account lacks %s: %s", privilege, without), grantElasticsearch + privilege})
	}
	if !told.Cluster["monitor"] {
		lacks(Problem, "monitor of the cluster", noNodes)
	}
	if on := told.Index["*"]; on != nil {
		if c.o.Counts && !on["monitor"] {
			lacks(Note, "monitor on all indices", noCounts)
		}
		if !on["view_index_metadata"] {
			lacks(Problem, "view_index_metadata on all indices", noTargets)
		}
		if !on["read"] {
			lacks(Note, "read on all indices", noProbes)
		}
	}
	if found == nil {
		return []Finding{{OK, TopicAccount, "sidestep's account has all the privileges that it needs", ""}}, true
	}
	return found, true
}

// tried makes a request of each kind and tells which are refused.
func (c *Checker) tried(ctx context.Context, via *url.URL, engine cluster.Engine, index string) []Finding {
	questions := slices.DeleteFunc(poll.Questions(engine, index), func(q poll.Question) bool { return q.Kind == countsKind && !c.o.Counts })
	if index != "" {
		questions = append(questions, poll.Question{Kind: searchKind, Path: url.PathEscape(index) + searchPath})
	}
	var all []Finding
	unanswered, whys := map[string][]string{}, []string{} // kinds by error, which are many alike where a node is busy
	for i, err := range c.asked(ctx, via, questions) {
		found, unexpected := c.judged(engine, questions[i], err)
		all = append(all, found...)
		if !unexpected {
			continue
		}
		why := err.Error()
		if unanswered[why] == nil {
			whys = append(whys, why)
		}
		unanswered[why] = append(unanswered[why], questions[i].Kind)
	}
	for _, why := range whys {
		kinds := unanswered[why]
		all = append(all, Finding{
			Note, TopicAccount, plural(len(kinds), "a request of the kind "+kinds[0]+" was", "requests of the kinds "+list(kinds)+" were") + " not answered as expected: " + why,
			"ask again; if it stays, look into the log of the node " + via.Host,
		})
	}
	if len(all) > 0 {
		return all
	}
	text := fmt.Sprintf("all %d kinds of requests that sidestep makes are answered", len(questions))
	if index == "" {
		text += "; those about an index could not be tried, as none is known that clients search"
	}
	return []Finding{{OK, TopicAccount, text, ""}}
}

// judged tells what the answer to a request says of the account; unexpected if it says nothing of it.
func (c *Checker) judged(engine cluster.Engine, q poll.Question, err error) (found []Finding, unexpected bool) {
	no, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		return nil, false
	case !refused:
		return nil, true
	case no.unauthorized():
		return []Finding{{Problem, TopicAccount, fmt.Sprintf("the cluster refuses sidestep's account (%s): %v", q.Kind, err), c.accountAdvice()}}, false
	case no.forbidden() && strings.Contains(no.body, "weighted routing"): // told with the settings
	case no.forbidden() && strings.Contains(no.body, "cluster_block_exception"): // nobody may
	case no.forbidden():
		return []Finding{lack(engine, q.Kind, no)}, false
	case no.indexGone(): // deleted since: the account was let through
	case q.Kind == "info" && no.status < http.StatusInternalServerError: // not every build of Elasticsearch serves GET /
	default:
		return nil, true
	}
	return nil, false
}

// lack tells which right a refused request needs. Where the engine is not known it is OpenSearch, as Elasticsearch tells
// of privileges itself.
func lack(engine cluster.Engine, kind string, no *refusal) Finding {
	needed := rights()[kind]
	level := Problem
	if needed.optional {
		level = Note
	}
	grant := grantOpenSearch + needed.opensearch
	if engine.Distribution == "elasticsearch" {
		grant = grantElasticsearch + needed.elasticsearch
	}
	what := kind
	if a := actionOf(no.body); a != "" {
		what += ", " + a
	}
	return Finding{level, TopicAccount, fmt.Sprintf("sidestep's account may not make requests of the kind %s: %s", what, needed.without), grant}
}
