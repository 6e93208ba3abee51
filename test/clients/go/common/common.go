// Package common is what the Go programs share: their data, and how they print.
package common

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
)

// Names and addresses.
const (
	Index = "clients"
	Dead  = "http://127.0.0.1:1" // nobody listens there
)

// Bodies that all programs send.
const (
	Definition = `{"settings":{"number_of_shards":3,"number_of_replicas":1},
		"mappings":{"properties":{"n":{"type":"long"},"title":{"type":"text"},"group":{"type":"keyword"}}}}`
	Beta   = `{"query":{"match":{"title":"beta"}},"sort":"n","size":5}`
	Scroll = `{"query":{"match":{"title":"beta"}},"sort":"_doc","size":50}`
	Count  = `{"query":{"match":{"title":"beta"}}}`
	Seven  = `{"query":{"term":{"n":7}}}`
	Bad    = `{"query":{"nonsense":{}}}`
	Multi  = `{"index":"clients"}
{"query":{"match":{"title":"beta"}},"sort":"n","size":2}
{"index":"missing"}
{"query":{"match_all":{}}}
{"index":"clients"}
{"size":0,"aggs":{"groups":{"terms":{"field":"group"}}}}
`
)

// Arguments returns the address given, and whether the client is to sniff.
func Arguments() (url string, sniff bool) {
	return os.Args[1], slices.Contains(os.Args, "--sniff")
}

// Document returns the source of document n.
func Document(n int) string {
	words := []string{"alpha", "beta", "gamma", "delta", "epsilon"}
	return fmt.Sprintf(`{"n":%d,"title":%q,"group":"g%d"}`, n, words[n%len(words)], n%7)
}

// Long returns a search with a body that compression makes much smaller.
func Long() string {
	terms := make([]string, 500)
	for n := range terms {
		terms[n] = fmt.Sprintf(`{"term":{"n":%d}}`, n)
	}
	return `{"query":{"bool":{"should":[` + strings.Join(terms, ",") + `]}},"sort":"n","size":400}`
}

// Say prints what came of a step: one line of JSON.
func Say(step string, result any) {
	Must(json.NewEncoder(os.Stdout).Encode(map[string]any{"step": step, "result": result}))
}

// Must ends the program if err is not nil.
func Must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Found is the part of a search's answer that is looked at.
type Found struct {
	Hits struct {
		Total struct {
			Value int `json:"value"`
		} `json:"total"`
		Hits []struct {
			Source struct {
				N int `json:"n"`
			} `json:"_source"`
			Sort []any `json:"sort"`
		} `json:"hits"`
	} `json:"hits"`
	Shards       map[string]int `json:"_shards"`
	ScrollID     string         `json:"_scroll_id"`
	PIT          string         `json:"pit_id"`
	Aggregations any            `json:"aggregations"`
	Status       int            `json:"status"`
}

// Read decodes the answer of a search.
func Read(body io.Reader) (f Found) {
	Must(json.NewDecoder(body).Decode(&f))
	return f
}

// Numbers is which documents an answer holds, in their order, and what it counts.
func (f Found) Numbers() any {
	return map[string]any{"total": f.Hits.Total.Value, "n": f.N(), "shards": f.Shards}
}

// N returns the numbers of the documents.
func (f Found) N() []int {
	n := make([]int, len(f.Hits.Hits))
	for i, hit := range f.Hits.Hits {
		n[i] = hit.Source.N
	}
	return n
}
