package proxy

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// generated makes answers to bulks.
type generated struct{ rng *rand.Rand }

func newGenerated(seed uint64) generated { return generated{rand.New(rand.NewPCG(seed, 7))} }

// answer is that of an engine, in one line or pretty.
func (g generated) answer() []byte {
	type shards struct {
		Total int `json:"total"`
	}
	type fault struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
		Cause  *fault `json:"caused_by,omitempty"`
	}
	type item struct {
		Index  string `json:"_index"`
		ID     string `json:"_id"`
		Result string `json:"result,omitempty"`
		Shards shards `json:"_shards"`
		Status int    `json:"status"`
		Error  *fault `json:"error,omitempty"`
	}
	texts := []string{"x", `"status"`, `"status":201`, `{"status" : 429}`, `\"status\":200`, "status", `a "status": 404, b`, "Größe 📦"}
	text := func() string { return texts[g.rng.IntN(len(texts))] }
	statuses := []int{200, 201, 201, 201, 400, 404, 409, 429, 503}
	items := make([]map[string]item, g.rng.IntN(30))
	for i := range items {
		one := item{Index: text(), ID: text(), Result: "created", Status: statuses[g.rng.IntN(len(statuses))]}
		if one.Status >= 300 {
			one.Result, one.Error = "", &fault{Type: text(), Reason: text(), Cause: &fault{Reason: text()}}
		}
		items[i] = map[string]item{[]string{"index", "create", "delete", "update"}[g.rng.IntN(4)]: one}
	}
	out, err := json.Marshal(map[string]any{"took": 7, "errors": true, "items": items})
	if err != nil {
		panic(err)
	}
	if g.rng.IntN(2) == 0 {
		var b bytes.Buffer
		if err := json.Indent(&b, out, "", "  "); err != nil {
			panic(err)
		}
		out = bytes.ReplaceAll(b.Bytes(), []byte(`": `), []byte(`" : `)) // as engines do
	}
	return out
}

// read returns the status of each item.
func (generated) read(t *testing.T, text []byte) (statuses []int) {
	t.Helper()
	var answer struct {
		Items []map[string]struct {
			Status int `json:"status"`
		} `json:"items"`
	}
	require.NoError(t, json.Unmarshal(text, &answer))
	for _, item := range answer.Items {
		for _, one := range item {
			statuses = append(statuses, one.Status)
		}
	}
	return statuses
}
