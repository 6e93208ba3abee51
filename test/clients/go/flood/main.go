// Flood sends searches at a fixed rate through one client as it comes: its own retries,
// its own timeouts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"

	"sidestep/test/clients/go/common"
)

const (
	index = "products"
	body  = `{"size":0}`
)

// status returns that of an answer: 206 if a part is missing.
func status(failed int) int {
	if failed > 0 {
		return http.StatusPartialContent
	}
	return http.StatusOK
}

// searching returns what sends one search, and returns its status; 0 if there was none.
func searching(engine, url string) func(id string) int {
	if engine == "elasticsearch" {
		client, err := elasticsearch.NewClient(elasticsearch.Config{Addresses: []string{url}})
		common.Must(err)
		return func(id string) int {
			answer, err := client.Search(client.Search.WithIndex(index), client.Search.WithBody(strings.NewReader(body)), client.Search.WithOpaqueID(id))
			if err != nil {
				return 0
			}
			defer func() { _ = answer.Body.Close() }()
			if answer.IsError() {
				return answer.StatusCode
			}
			var found struct {
				Shards struct{ Failed int } `json:"_shards"`
			}
			common.Must(json.NewDecoder(answer.Body).Decode(&found))
			return status(found.Shards.Failed)
		}
	}
	client, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{Addresses: []string{url}}})
	common.Must(err)
	return func(id string) int {
		found, err := client.Search(context.Background(), &opensearchapi.SearchReq{
			Indices: []string{index}, Body: strings.NewReader(body), Header: http.Header{"X-Opaque-Id": []string{id}},
		})
		var structured *opensearch.StructError
		switch {
		case err == nil:
			return status(found.Shards.Failed)
		case errors.As(err, &structured):
			return structured.Status
		}
		return 0
	}
}

func main() {
	engine, url := os.Args[1], os.Args[2]
	rate, err := strconv.ParseFloat(os.Args[3], 64)
	common.Must(err)
	count, err := strconv.Atoi(os.Args[4])
	common.Must(err)
	search, statuses, longest := searching(engine, url), map[string]int{}, 0.0
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for number := range count {
		time.Sleep(time.Until(began.Add(time.Duration(float64(number) / rate * float64(time.Second)))))
		all.Go(func() {
			began := time.Now()
			status := search(fmt.Sprintf("flood-%d", number))
			mu.Lock()
			defer mu.Unlock()
			statuses[strconv.Itoa(status)]++
			longest = max(longest, time.Since(began).Seconds())
		})
	}
	all.Wait()
	common.Must(json.NewEncoder(os.Stdout).Encode(map[string]any{"statuses": statuses, "longest_s": longest}))
}
