package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// Words are the words document titles are made of; the first eight are also the
// categories.
func Words() []string {
	return []string{
		"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
		"nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
	}
}

// Categories is how many of Words are categories.
const Categories = 8

// FirstTimestamp is the timestamp of document 0 in milliseconds; each further
// document is one minute later.
const FirstTimestamp = 1_700_000_000_000

// Index says which index to create. Its documents have the fields title (text),
// category (keyword), price (double), n (the number of the document, unique) and
// timestamp (date).
type Index struct {
	Name     string
	Shards   int // primaries
	Replicas int
	Docs     int
	Seed     uint64
	// Routed indexes each document with its category as routing.
	Routed bool
	// Settings are further ones, without the prefix "index."; they win over ours.
	Settings map[string]any
}

// CreateIndex creates the index, fills it, waits until all its copies are
// started and refreshes and flushes it.
func (c *Cluster) CreateIndex(ctx context.Context, index Index) error {
	keyword := map[string]any{"type": "keyword"}
	settings := map[string]any{
		"number_of_shards": index.Shards, "number_of_replicas": index.Replicas,
		// Refreshed once below; a search never finds copies at different points.
		"refresh_interval": "-1",
	}
	maps.Copy(settings, index.Settings)
	definition := map[string]any{
		"settings": map[string]any{"index": settings},
		"mappings": map[string]any{"properties": map[string]any{
			"title": map[string]any{"type": "text"}, "category": keyword,
			"price": map[string]any{"type": "double"}, "n": map[string]any{"type": "long"},
			"timestamp": map[string]any{"type": "date"},
		}},
	}
	if err := c.Do(ctx, http.MethodPut, "/"+url.PathEscape(index.Name), definition, nil); err != nil {
		return fmt.Errorf("create index %s: %w", index.Name, err)
	}
	if err := c.WaitGreen(ctx, index.Name); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(index.Seed, 1))
	const batch = 5000
	for from := 0; from < index.Docs; from += batch {
		if err := c.bulk(ctx, index, from, min(from+batch, index.Docs), random); err != nil {
			return fmt.Errorf("fill index %s: %w", index.Name, err)
		}
	}
	for _, action := range []string{"_refresh", "_flush"} {
		if err := c.Do(ctx, http.MethodPost, "/"+url.PathEscape(index.Name)+"/"+action, nil, nil); err != nil {
			return fmt.Errorf("fill index %s: %w", index.Name, err)
		}
	}
	return c.WaitGreen(ctx, index.Name)
}

// createIndices creates indices side by side: with each one waits for the nodes most of the time.
func (c *Cluster) createIndices(ctx context.Context, indices []Index) error {
	return atOnce(indices, func(_ int, index Index) error { return c.CreateIndex(ctx, index) })
}

type document struct {
	Title     string  `json:"title"`
	Category  string  `json:"category"`
	Price     float64 `json:"price"`
	N         int     `json:"n"`
	Timestamp int64   `json:"timestamp"`
}

func (c *Cluster) bulk(ctx context.Context, index Index, from, to int, random *rand.Rand) error {
	words := Words()
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for n := from; n < to; n++ {
		title := make([]byte, 0, 64)
		for range 8 {
			title = append(append(title, words[random.IntN(len(words))]...), ' ')
		}
		doc := document{
			Title: string(title), Category: words[random.IntN(Categories)],
			Price: float64(random.IntN(10_000)) / 100, N: n, Timestamp: FirstTimestamp + int64(n)*60_000,
		}
		target := map[string]any{"_id": fmt.Sprint(n)}
		if index.Routed {
			target["routing"] = doc.Category
		}
		for _, line := range []any{map[string]any{"index": target}, doc} {
			if err := encoder.Encode(line); err != nil {
				return err
			}
		}
	}
	var answer struct {
		Errors bool `json:"errors"`
	}
	if err := c.Do(ctx, http.MethodPost, "/"+url.PathEscape(index.Name)+"/_bulk", body.Bytes(), &answer); err != nil {
		return err
	}
	if answer.Errors {
		return fmt.Errorf("the engine rejected some of the documents %d to %d", from, to)
	}
	return nil
}

// Warm searches the index for the duration through every node past the proxies,
// so that the JVMs have compiled the hot paths before something is measured.
func (c *Cluster) Warm(ctx context.Context, index string, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	return atOnce(c.Nodes, func(i int, node *Node) error {
		for search := i; ctx.Err() == nil; search += len(c.Nodes) {
			if err := c.search(ctx, node, Search(index, search)); err != nil && ctx.Err() == nil {
				return fmt.Errorf("warm %s: %w", node.Name, err)
			}
		}
		return nil
	})
}

func (c *Cluster) search(ctx context.Context, node *Node, search *http.Request) error {
	req := search.WithContext(ctx)
	req.URL.Scheme, req.URL.Host = node.launch.scheme(), loopback(node.httpPort)
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	return errors.Join(err, res.Body.Close())
}

// Search returns the search number i on the index, as it is sent to warm up and
// to measure: a match query on the title with a terms aggregation over the
// categories. The same number is the same search. Scheme and host of its URL are
// left open.
func Search(index string, i int) *http.Request {
	words := Words()
	random := rand.New(rand.NewPCG(uint64(i), 3))
	return searching(index, fmt.Sprintf(`{"size":10,"query":{"match":{"title":"%s %s"}},"aggs":{"categories":{"terms":{"field":"category"}}}}`,
		words[random.IntN(len(words))], words[random.IntN(len(words))]))
}

// Aggregation returns a search that takes far more time than those of [Search]: quantiles of the prices, and the
// different numbers, of each category, over all documents. It asks for a document, so that no node answers
// it from its request cache.
func Aggregation(index string) *http.Request {
	return searching(index, `{"size":1,"aggs":{"categories":{"terms":{"field":"category"},"aggs":{`+
		`"prices":{"percentiles":{"field":"price"}},"numbers":{"cardinality":{"field":"n"}}}}}}`)
}

// searching is a search with a body.
func searching(index, body string) *http.Request {
	return Post("/"+index+"/_search", "application/json", []byte(body))
}

// Post is a request with a body. Scheme and host of its URL are left open.
func Post(path, contentType string, body []byte) *http.Request {
	return &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path},
		Header:        http.Header{"Content-Type": {contentType}},
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
}
