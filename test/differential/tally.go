package main

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"sidestep/test/harness"
)

// tally counts what came of the conversations.
type tally struct {
	requests, differences, varied int
	operations                    map[string]*operationTally
}

// operationTally counts the requests of one operation.
type operationTally struct {
	requests, differences, varied int
	// halves count what sidestep did with the requests that could be steered:
	// always, by default.
	halves [2]half
}

// half counts, of the requests that the engine takes a preference for and answers
// well, those that were steered, and the reasons of the others.
type half struct {
	steerable, steered int
	reasons            map[string]int
}

func newTally() *tally { return &tally{operations: map[string]*operationTally{}} }

func (t *tally) operation(name string) *operationTally {
	o := t.operations[name]
	if o == nil {
		o = &operationTally{}
		for i := range o.halves {
			o.halves[i].reasons = map[string]int{}
		}
		t.operations[name] = o
	}
	return o
}

// add counts a verdict.
func (t *tally) add(v verdict) {
	for i, r := range v.conversation.steps {
		t.requests++
		o := t.operation(r.operation)
		o.requests++
		if acceptsPreference(r) && v.direct[i].status == http.StatusOK {
			o.halves[v.conversation.number%2].add(v.through[i].decision)
		}
	}
	o := t.operation(v.conversation.steps[v.step].operation)
	if v.varied {
		t.varied++
		o.varied++
	}
	if v.how != "" {
		t.differences++
		o.differences++
	}
}

func (h *half) add(decision string) {
	h.steerable++
	reason := reasonOf(decision)
	if slices.Contains(steeredReasons(), reason) {
		h.steered++
		return
	}
	h.reasons[reason]++
}

// steeredReasons are those with which nodes were listed.
func steeredReasons() []string { return []string{"ranked", "affinity", "fail_open", "no_statistics"} }

// reasonOf reads the reason out of what sidestep says of itself.
func reasonOf(decision string) string {
	return cmp.Or(harness.ParseDecision(decision).Reason, "none given")
}

// acceptsPreference reports whether the engines take a preference for requests like
// this: as a parameter, or in the header lines of its body.
func acceptsPreference(r request) bool {
	switch r.operation {
	case "search", "count", "msearch", "template", "msearch_template", "get", "source", "mget", "explain", "termvectors", "mtermvectors",
		"async_search", "scroll_open", "pit_open":
		return true
	}
	return false
}

// names returns the operations in order.
func (t *tally) names() []string { return slices.Sorted(maps.Keys(t.operations)) }
