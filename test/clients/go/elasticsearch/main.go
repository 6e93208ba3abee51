// Elasticsearch does what an application does with go-elasticsearch 8, step by step.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/elastic/go-elasticsearch/v8/esutil"

	"sidestep/test/clients/go/common"
)

func newClient(compress, sniff bool, addresses ...string) *elasticsearch.Client {
	es, err := elasticsearch.NewClient(elasticsearch.Config{Addresses: addresses, CompressRequestBody: compress})
	common.Must(err)
	if sniff {
		common.Must(es.DiscoverNodes())
	}
	return es
}

// search reads an answer that must be good.
func search(res *esapi.Response, err error) common.Found {
	return common.Read(strings.NewReader(good(res, err)))
}

func good(res *esapi.Response, err error) string {
	common.Must(err)
	defer res.Body.Close()
	if res.IsError() {
		common.Must(fmt.Errorf("%s", res))
	}
	_, text, _ := strings.Cut(res.String(), "] ")
	return text
}

// failing says how an error reaches the application: as a response.
func failing(step string, res *esapi.Response, err error) {
	common.Must(err)
	defer res.Body.Close()
	var body struct {
		Error any `json:"error"`
	}
	_ = json.NewDecoder(res.Body).Decode(&body) // a missing document has no error
	if detail, ok := body.Error.(map[string]any); ok {
		body.Error = detail["type"]
	}
	common.Say(step, map[string]any{"failed": res.IsError(), "status": res.StatusCode, "error": body.Error})
}

func write(es *elasticsearch.Client) {
	res, err := es.Indices.Delete([]string{common.Index}, es.Indices.Delete.WithIgnoreUnavailable(true))
	common.Must(err)
	res.Body.Close()
	common.Say("create", json.RawMessage(good(es.Indices.Create(common.Index, es.Indices.Create.WithBody(strings.NewReader(common.Definition)), es.Indices.Create.WithWaitForActiveShards("all")))))
	good(es.Index(common.Index, strings.NewReader(common.Document(0)), es.Index.WithDocumentID("0"), es.Index.WithRefresh("true")))
	common.Say("get", json.RawMessage(good(es.GetSource(common.Index, "0"))))
	bulk, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: es, Index: common.Index, FlushBytes: 10_000, NumWorkers: 2, Refresh: "true"})
	common.Must(err)
	for n := range 600 {
		common.Must(bulk.Add(context.Background(), esutil.BulkIndexerItem{Action: "index", DocumentID: strconv.Itoa(n), Body: strings.NewReader(common.Document(n))}))
	}
	common.Must(bulk.Close(context.Background()))
	common.Say("bulk", map[string]any{"indexed": bulk.Stats().NumIndexed, "failed": bulk.Stats().NumFailed})
}

func read(es *elasticsearch.Client) {
	for range 5 {
		common.Say("search", search(es.Search(es.Search.WithIndex(common.Index), es.Search.WithBody(strings.NewReader(common.Beta)))).Numbers())
	}
	common.Say("count", json.RawMessage(good(es.Count(es.Count.WithIndex(common.Index), es.Count.WithBody(strings.NewReader(common.Count))))))
	var multi struct{ Responses []common.Found }
	common.Must(json.Unmarshal([]byte(good(es.Msearch(strings.NewReader(common.Multi)))), &multi))
	common.Say("msearch", []any{multi.Responses[0].Numbers(), multi.Responses[1].Status, multi.Responses[2].Aggregations})
	var seen []int
	page := search(es.Search(es.Search.WithIndex(common.Index), es.Search.WithScroll(time.Minute), es.Search.WithBody(strings.NewReader(common.Scroll))))
	for len(page.Hits.Hits) > 0 {
		seen = append(seen, page.N()...)
		page = search(es.Scroll(es.Scroll.WithScrollID(page.ScrollID), es.Scroll.WithScroll(time.Minute)))
	}
	good(es.ClearScroll(es.ClearScroll.WithScrollID(page.ScrollID)))
	slices.Sort(seen)
	common.Say("scroll", seen)
}

func page(es *elasticsearch.Client) {
	var pit struct{ ID string }
	common.Must(json.Unmarshal([]byte(good(es.OpenPointInTime([]string{common.Index}, "1m"))), &pit))
	var seen []int
	for after := ""; ; {
		body := fmt.Sprintf(`{"pit":{"id":%q,"keep_alive":"1m"},"sort":["n"],"size":100%s}`, pit.ID, after)
		found := search(es.Search(es.Search.WithBody(strings.NewReader(body))))
		if len(found.Hits.Hits) == 0 {
			break
		}
		seen, pit.ID = append(seen, found.N()...), found.PIT
		after = fmt.Sprintf(`,"search_after":[%v]`, seen[len(seen)-1])
	}
	good(es.ClosePointInTime(es.ClosePointInTime.WithBody(strings.NewReader(`{"id":"` + pit.ID + `"}`))))
	common.Say("pages", seen)
	res, err := es.AsyncSearch.Submit(es.AsyncSearch.Submit.WithIndex(common.Index))
	failing("async search", res, err)
}

func fail(es *elasticsearch.Client) {
	res, err := es.Get(common.Index, "nobody")
	failing("no document", res, err)
	res, err = es.Search(es.Search.WithIndex("missing"))
	failing("no index", res, err)
	res, err = es.Search(es.Search.WithIndex(common.Index), es.Search.WithBody(strings.NewReader(common.Bad)))
	failing("bad query", res, err)
	res, err = es.Create(common.Index, "0", strings.NewReader(common.Document(0)))
	failing("conflict", res, err)
}

func main() {
	url, sniff := common.Arguments()
	es := newClient(false, sniff, url)
	write(es)
	read(es)
	page(es)
	fail(es)
	es = newClient(true, sniff, url)
	common.Say("compressed", search(es.Search(es.Search.WithIndex(common.Index), es.Search.WithBody(strings.NewReader(common.Long())))).Numbers())
	es = newClient(false, false, common.Dead, url)
	for range 3 {
		common.Say("retried", search(es.Search(es.Search.WithIndex(common.Index), es.Search.WithBody(strings.NewReader(common.Seven)))).Numbers())
	}
	common.Say("deleted", json.RawMessage(good(es.Indices.Delete([]string{common.Index}))))
}
