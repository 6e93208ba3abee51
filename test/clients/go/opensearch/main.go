// Opensearch does what an application does with opensearch-go 4, step by step.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/opensearch-project/opensearch-go/v4/opensearchutil"

	"sidestep/test/clients/go/common"
)

var ctx = context.Background()

func newClient(compress, sniff bool, addresses ...string) *opensearchapi.Client {
	client, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{Addresses: addresses, CompressRequestBody: compress}})
	common.Must(err)
	if sniff {
		common.Must(client.Client.DiscoverNodes(ctx))
	}
	return client
}

// inspected is an answer whose bytes can be seen.
type inspected interface{ Inspect() opensearchapi.Inspect }

// found reads the answer of a search, which must be good.
func found[T inspected](answer T, err error) common.Found {
	common.Must(err)
	return common.Read(answer.Inspect().Response.Body)
}

// failing says how an error reaches the application: as an error of the client's.
func failing(step string, err error) {
	var structured *opensearch.StructError
	var status *opensearch.StringError
	switch {
	case errors.As(err, &structured):
		common.Say(step, map[string]any{"exception": "StructError", "status": structured.Status, "error": structured.Err.Type})
	case errors.As(err, &status):
		common.Say(step, map[string]any{"exception": "StringError", "status": status.Status, "error": status.Err})
	default:
		common.Say(step, map[string]any{"exception": fmt.Sprintf("%T", err), "error": fmt.Sprint(err)})
	}
}

func searching(body string, indices ...string) *opensearchapi.SearchReq {
	return &opensearchapi.SearchReq{Indices: indices, Body: strings.NewReader(body)}
}

func write(client *opensearchapi.Client) {
	missing := true
	_, err := client.Indices.Delete(ctx, opensearchapi.IndicesDeleteReq{
		Indices: []string{common.Index}, Params: opensearchapi.IndicesDeleteParams{IgnoreUnavailable: &missing},
	})
	common.Must(err)
	created, err := client.Indices.Create(ctx, opensearchapi.IndicesCreateReq{
		Index: common.Index, Body: strings.NewReader(common.Definition), Params: opensearchapi.IndicesCreateParams{WaitForActiveShards: "all"},
	})
	common.Must(err)
	common.Say("create", created)
	indexed, err := client.Index(ctx, opensearchapi.IndexReq{
		Index: common.Index, DocumentID: "0", Body: strings.NewReader(common.Document(0)), Params: opensearchapi.IndexParams{Refresh: "true"},
	})
	common.Must(err)
	common.Say("index", indexed.Result)
	got, err := client.Document.Get(ctx, opensearchapi.DocumentGetReq{Index: common.Index, DocumentID: "0"})
	common.Must(err)
	common.Say("get", got.Source)
	bulk, err := opensearchutil.NewBulkIndexer(opensearchutil.BulkIndexerConfig{Client: client, Index: common.Index, FlushBytes: 10_000, NumWorkers: 2, Refresh: "true"})
	common.Must(err)
	for n := range 600 {
		common.Must(bulk.Add(ctx, opensearchutil.BulkIndexerItem{Action: "index", DocumentID: strconv.Itoa(n), Body: strings.NewReader(common.Document(n))}))
	}
	common.Must(bulk.Close(ctx))
	common.Say("bulk", map[string]any{"indexed": bulk.Stats().NumIndexed, "failed": bulk.Stats().NumFailed})
}

func read(client *opensearchapi.Client) {
	for range 5 {
		common.Say("search", found(client.Search(ctx, searching(common.Beta, common.Index))).Numbers())
	}
	count, err := client.Indices.Count(ctx, &opensearchapi.IndicesCountReq{Indices: []string{common.Index}, Body: strings.NewReader(common.Count)})
	common.Must(err)
	common.Say("count", count)
	multi, err := client.MSearch(ctx, opensearchapi.MSearchReq{Body: strings.NewReader(common.Multi)})
	common.Must(err)
	first, third := multi.Responses[0], multi.Responses[2]
	common.Say("msearch", []any{first.Hits.Total, first.Hits.Hits, first.Shards, multi.Responses[1].Status, third.Aggregations})
	req := searching(common.Scroll, common.Index)
	req.Params.Scroll = time.Minute
	var seen []int
	page := found(client.Search(ctx, req))
	for len(page.Hits.Hits) > 0 {
		seen = append(seen, page.N()...)
		page = found(client.Scroll.Get(ctx, opensearchapi.ScrollGetReq{ScrollID: page.ScrollID, Params: opensearchapi.ScrollGetParams{Scroll: time.Minute}}))
	}
	_, err = client.Scroll.Delete(ctx, opensearchapi.ScrollDeleteReq{ScrollIDs: []string{page.ScrollID}})
	common.Must(err)
	slices.Sort(seen)
	common.Say("scroll", seen)
}

func page(client *opensearchapi.Client) {
	pit, err := client.PointInTime.Create(ctx, opensearchapi.PointInTimeCreateReq{
		Indices: []string{common.Index}, Params: opensearchapi.PointInTimeCreateParams{KeepAlive: time.Minute},
	})
	common.Must(err)
	var seen []int
	for after := ""; ; {
		body := fmt.Sprintf(`{"pit":{"id":%q,"keep_alive":"1m"},"sort":["n"],"size":100%s}`, pit.PitID, after)
		f := found(client.Search(ctx, searching(body)))
		if len(f.Hits.Hits) == 0 {
			break
		}
		seen = append(seen, f.N()...)
		after = fmt.Sprintf(`,"search_after":[%v]`, seen[len(seen)-1])
	}
	_, err = client.PointInTime.Delete(ctx, opensearchapi.PointInTimeDeleteReq{PitID: []string{pit.PitID}})
	common.Must(err)
	common.Say("pages", seen)
}

func fail(client *opensearchapi.Client) {
	_, err := client.Document.Get(ctx, opensearchapi.DocumentGetReq{Index: common.Index, DocumentID: "nobody"})
	failing("no document", err)
	_, err = client.Search(ctx, searching("{}", "missing"))
	failing("no index", err)
	_, err = client.Search(ctx, searching(common.Bad, common.Index))
	failing("bad query", err)
	_, err = client.Document.Create(ctx, opensearchapi.DocumentCreateReq{Index: common.Index, DocumentID: "0", Body: strings.NewReader(common.Document(0))})
	failing("conflict", err)
}

func main() {
	url, sniff := common.Arguments()
	client := newClient(false, sniff, url)
	write(client)
	read(client)
	page(client)
	fail(client)
	client = newClient(true, sniff, url)
	common.Say("compressed", found(client.Search(ctx, searching(common.Long(), common.Index))).Numbers())
	client = newClient(false, false, common.Dead, url)
	for range 3 {
		common.Say("retried", found(client.Search(ctx, searching(common.Seven, common.Index))).Numbers())
	}
	deleted, err := client.Indices.Delete(ctx, opensearchapi.IndicesDeleteReq{Indices: []string{common.Index}})
	common.Must(err)
	common.Say("deleted", deleted)
}
