package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/record"
	"sidestep/internal/selection"
	"sidestep/internal/selection/account"
)

// Question is a request that is explained without being sent.
type Question struct {
	Operation es.Operation // one of [ExplainedOperations]; empty: a search
	Target    string       // index expression, empty: all indices
	ID        string       // of the document, for reads by id
	Routing   string
	// Preference is a custom string of the client's, for affinity.
	Preference string
	// User and OpaqueID are what classes of admission are told by.
	User, OpaqueID string
}

// Explanation says what would be done with a request, and why.
type Explanation struct {
	Operation  es.Operation `json:"operation"`
	Target     string       `json:"target"`
	ID         string       `json:"id,omitempty"`
	Routing    string       `json:"routing,omitempty"`
	Preference string       `json:"preference,omitempty"` // that would be added
	// SentRouting is the routing as it would be sent, and RoutingResult the result of
	// widening it, if the target has logical shards; else both are empty.
	SentRouting   string `json:"sent_routing,omitempty"`
	RoutingResult string `json:"routing_result,omitempty"`
	Mode          Mode   `json:"mode"`
	// Steered says whether such a request would be rewritten, Reason why or why not,
	// Summary the same in words.
	Steered bool     `json:"steered"`
	Reason  string   `json:"reason"`
	Summary string   `json:"summary"`
	Nodes   []string `json:"nodes,omitempty"` // names of the set chosen; none where the reason is not the selection's
	Through
	// Exact is false while the routing is not resolved: then the shards include some that
	// the search will not touch.
	Exact bool `json:"exact"`
	// Decision holds the nodes with a copy, and the figures and the evidence of each;
	// null if there is nothing to decide.
	Decision *account.Account `json:"decision,omitempty"`
	// KeptOut is how many nodes are ejected for being slow or failing, and how many may
	// be.
	KeptOut selection.Bound    `json:"kept_out"`
	Shards  []ShardExplanation `json:"shards,omitempty"`
	// ShardsOmitted is how many shards there are beyond those shown.
	ShardsOmitted int `json:"shards_omitted,omitempty"`
	// Admission is nil while it is off, and where it does not concern the operation.
	Admission *AdmissionExplanation `json:"admission,omitempty"`
}

// ShardExplanation shows the copies of one shard.
type ShardExplanation struct {
	Index  string            `json:"index"`
	Shard  int               `json:"shard"`
	Copies []CopyExplanation `json:"copies"`
	// NotServing are the copies that cannot serve searches.
	NotServing []IdleCopy `json:"not_serving,omitempty"`
}

// CopyExplanation shows one copy that may serve.
type CopyExplanation struct {
	Node   string          `json:"node"`
	NodeID string          `json:"node_id"`
	State  string          `json:"state"` // of the node
	Rank   *float64        `json:"rank"`
	Parts  selection.Parts `json:"parts"`
	Listed bool            `json:"listed"`
	// Excluded says why the copy is not listed, or the evidence against its node.
	Excluded selection.Exclusion `json:"excluded,omitzero"`
}

// IdleCopy shows one copy that cannot serve searches.
type IdleCopy struct {
	Node   string `json:"node,omitempty"` // empty: on none
	NodeID string `json:"node_id,omitempty"`
	State  string `json:"state"` // of the copy, as the engine calls it
	Why    string `json:"why"`
}

// explainedPaths are the paths of the operations that can be explained, below the target;
// %s is an id.
var explainedPaths = map[es.Operation]string{
	es.Search: "/_search", es.SearchTemplate: "/_search/template", es.Count: "/_count", es.AsyncSearch: "/_async_search",
	es.PIT: "/_pit", es.MSearch: "/_search", es.MSearchTemplate: "/_search/template",
	es.Get: "/_doc/%s", es.Explain: "/_explain/%s", es.TermVectors: "/_termvectors/%s",
}

// ExplainedOperations returns the operations that can be explained, sorted: those that
// are steered, except those of which only the body tells what is read.
func ExplainedOperations() []string {
	var names []string
	for op := range explainedPaths {
		names = append(names, string(op))
	}
	slices.Sort(names)
	return names
}

// Explain decides about a request without sending it. An unknown target is looked up in
// the background: call again. The error says what is wrong with q.
func (p *Proxy) Explain(q Question) (Explanation, error) {
	x, err := p.exchangeFor(q)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{
		Operation: x.request.Operation, Target: q.Target, ID: q.ID, Routing: q.Routing, Mode: x.mode(),
		KeptOut: p.o.Selector.Bound(),
	}
	now := time.Now()
	if result := x.explainWidened(); result != "" {
		e.SentRouting, e.RoutingResult = x.request.Routing, string(result)
	}
	plan, unresolved := x.planFor(now)
	reason := cmp.Or(x.Reason, x.barred(now), unresolved)
	if x.plan = plan; plan != nil {
		p.explainDecision(&e, x, now)
	}
	e.Through = x.through(reason == "", now)
	if reason != "" { // so no list is made, and any node may get it
		x.ticket.Parts = nil
		e.Steered, e.Preference, e.Nodes, e.Reason = false, "", nil, reason
	}
	e.Admission = explainAdmission(x)
	e.Summary = p.summarize(e) + routingTexts[routedResult(e.RoutingResult)]
	return e, nil
}

