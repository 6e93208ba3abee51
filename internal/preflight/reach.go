package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"sidestep/internal/cluster"
)

const (
	// maxAddresses bounds how many nodes are tried, and how many at once.
	maxAddresses = 64
	atOnce       = 32
	// maxNamed bounds how many are named in a finding.
	maxNamed = 5

	whoPath = "_nodes/_local/http?filter_path=nodes.*.name"
)

// reached is what answers.
type reached struct {
	// via is an address that answers, nil if none does.
	via      *url.URL
	findings []Finding
}

// reach asks every address that was given, and every node at the address that it
// publishes.
func (c *Checker) reach(ctx context.Context, facts Facts) reached {
	var nodes []*cluster.Node
	if facts.Snapshot != nil && !c.o.Static {
		nodes = facts.Snapshot.Nodes
	}
	total := len(nodes)
	nodes = nodes[:min(total, maxAddresses)]
	seedErrs, nodeErrs := make([]error, len(c.o.Seeds)), make([]error, len(nodes))
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	try := func(into *error, f func() error) {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			*into = f()
		})
	}
	for i, u := range c.o.Seeds {
		try(&seedErrs[i], func() error { return c.ask.get(ctx, u, "", nil) })
	}
	for i, n := range nodes {
		try(&nodeErrs[i], func() error { return c.who(ctx, n) })
	}
	wg.Wait()
	r := reached{findings: c.seeds(seedErrs)}
	for i, n := range nodes {
		if r.via == nil && nodeErrs[i] == nil {
			r.via = n.URL
		}
	}
	for i, u := range c.o.Seeds {
		if r.via == nil && answered(seedErrs[i]) {
			r.via = u
		}
	}
	r.findings = append(r.findings, addresses(nodes, nodeErrs, total)...)
	return r
}

// answered reports whether something that may be an engine answered. A gateway that reaches none says so with an error of a server.
func answered(err error) bool {
	no, refused := errors.AsType[*refusal](err)
	return err == nil || refused && no.status < http.StatusInternalServerError
}

// seeds tells which of the addresses given answer.
func (c *Checker) seeds(errs []error) []Finding {
	var silent []string
	var refused error
	for i, err := range errs {
		if no, ok := errors.AsType[*refusal](err); ok && no.unauthorized() {
			refused = err
		}
		if !answered(err) {
			silent = append(silent, fmt.Sprintf("%s (%v)", c.o.Seeds[i].Redacted(), err))
		}
	}
	const advice = "look at upstream.urls, at firewalls in between, and whether the nodes listen there (network.host, http.port)"
	switch {
	case len(silent) == len(errs):
		return []Finding{{Problem, TopicCluster, "no address of upstream.urls answers: " + list(silent), advice}}
	case refused != nil:
		return []Finding{{Problem, TopicAccount, "the cluster demands an account and refuses sidestep's: " + refused.Error(), c.accountAdvice()}}
	case len(silent) > 0:
		return []Finding{{Note, TopicCluster, fmt.Sprintf("%d of the %d addresses of upstream.urls do not answer: %s", len(silent), len(errs), list(silent)), advice}}
	}
	return []Finding{{OK, TopicCluster, plural(len(errs), "the address", "all %d addresses") + " of upstream.urls " + plural(len(errs), "answers", "answer"), ""}}
}

func (c *Checker) accountAdvice() string {
	if c.o.Account {
		return "the account of upstream.auth is not known there, or its secret is another by now"
	}
	return "give sidestep an account of its own: upstream.auth"
}

// errElsewhere is what is found where another node answers.
type errElsewhere struct{ name string }

func (e errElsewhere) Error() string { return e.name + " answers there" }

// who asks for the node at the address that n publishes.
func (c *Checker) who(ctx context.Context, n *cluster.Node) error {
	if n.URL == nil {
		return errors.New("it publishes no address for HTTP")
	}
	var told struct {
		Nodes map[string]struct {
			Name string `json:"name"`
		} `json:"nodes"`
	}
	err := c.ask.get(ctx, n.URL, whoPath, &told)
	if no, ok := errors.AsType[*refusal](err); ok && (no.unauthorized() || no.forbidden()) {
		return nil // reached; what the account may is told elsewhere
	}
	if err != nil {
		return err
	}
	for id, found := range told.Nodes {
		if id != n.ID {
			return errElsewhere{found.Name}
		}
	}
	return nil
}

// addresses tells which nodes are not where they say.
func addresses(nodes []*cluster.Node, errs []error, total int) []Finding {
	if len(nodes) == 0 {
		return nil
	}
	var silent, elsewhere, aside []string
	for i, err := range errs {
		var other errElsewhere
		text := nodes[i].Name
		if u := nodes[i].URL; u != nil {
			text += " at " + u.Host
		}
		switch {
		case errors.As(err, &other):
			elsewhere = append(elsewhere, text+": "+err.Error())
		case err != nil && !nodes[i].Coordinating():
			aside = append(aside, text+": "+err.Error())
		case err != nil:
			silent = append(silent, text+": "+err.Error())
		}
	}
	var found []Finding
	if len(silent) > 0 {
		found = append(found, Finding{
			Problem, TopicNodes,
			fmt.Sprintf("%d of %s not answer at the address that %s: %s", len(silent), plural(len(nodes), "1 node does", "%d nodes do"), plural(len(silent), "it publishes", "they publish"), list(silent)),
			"sidestep measures nodes and sends searches there: start what is down, open the way, set http.publish_host on the nodes, or upstream.discovery to static",
		})
	}
	if len(elsewhere) > 0 {
		found = append(found, Finding{
			Problem, TopicNodes, "published addresses lead to other nodes: " + list(elsewhere),
			"several nodes share an address, as behind a load balancer: set http.publish_host on the nodes, or upstream.discovery to static",
		})
	}
	if len(aside) > 0 {
		found = append(found, Finding{
			Note, TopicNodes, "nodes that are sent no searches do not answer at the address that they publish: " + list(aside),
			"as dedicated managers they are asked about the cluster in turn with the others: open the way, or leave it",
		})
	}
	if len(silent)+len(elsewhere) > 0 || len(aside) == len(nodes) {
		return found
	}
	text := plural(len(nodes), "the node answers at the address that it publishes", "all %d nodes answer at the addresses that they publish")
	switch {
	case total > len(nodes):
		text = fmt.Sprintf("of %d nodes %d of the %d that were tried answer at the addresses that they publish", total, len(nodes)-len(aside), len(nodes))
	case len(aside) > 0:
		text = plural(len(nodes)-len(aside), "the other node answers at the address that it publishes", "the other %d nodes answer at the addresses that they publish")
	}
	return append(found, Finding{OK, TopicNodes, text, ""})
}
