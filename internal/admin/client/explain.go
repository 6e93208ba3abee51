package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

const (
	// learnFor is how long a target that is new to sidestep is asked about again, every
	// learnPause.
	learnFor   = 3 * time.Second
	learnPause = 200 * time.Millisecond
)

// explanation is the answer of /explain, as far as it is shown.
type explanation struct {
	Target        string   `json:"target"`
	Routing       string   `json:"routing"`
	Mode          string   `json:"mode"`
	Steered       bool     `json:"steered"`
	Reason        string   `json:"reason"`
	Summary       string   `json:"summary"`
	Preference    string   `json:"preference"`
	Nodes         []string `json:"nodes"`
	Coordinator   string   `json:"coordinator"`
	Coordinators  []string `json:"coordinators"` // that take turns
	Exact         bool     `json:"exact"`
	ShardsOmitted int      `json:"shards_omitted"`
	Shards        []struct {
		Index  string      `json:"index"`
		Shard  int         `json:"shard"`
		Copies []shardCopy `json:"copies"`
		// NotServing are the copies that are not considered.
		NotServing []struct {
			Node  string `json:"node"`
			State string `json:"state"`
			Why   string `json:"why"`
		} `json:"not_serving"`
	} `json:"shards"`
	Admission *struct {
		Mode    string `json:"mode"`
		Class   string `json:"class"`
		Summary string `json:"summary"`
	} `json:"admission"` // nil while it is off
	Spikes []spike `json:"spikes"` // of nodes with a copy, that last or ended lately
}

// shardCopy is one copy of a shard and what is known of its node.
type shardCopy struct {
	Node     string   `json:"node"`
	State    string   `json:"state"`
	Rank     *float64 `json:"rank"`
	Parts    parts    `json:"parts"`
	Listed   bool     `json:"listed"`
	Excluded string   `json:"excluded"`
}

// Question is a search that is asked about, or a bulk: then Target is an index.
type Question struct {
	Target, Routing string
	Bulk            bool
}

// Explain prints what would be done with a search or a bulk. A target that is new to
// sidestep is asked about until it was learned, for a few seconds.
func Explain(ctx context.Context, c *Client, out io.Writer, f Format, q Question) error {
	query := url.Values{"target": {q.Target}}
	if q.Bulk {
		query = url.Values{"bulk": {q.Target}}
	}
	if q.Routing != "" {
		query.Set("routing", q.Routing)
	}
	asked := time.Now()
	for {
		var e explanation
		raw, err := c.ask(ctx, question{path: "explain", query: query}, &e)
		if err != nil {
			return err
		}
		learning := e.Reason == "unknown_target" || q.Bulk && e.Reason == "unknown" || q.Routing != "" && len(e.Shards) > 0 && !e.Exact
		if learning && time.Since(asked) < learnFor {
			select {
			case <-time.After(learnPause):
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if f == JSON {
			return indented(out, raw)
		}
		if q.Bulk {
			return c.printBulk(raw, out)
		}
		e.print(out)
		return nil
	}
}

func (e explanation) print(out io.Writer) {
	what := "a search on " + cmp.Or(e.Target, "all indices")
	if e.Routing != "" {
		what += " with routing " + e.Routing
	}
	verdict := "passes as the client wrote it"
	switch {
	case e.Steered:
		verdict = "is steered"
	case names(e.Reason):
		verdict = "would be steered, but for mode " + e.Mode
	case left(e.Reason):
		verdict = "is left to the engine"
	}
	printf(out, "%s %s (%s)", what, verdict, e.Reason)
	if e.Summary != "" {
		printf(out, "%s", e.Summary)
	}
	printf(out, "mode %s", e.Mode)
	if e.Steered {
		preference, err := url.QueryUnescape(e.Preference)
		if err != nil {
			preference = e.Preference
		}
		printf(out, "%s", preference)
	}
	if len(e.Nodes) > 0 && e.lists() {
		printf(out, "nodes: %s", strings.Join(e.Nodes, ", "))
	}
	if through := cmp.Or(e.Coordinator, strings.Join(e.Coordinators, ", ")); through != "" && e.Steered {
		printf(out, "sent through: %s", through)
	}
	if a := e.Admission; a != nil {
		printf(out, "admission %s, class %s: %s", a.Mode, a.Class, a.Summary)
	}
	for _, s := range e.Spikes {
		verb := "is"
		if s.Ended != nil {
			verb = "was"
		}
		printf(out, "%s %s in trouble (%s): %s", s.Node, verb, s.Cause, s.Summary)
	}
	if len(e.Shards) == 0 {
		return
	}
	if !e.Exact && e.Routing != "" {
		printf(out, "the routing is not resolved yet: more shards are shown than will be searched")
	}
	fmt.Fprintln(out)
	e.table(out)
	printf(out, "\ntimes in ms; rank: lower is better, (1 + outstanding + queue) · service")
}

// names reports whether a decision for this reason names nodes.
func names(reason string) bool {
	switch reason {
	case "ranked", "affinity", "no_statistics", "fail_open":
		return true
	}
	return false
}

// left reports whether the choice was left to the engine's own selection for the reason.
func left(reason string) bool { return reason == "no_outlier" || reason == "no_gain" }

func (e explanation) table(out io.Writer) {
	g := newGrid(out, "SHARD", "COPY ON", "STATE", "RANK", "RESPONSE", "SERVICE", "QUEUE", "OUT", "CHOSEN")
	for _, shard := range e.Shards {
		name := fmt.Sprintf("%s[%d]", shard.Index, shard.Shard)
		for _, c := range shard.Copies {
			cells := []string{name, c.Node, c.State, optional(c.Rank, figure)}
			for _, part := range []float64{c.Parts.ResponseTime, c.Parts.ServiceTime, c.Parts.Queue, c.Parts.Outstanding} {
				cells = append(cells, measured(c.Rank, part))
			}
			g.row(append(cells, c.chosen(e.lists()))...)
			name = ""
		}
		for _, c := range shard.NotServing {
			g.row(name, cmp.Or(c.Node, noNode), c.State, "", "", "", "", "", "no: "+c.Why)
			name = ""
		}
	}
	g.flush()
	if e.ShardsOmitted > 0 {
		printf(out, "… and %d more: a target of fewer indices shows all of its shards", e.ShardsOmitted)
	}
}

// lists reports whether a list of nodes is made, or would be in mode route.
func (e explanation) lists() bool { return e.Steered || names(e.Reason) }

// chosen says whether the copy is listed, and why not. Where no list is made the engine chooses.
func (c shardCopy) chosen(listing bool) string {
	switch {
	case !listing:
		return "by the engine"
	case c.Listed && c.Excluded != "":
		return "yes, though " + c.Excluded
	case c.Listed:
		return "yes"
	case c.Excluded != "":
		return "no: " + c.Excluded
	case c.State != "fine":
		return "no: " + c.State
	}
	return "no"
}

// noNode is where a copy is that is not assigned.
const noNode = "no node"

// indented prints JSON indented, and otherwise as it came.
func indented(out io.Writer, raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, strings.TrimSpace(printableJSON(b.Bytes())))
	return err
}
