package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"

	"sidestep/test/harness"
)

type object = map[string]any

// generator makes one conversation by lot. The same seed and number make the same.
type generator struct {
	*rand.Rand
	number uint64
	engine string // the dialect: Elasticsearch and OpenSearch open points in time differently
	// churn limits it to reads that may be asked again.
	churn bool
	// ordered says that hits must come in a total order: their ranks will not be
	// seen, or pages of them are to be continued.
	ordered bool
	// careless has headers of an _msearch come in odd forms, which may corrupt all of it.
	careless bool
	// nowhere says that the request line of a bulk names no index: without one in an
	// operation the whole bulk is refused.
	nowhere bool
	missing string // the pipeline of operations that name one that there is not
}

// production is a rule of the grammar: an operation and how often it comes.
type production struct {
	operation string
	weight    int
	make      func(g *generator) conversation
	reads     bool // one step that changes nothing: fit for churn
}

// grammar holds the productions. Steerable operations come first and most.
func grammar() []production {
	return []production{
		{"search", 300, single((*generator).search), true},
		{"count", 70, single((*generator).count), true},
		{"msearch", 90, single((*generator).msearch), true},
		{"template", 30, single((*generator).template), true},
		{"msearch_template", 15, single((*generator).msearchTemplate), true},
		{"get", 60, single((*generator).get), true},
		{"source", 25, single((*generator).source), true},
		{"mget", 40, single((*generator).mget), true},
		{"explain", 25, single((*generator).explain), true},
		{"termvectors", 20, single((*generator).termVectors), true},
		{"mtermvectors", 15, single((*generator).mtermVectors), true},
		{"async_search", 8, single((*generator).async), false},
		{"scroll", 35, (*generator).scroll, false},
		{"pit", 35, (*generator).pit, false},
		{"search_shards", 12, single((*generator).searchShards), false},
		{"field_caps", 15, single((*generator).fieldCaps), true},
		{"validate", 15, single((*generator).validate), false},
		{"rank_eval", 6, single((*generator).rankEval), false},
		{"unsupported", 12, single((*generator).unsupported), false},
		{"cat", 25, single((*generator).cat), false},
		{"cluster", 20, single((*generator).clusterRead), false},
		{"write", 40, (*generator).write, false},
		{"bulk", 25, (*generator).bulk, false},
		{"by_query", 15, (*generator).byQuery, false},
		{"manage", 4, (*generator).manage, false},
		{"malformed", 40, single((*generator).malformed), false},
		{"method", 30, single((*generator).method), false},
	}
}

// single makes a rule for one request into one for a conversation.
func single(one func(g *generator) request) func(g *generator) conversation {
	return func(g *generator) conversation { return conversation{steps: []request{one(g)}} }
}

// generate returns the conversation of this number.
func generate(seed, number uint64, distribution string, churn bool) conversation {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, number)), number: number, engine: distribution, churn: churn}
	rules, sum := grammar(), 0
	for _, p := range rules {
		if !churn || p.reads {
			sum += p.weight
		}
	}
	lot := g.IntN(sum)
	for _, p := range rules {
		if churn && !p.reads {
			continue
		}
		if lot -= p.weight; lot < 0 {
			c := p.make(g)
			c.number = number
			for i := range c.steps {
				if c.steps[i].operation == "" {
					c.steps[i].operation = p.operation
				}
			}
			return c
		}
	}
	panic("the weights do not add up")
}

// one reports true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// pick returns one of the values.
func (g *generator) pick(values ...string) string { return values[g.IntN(len(values))] }

func (g *generator) word() string { return g.pick(harness.Words()...) }

func (g *generator) category() string { return g.pick(harness.Words()[:harness.Categories]...) }

// plainTargets exist and can be searched.
func plainTargets() []string {
	return []string{
		"products", "products", "products", "products", "single", "single", "routed", "logs-1", "logs-2",
		"logs-1,logs-2", "products,single", "logs-*", "logs-*", "prod*", "catalog", "cheap", "all-logs", "alphas",
		"mixed", "twice", "stream", "lonely", "empty", "logs-*,-logs-2", "%3Cday-%7Bnow%2Fd%7D%3E",
		"%3Cday-%7Bnow%2Fd-1d%7D%3E,products", "<day-{now/d}>", "_all", "*", "*,-products",
	}
}

// oddTargets are missing, closed, hidden, remote, or written in an odd way.
func oddTargets() []string {
	return []string{
		"ghost", "ghost*", "ghost,products", "products,ghost*", "closed", "closed,products", "clo*", "gone-alias", ".concealed",
		".conc*", "remote:products", "*:products", "products,products", "%70roducts", "products%2Clogs-1", "Products",
		"_nonsense", "-products", "products,-products", "%20products", "products,", ",", "logs%2A", "day-*", "str*", "-*",
		"%3Cday-%7Bnow%2Fd%7Byyyy.MM.dd%7C%2B01%3A00%7D%7D%3E", "%3Cday-%7Bnow%2F%7D%3E", ".ds-stream*", "mine-*",
	}
}

// target returns an index expression, "" for none.
func (g *generator) target() string {
	switch {
	case g.churn && g.one(4):
		return g.pick("switch", "switch", "churn-*", "churn-*,products", "*")
	case g.one(8):
		return g.pick(oddTargets()...)
	case g.one(25):
		return ""
	}
	return g.pick(plainTargets()...)
}

// below returns /target/path, or /path without a target.
func below(target, path string) string {
	if target == "" {
		return "/" + path
	}
	return "/" + target + "/" + path
}

// id returns the id of a document, which is its number; now and then of none.
func (g *generator) id() string {
	if g.one(10) {
		return g.pick("ghost", "-1", "99999999", "%2F", "a%20b", "%25", "1,2", "%E2%82%AC", "_search")
	}
	return strconv.Itoa(g.IntN(300))
}

// encode returns the JSON of a value that can be encoded.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %v: %v", v, err))
	}
	return string(text)
}

// withJSON gives a request a body.
func withJSON(r request, body any) request {
	r.body = encode(body)
	r.set("Content-Type", "application/json")
	return r
}
