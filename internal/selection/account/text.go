package account

import (
	"fmt"
	"strings"
	"time"

	"sidestep/internal/selection"
)

// why says in words what speaks against a candidate, empty if nothing does.
func (about subject) why(c *Candidate) string {
	var text string
	f := about.s.Figures(c.Node, about.now)
	switch c.Excluded {
	case selection.NotExcluded:
		return ""
	case selection.GoneUnreachable:
		text = "its last connection was refused or reset, or something else answered" + evidence(f)
	case selection.FailedBefore:
		text = "it failed this very search before, or had no room for it"
	case selection.KeptSlow, selection.KeptFailing:
		text = "kept out" + evidence(f)
	case selection.NotItsTurn:
		text = fmt.Sprintf("it is coming back%s: its share grows within %.0f s, and this search is not in it", evidence(f), selection.SlowStart.Seconds())
	case selection.Suspected:
		if text = "its last probe took far longer than those of its peers, sent in the same moment, or it is silent while they answer"; f.State == selection.Busy.String() {
			text = "it is busy" + evidence(f)
		}
	case selection.Leaving:
		text = leaving(f)
	case selection.Needed:
		out := "to be left out"
		if f.State == selection.Slow.String() || f.State == selection.Failing.String() {
			out = "ejected"
		}
		text = out + evidence(f) + ", but the others have more than they can carry, so it carries some"
	case selection.OverLimit:
		limit, _ := about.d.Limit()
		text = fmt.Sprintf("response time %.1f ms, %.1f ms without the wait in its queue, is above the limit of %.1f ms: its probes are compared with those of its peers",
			c.ResponseTime, c.Unqueued, limit)
	case selection.OtherZone:
		text = "the shard has a copy in the own zone, and this one does not rank better by routing.zone.factor"
	case selection.OtherSticks:
		text = "affinity names another copy of the shard"
	case selection.RanksWorse:
		text = "another copy of the shard ranks better"
	}
	switch {
	case !c.Listed || !c.Excluded.KeepsOut():
	case about.d.Reason.Left() && (c.Excluded == selection.KeptFailing || c.Excluded == selection.GoneUnreachable):
		text += "; left to the engine all the same: it fails at once, and the next copy is asked. It coordinates nothing"
	case about.d.Reason.Left():
		text += "; left to the engine all the same, as a list would be no better"
	default:
		text += "; listed all the same, as a shard has no other copy that is better"
	}
	return text
}

// leaving says who said that a node is about to leave.
func leaving(f selection.Figures) string {
	switch f.Leaving {
	case selection.Drained:
		return "an operator said that it is about to leave (sidestep drain), until " + f.LeavingUntil.UTC().Format(time.TimeOnly) + " UTC"
	case "drained_at_relay":
		return "an operator told the relay that it is about to leave (sidestep drain)"
	case "excluded":
		return "it is about to leave: the cluster excludes it from allocation"
	case "decommissioned":
		return "it is about to leave: the cluster decommissions its zone"
	}
	return "it is about to leave: the cluster is told of its " + f.Leaving
}

// evidence says what a node is known by to be in its state.
func evidence(f selection.Figures) string {
	if f.Why != "" {
		return " (" + f.Why + ")"
	}
	return ""
}

// summary says in words what was decided and why.
func (about subject) summary(a Account) string {
	switch a.Reason {
	case selection.NoChoice:
		return "There is nothing to choose: every shard has one copy that serves."
	case selection.NoOutlier:
		return "Left to the engine's own selection: " + a.calm() + ". " + a.nearest()
	case selection.NoGain:
		return "Left to the engine's own selection: " + a.noGain()
	case selection.Overloaded:
		return "Left as it is: all copies of some shard are on nodes that reject searches, as their queues are full. No list can help, and nothing is sent twice."
	case selection.NoStatistics:
		return "No service time is known of any node with a copy yet, so all are equal. " + a.keptOut()
	case selection.FailOpen:
		return "Every copy of some shard is on a node that should be kept out, so all its copies are listed. " + a.keptOut()
	case selection.Affinity:
		return "The copies that the preference string, or the target, sticks to are listed. " + a.keptOut()
	}
	if about.req.OneShard() && !about.d.Expects() {
		return "One shard is searched, so its best copy is named: " + a.best() + "."
	}
	return fmt.Sprintf("%d of %d nodes with a copy are listed, %s. %s", len(about.d.Nodes), len(about.nodes), about.occasion(), a.keptOut())
}

