package client

import (
	"context"
	"io"
)

// report is the answer of /check.
type report struct {
	Took     float64 `json:"took_ms"`
	Level    string  `json:"level"`
	Findings []struct {
		Level  string `json:"level"`
		Topic  string `json:"topic"`
		Text   string `json:"text"`
		Advice string `json:"advice"`
	} `json:"findings"`
}

// Check has sidestep look at its cluster and prints what it found. problem says
// whether there is one.
func Check(ctx context.Context, c *Client, out io.Writer, f Format) (problem bool, err error) {
	var r report
	raw, err := c.ask(ctx, question{path: "check"}, &r)
	if err != nil {
		return false, err
	}
	problem = r.Level == "problem"
	if f == JSON {
		return problem, indented(out, raw)
	}
	r.print(out)
	return problem, nil
}

func (r report) print(out io.Writer) {
	count := map[string]int{}
	for _, finding := range r.Findings {
		count[finding.Level]++
		printf(out, "%s  %s  %s", pad(finding.Level, len("problem"), true), pad(finding.Topic, len("settings"), true), finding.Text)
		if finding.Advice != "" && finding.Level != "ok" {
			printf(out, "%s→ %s", pad("", len("problem  settings  "), true), finding.Advice)
		}
	}
	printf(out, "\nproblems: %d, notes: %d, ok: %d; took %.0f ms", count["problem"], count["note"], count["ok"], r.Took)
}
