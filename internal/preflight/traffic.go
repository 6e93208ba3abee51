package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

const (
	// maxReasons bounds how many reasons for passing are told.
	maxReasons = 5
	// grave is the share of requests from which on a reason that means trouble is
	// a problem: some pass at every start.
	grave = 0.05
	// learning is how many requests there must be before shares mean anything.
	learning = 20
)

// traffic tells how much of what passes is steered, or would be, and why not the
// rest.
func traffic(facts Facts) []Finding {
	found := mode(facts.Mode)
	if facts.Sniffed > 0 {
		found = append(found, Finding{
			Problem, TopicTraffic, fmt.Sprintf("clients asked %s for the nodes' own addresses: they go around sidestep", plural(int(facts.Sniffed), "once", "%d times")),
			"switch sniffing off in the clients, or set clients.sniff to rewrite",
		})
	}
	t := tally(facts)
	if t.can == 0 {
		return append(found, Finding{Note, TopicTraffic, "no search has passed yet", "point an application at sidestep, and ask again"})
	}
	left := t.reasons["no_outlier"] + t.reasons["no_gain"]
	found = append(found, Finding{OK, TopicTraffic, fmt.Sprintf(
		"of %d searches and reads %s %s, %s %s left to the engine as no list would be better, %s passed for other reasons; %d requests of other kinds",
		t.can, percent(t.steered, t.can), t.verb, percent(left, t.can), t.were, percent(t.can-t.steered-left, t.can), t.other), ""})
	return append(found, t.passed()...)
}

func mode(mode string) []Finding {
	switch mode {
	case "observe":
		return []Finding{{Note, TopicTraffic, "mode observe: decisions are made and counted, requests pass unchanged", "switch to route when the counters please"}}
	case "off":
		return []Finding{{Note, TopicTraffic, "mode off: every request passes unchanged", "switch to observe or route"}}
	}
	return nil
}

// totals are requests as far as they can be steered.
type totals struct {
	can, steered, other int64
	reasons             map[string]int64 // why those that were not
	verb, were          string
}

// tally puts what was only observed in place of the reason observe.
func tally(facts Facts) totals {
	t := totals{reasons: map[string]int64{}, verb: "were steered", were: "were"}
	all := maps.Clone(facts.Decisions)
	switch {
	case facts.Mode == "observe":
		t.verb, t.were = "would be steered", "would be"
	case len(facts.Observed) > 0: // before somebody switched
		t.verb, t.were = "were or would have been steered", "were or would have been"
	}
	if len(facts.Observed) > 0 {
		delete(all, "observe")
		for reason, n := range facts.Observed {
			all[reason] += n
		}
	}
	for reason, n := range all {
		switch {
		case reason == "not_steerable", reason == "one_shard", reason == "one_slot": // the last two are bulks
			t.other += n
			continue
		case steers(reason):
			t.steered += n
		default:
			t.reasons[reason] += n
		}
		t.can += n
	}
	return t
}

// steers reports whether a decision for this reason names nodes.
func steers(reason string) bool {
	switch reason {
	case "ranked", "no_statistics", "fail_open", "affinity":
		return true
	}
	return false
}

// passed tells the most frequent reasons for passing.
func (t totals) passed() []Finding {
	var found []Finding
	reasons := slices.SortedFunc(maps.Keys(t.reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.reasons[b], t.reasons[a]), cmp.Compare(a, b))
	})
	for _, reason := range reasons {
		n := t.reasons[reason]
		if reason == "no_outlier" || reason == "mode_off" || reason == "client_gone" || n == 0 {
			continue
		}
		if len(found) == maxReasons {
			break
		}
		level, why := Note, explanations()[reason]
		if why.trouble && t.can >= learning && float64(n) > grave*float64(t.can) {
			level = Problem
		}
		what := "passed"
		if reason == "no_gain" {
			what = "left to the engine"
		}
		found = append(found, Finding{level, TopicTraffic, fmt.Sprintf("%s %s (%s): %s", percent(n, t.can), what, reason, cmp.Or(why.means, "for this reason")), why.advice})
	}
	return found
}