// exchangeFor returns the exchange that q would be.
func (p *Proxy) exchangeFor(q Question) (*exchange, error) {
	if q.Operation == "" {
		q.Operation = es.Search
	}
	path, known := explainedPaths[q.Operation]
	if !known {
		return nil, fmt.Errorf("unknown operation %q, valid are %s", q.Operation, strings.Join(ExplainedOperations(), ", "))
	}
	byID := strings.Contains(path, "%s")
	switch {
	case byID && q.ID == "":
		return nil, fmt.Errorf("operation %s needs the id of a document", q.Operation)
	case !byID && q.ID != "":
		return nil, fmt.Errorf("operation %s takes no id: get, explain and termvectors do", q.Operation)
	}
	if byID {
		path = fmt.Sprintf(path, url.PathEscape(q.ID))
	}
	if q.Target != "" {
		path = "/" + url.PathEscape(q.Target) + path
	}
	query := url.Values{}
	for name, value := range map[string]string{"routing": q.Routing, "preference": q.Preference} {
		if value != "" {
			query.Set(name, value)
		}
	}
	method := http.MethodPost
	if q.Operation == es.Get {
		method = http.MethodGet
	}
	x := &exchange{p: p, r: &http.Request{Header: http.Header{}}, view: p.view.Load()}
	x.r.Header.Set("X-Opaque-Id", q.OpaqueID)
	if q.User != "" {
		x.r.SetBasicAuth(q.User, "")
	}
	x.Method, x.Path, x.Mode = method, path, string(p.Mode())
	request := es.Classify(method, path, query.Encode())
	request.Operation = q.Operation
	if request.Pass == es.PassUnreadableBody {
		request.Pass = es.PassNone // it depends on the body, which is assumed to allow steering
	}
	x.classifyAs(request, acceptance{lines: true})
	return x, nil
}

// planFor resolves the target, whether or not it is steered now. It is not searched for that.
func (x *exchange) planFor(now time.Time) (*cluster.Plan, string) {
	if x.request.Pass != es.PassNone {
		return nil, ""
	}
	return x.copiesAt(x.view.snapshot, now)
}

// maxExplained is how many candidates an explanation shows, and how many shards.
const maxExplained = 1000

// explainDecision tells what is decided about x.
func (p *Proxy) explainDecision(e *Explanation, x *exchange, now time.Time) {
	x.first, x.now = &try{x: x}, now
	d, request := &x.first.decision, x.selectionRequest(nil)
	p.o.Selector.Next(d, request, now)
	x.expect(d)
	if x.admitter != nil {
		x.goElsewhere(nil)
	}
	decided := account.Of(p.o.Selector, d, request, maxExplained, now)
	e.Decision = &decided
	e.Exact = x.plan.Exact
	e.Reason = string(d.Reason)
	e.Nodes = record.Names(d.Nodes)
	if e.Steered = x.mode() == ModeRoute && d.Reason.Lists(); e.Steered {
		e.Preference = es.SetPreference("", preference(d.Nodes, x.soft))
	}
	e.Shards = p.explainShards(x, d, now)
	e.ShardsOmitted = len(x.plan.Shards) - len(e.Shards)
}

func (p *Proxy) explainShards(x *exchange, d *selection.Decision, now time.Time) []ShardExplanation {
	views := account.Nodes(p.o.Selector, x.view.nodes, now)
	listed := map[string]bool{}
	for _, n := range d.Nodes {
		listed[n.ID] = true
	}
	shards := x.plan.Shards[:min(len(x.plan.Shards), maxExplained)]
	out := make([]ShardExplanation, len(shards))
	for i, copies := range shards {
		name := x.plan.Names[i]
		out[i] = ShardExplanation{Index: name.Index, Shard: name.Number, NotServing: idleCopies(x.view.snapshot, name)}
		for _, pos := range copies {
			v := views[pos]
			out[i].Copies = append(out[i].Copies, CopyExplanation{
				Node: v.Name, NodeID: v.ID, State: v.State, Rank: v.Rank, Parts: v.Parts, Listed: listed[v.ID],
				Excluded: p.o.Selector.Verdict(d, copies, pos),
			})
		}
	}
	return out
}

// idleCopies lists the copies of a shard that serve no searches.
func idleCopies(s *cluster.Snapshot, name cluster.ShardName) []IdleCopy {
	index, ok := s.Lookup(name.Index)
	if !ok {
		return nil
	}
	searchOnly := slices.ContainsFunc(index.Shards, func(shard cluster.Shard) bool {
		return slices.ContainsFunc(shard.Copies, func(c cluster.Copy) bool { return c.Kind == 's' })
	})
	var idle []IdleCopy
	for _, shard := range index.Shards {
		if shard.Number != name.Number {
			continue
		}
		for _, c := range shard.Copies {
			position, known := s.Position(c.Node)
			one := IdleCopy{NodeID: c.Node, State: string(c.State)}
			if known {
				one.Node = s.Nodes[position].Name
			}
			switch {
			case !c.Serving():
				one.Why = "a copy serves only while it is STARTED or RELOCATING"
			case searchOnly && c.Kind != 's':
				one.Why = "the index has search-only copies: the engine searches these alone"
			case !known:
				one.Why = "its node is not known yet"
			default:
				continue
			}
			idle = append(idle, one)
		}
	}
	return idle
}
