package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// bulkExplanation is the answer of /explain about a bulk, as far as it is shown.
type bulkExplanation struct {
	Index   string  `json:"index"`
	Mode    string  `json:"mode"`
	Planned bool    `json:"planned"`
	Reason  string  `json:"reason"`
	Summary string  `json:"summary"`
	Choice  string  `json:"choice"`
	Skew    float64 `json:"skew"`
	MaxSkew float64 `json:"max_skew"`
	Shards  []struct {
		Shard       int      `json:"shard"`
		Routing     string   `json:"routing"`
		Documents   int64    `json:"documents"`
		Outstanding int      `json:"outstanding"`
		Level       float64  `json:"level"`
		Full        bool     `json:"full"`
		Chance      float64  `json:"chance"`
		PerDocument *float64 `json:"per_document_ms"`
		Avoided     []string `json:"avoided"`
		Through     string   `json:"through"` // empty: any node
		Copies      []struct {
			Node string `json:"node"`
		} `json:"copies"`
	} `json:"shards"`
}

// printBulk prints what would be done with a bulk.
func (c *Client) printBulk(raw json.RawMessage, out io.Writer) error {
	var e bulkExplanation
	if err := c.read(raw, &e); err != nil {
		return err
	}
	verdict := "passes as the client wrote it"
	switch {
	case e.Planned:
		verdict = "goes to one shard"
	case e.Reason == "observe":
		verdict = "would go to one shard, but for mode observe"
	}
	printf(out, "a bulk on %s %s (%s)", e.Index, verdict, e.Reason)
	printf(out, "%s", e.Summary)
	printf(out, "mode %s", e.Mode)
	if len(e.Shards) == 0 {
		return nil
	}
	printf(out, "choice %s, skew %.2f of at most %.2f\n", e.Choice, e.Skew, e.MaxSkew)
	g := newGrid(out, "SHARD", "COPIES ON", "THROUGH", "ROUTING", "DOCUMENTS", "LEVEL", "OUT", "MS/DOC", "CHANCE", "AVOIDED")
	for _, s := range e.Shards {
		var nodes []string
		for _, c := range s.Copies {
			nodes = append(nodes, cmp.Or(c.Node, noNode))
		}
		why := strings.Join(s.Avoided, "; ")
		if s.Full {
			why = strings.TrimPrefix(why+"; has as much as it may have", "; ")
		}
		g.row(fmt.Sprint(s.Shard), strings.Join(nodes, ", "), cmp.Or(s.Through, "any"), s.Routing, fmt.Sprint(s.Documents), fmt.Sprintf("%.2f", s.Level),
			fmt.Sprint(s.Outstanding), optional(s.PerDocument, func(ms float64) string { return fmt.Sprintf("%.3f", ms) }),
			fmt.Sprintf("%.0f%%", 100*s.Chance), why)
	}
	g.flush()
	return nil
}