// occasion says why nodes are listed at all rather than the engine let choose.
func (about subject) occasion() string {
	switch {
	case about.d.Expects():
		return "as a node that has left is expected back, or one that has joined is expected to get copies, and would be cold"
	case len(about.req.Avoid) > 0:
		return "as an attempt at this search failed"
	case !about.req.Outliers:
		return "as such requests always are"
	case about.req.Sticky:
		return "as the target sticks to its copies"
	case about.d.Zoned():
		return "as the engine does not know sidestep's own zone"
	}
	for _, n := range about.nodes {
		if n.Excluded.KeepsOut() && !n.Listed {
			return "as " + n.Name + " is to be kept out"
		}
	}
	return "as copies differ"
}

// calm says why the engine may choose while no node stands out.
func (a Account) calm() string {
	for _, c := range a.Candidates {
		if c.Excluded == selection.KeptFailing {
			return "nobody is slow, and where " + c.Name + " fails, at once, the next copy is asked"
		}
	}
	return "no node stands out"
}

// noGain says why the engine may choose although a node stands out.
func (a Account) noGain() string {
	for _, c := range a.Candidates {
		if c.Excluded.KeepsOut() && c.Excluded != selection.KeptFailing && c.Excluded != selection.GoneUnreachable {
			return c.Name + " should be kept out, but a list would be no better: it would have to use this node, or another slow one, or nodes with long queues, and the engine uses those less, for each shard."
		}
	}
	return "no list would be better."
}

// nearest names the candidate that is nearest to the limit.
func (a Account) nearest() string {
	if a.Limit == nil {
		return "Nothing is measured yet, so none can."
	}
	worst := -1
	for i, c := range a.Candidates {
		if c.Measured && (worst < 0 || c.Unqueued > a.Candidates[worst].Unqueued) {
			worst = i
		}
	}
	rule := fmt.Sprintf("A node is suspect from %.1f ms on (%d × the median of %.1f ms + %.0f ms; without the wait in its own queue).",
		*a.Limit, selection.FarFactor, *a.Median, selection.SlowSlack)
	if worst < 0 {
		return rule
	}
	return fmt.Sprintf("%s The slowest is %s with %.1f ms.", rule, a.Candidates[worst].Name, a.Candidates[worst].Unqueued)
}

// best names the copy of one shard that is listed and the best of the others.
func (a Account) best() string {
	var listed, next *Candidate
	for i := range a.Candidates {
		c := &a.Candidates[i]
		switch {
		case c.Listed:
			listed = c
		case !c.Listed && (next == nil || c.Rank < next.Rank):
			next = c
		}
	}
	text := fmt.Sprintf("%s, rank %.1f", listed.Name, listed.Rank)
	if next == nil {
		return text
	}
	return fmt.Sprintf("%s; %s has %.1f: %s", text, next.Name, next.Rank, next.Why)
}

// maxNamed is how many nodes a summary names.
const maxNamed = 5

// keptOut names the candidates that are not listed for a reason of their own.
func (a Account) keptOut() string {
	var left, needed []string
	for _, c := range a.Candidates {
		switch {
		case !c.Excluded.KeepsOut():
		case c.Listed:
			needed = append(needed, c.Name)
		default:
			left = append(left, c.Name+": "+c.Why)
		}
	}
	text := "No node is left out."
	switch {
	case len(left) > maxNamed:
		text = fmt.Sprintf("Left out are %d nodes, such as %s.", len(left), left[0])
	case len(left) > 0:
		text = "Left out: " + strings.Join(left, "; ") + "."
	}
	if len(needed) > 0 {
		text += fmt.Sprintf(" Listed all the same, as no other copy of some shard is any better: %s.", strings.Join(needed[:min(maxNamed, len(needed))], ", "))
	}
	return text
}
