package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sidestep/test/harness"
)

// bulkResult is what came of the bulks.
type bulkResult struct {
	bulks, items, differences int
	reasons                   map[string]int // that sidestep gave
	statuses                  map[string]int // of bulks and of their items
	documents                 int
	planned                   float64  // operations, by sidestep's own count
	contents                  []string // how what was written differs
}

// writeBulks sends bulks to a node and through a sidestep that keeps them together, each
// side to indices of its own, and compares the answers and in the end what is stored.
func (s *stage) writeBulks(ctx context.Context, seed, count uint64, logf func(string, ...any)) (*bulkResult, error) {
	f, err := s.openBulks(ctx, logf)
	if err != nil {
		return nil, err
	}
	r := &bulkResult{reasons: map[string]int{}, statuses: map[string]int{}}
	through := side{name: frontName, base: f.URL, explain: true, ids: s.ids(), client: s.client}
	said := time.Now()
	for number := range count {
		if time.Since(said) > progressEvery {
			said = time.Now()
			logf("%d of %d bulks, %d differ", number, count, r.differences)
		}
		v := s.compareBulk(ctx, generateBulk(seed, number, s.Cluster.Distribution), through)
		if ctx.Err() != nil {
			return r, fmt.Errorf("after %d of %d bulks: %w", number, count, ctx.Err())
		}
		r.add(v)
		if v.how != "" && r.differences <= maxShown {
			logf("DIFFERENT %.3000s", v)
		}
	}
	if r.planned, err = f.Sum(ctx, "sidestep_bulk_operations_total", map[string]string{"plan": "planned"}); err != nil {
		return r, err
	}
	err = s.compareContents(ctx, r)
	return r, err
}

// compareBulk sends a bulk to both sides.
func (s *stage) compareBulk(ctx context.Context, c conversation, through side) verdict {
	v := verdict{conversation: c}
	direct := s.direct(c.number)
	var both sync.WaitGroup
	both.Go(func() { v.direct = direct.converse(ctx, c) })
	both.Go(func() { v.through = through.converse(ctx, c) })
	both.Wait()
	if v.step, v.how = conversationsDiffer(c, v.direct, v.through); v.how != "" {
		v.commands = curls(c, direct, through)
	}
	return v
}

func (r *bulkResult) add(v verdict) {
	r.bulks++
	r.reasons[reasonOf(v.through[0].decision)]++
	if v.how != "" {
		r.differences++
	}
	a := v.direct[0]
	r.statuses["bulk "+strconv.Itoa(a.status)]++
	var answer struct {
		Items []map[string]struct{ Status int } `json:"items"`
	}
	if json.Unmarshal(a.body, &answer) != nil {
		return
	}
	for _, i := range answer.Items {
		for _, item := range i {
			r.items++
			r.statuses["item "+strconv.Itoa(item.Status)]++
		}
	}
}

// err is an error if something differs.
func (r *bulkResult) err() error {
	if r.differences > 0 || len(r.contents) > 0 {
		return fmt.Errorf("%d of %d bulks are answered differently; what they wrote differs in %d indices: %s", r.differences, r.bulks, len(r.contents), strings.Join(r.contents, "; "))
	}
	return nil
}

// String is one line.
func (r *bulkResult) String() string {
	return fmt.Sprintf("%d bulks, %d items: %d differ; %d documents compared; %.0f operations were given a routing; reasons: %s; statuses: %s",
		r.bulks, r.items, r.differences, r.documents, r.planned, counts(r.reasons), counts(r.statuses))
}

// report is what came of the bulks.
func (r *bulkResult) report(o options, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Bulks are answered alike: %s %s\n\n", o.Engine, version)
	fmt.Fprintf(&b, "    %s -count 0 -churn 0 -bulks %d\n\n", o.command, o.bulks)
	fmt.Fprintf(&b, "%d bulks of %d operations were sent to a node and through a sidestep that keeps bulks on one shard, each to indices of their own. **%d were answered differently**, and what they wrote differs in %d indices (%d documents).\n\n",
		r.bulks, r.items, r.differences, len(r.contents), r.documents)
	fmt.Fprintf(&b, "Sidestep gave %.0f operations a routing. What it says of the bulks: %s. The engine's answers: %s.\n", r.planned, counts(r.reasons), counts(r.statuses))
	return b.String()
}

// openBulks makes the indices of both sides, and starts the sidestep.
func (s *stage) openBulks(ctx context.Context, logf func(string, ...any)) (*harness.Front, error) {
	for _, name := range []string{directName, frontName} {
		if err := s.makeBulkIndices(ctx, ownPrefix+name+"-", logf); err != nil {
			return nil, err
		}
	}
	if err := s.Cluster.WaitGreen(ctx, ""); err != nil {
		return nil, err
	}
	f, err := s.StartSidestep(ctx, harness.Sidestep{Name: "bulks", Config: bulkConfig()})
	if err != nil {
		return nil, err
	}
	return f, s.AwaitReady(ctx)
}

// makeBulkIndices makes what bulks of a side are written to.
func (s *stage) makeBulkIndices(ctx context.Context, prefix string, logf func(string, ...any)) error {
	fields := object{
		"@timestamp": object{"type": "date"}, "n": object{"type": "long"}, "price": object{"type": "double"},
		"category": object{"type": "keyword"}, "title": object{"type": "text"},
	}
	index := func(shards int, settings, mappings object) object {
		all := object{"number_of_shards": shards, "number_of_replicas": 1, "refresh_interval": "200ms", "hidden": true}
		for key, value := range settings {
			all[key] = value
		}
		fields := object{"properties": fields}
		for key, value := range mappings {
			fields[key] = value
		}
		return object{"settings": object{"index": all}, "mappings": fields}
	}
	// Writes say how many copies took them: of a new index not all are there at once.
	fresh := object{"settings": object{"index": object{"number_of_shards": 3, "number_of_replicas": 0, "hidden": true}}}
	required := object{"_routing": object{"required": true}}
	alias := func(name string, more object) object {
		action := object{"index": prefix + "six", "alias": prefix + name}
		for key, value := range more {
			action[key] = value
		}
		return object{"add": action}
	}
	for _, step := range []step{
		{http.MethodPut, "/_cluster/settings", object{"persistent": object{"action.auto_create_index": "-" + ownPrefix + "*ghost*,+" + ownPrefix + "*"}}},
		{http.MethodPut, "/_ingest/pipeline/stamp", object{"processors": []any{}}},
		{http.MethodPut, "/_index_template/" + prefix + "new", object{"index_patterns": []string{prefix + "new-*"}, "priority": 600, "template": fresh}},
		{http.MethodPut, "/" + prefix + "six", index(6, nil, nil)},
		{http.MethodPut, "/" + prefix + "two", index(2, nil, nil)},
		{http.MethodPut, "/" + prefix + "out", index(3, nil, nil)},
		{http.MethodPut, "/" + prefix + "one", index(1, nil, nil)},
		{http.MethodPut, "/" + prefix + "piped", index(6, object{"default_pipeline": "stamp"}, nil)},
		{http.MethodPut, "/" + prefix + "strict", index(6, nil, object{"dynamic": "strict"})},
		{http.MethodPut, "/" + prefix + "must", index(6, nil, required)},
		{http.MethodPut, "/" + prefix + "parts", index(6, object{"routing_partition_size": 2}, required)},
		{http.MethodPut, "/" + prefix + "shut", index(6, nil, nil)},
		{http.MethodPost, "/" + prefix + "shut/_close", nil},
		{http.MethodPost, "/_aliases", object{"actions": []any{
			alias("alias", object{"is_write_index": true}), alias("lanes", object{"index_routing": "alpha"}),
		}}},
	} {
		if err := s.Cluster.Do(ctx, step.method, step.path, step.body, nil); err != nil {
			return err
		}
	}
	template := index(6, nil, nil)
	for _, step := range []step{
		{http.MethodPut, "/_index_template/" + prefix + "stream", object{"index_patterns": []string{prefix + "stream"}, "data_stream": object{}, "priority": 600, "template": template}},
		{http.MethodPut, "/_data_stream/" + prefix + "stream", nil},
	} {
		if err := s.Cluster.Do(ctx, step.method, step.path, step.body, nil); err != nil {
			logf("without data streams: %.200v", err)
		}
	}
	return nil
}

// placeMasks are what differs between bulks of which one is kept on a shard.
var placeMasks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`("(?:_seq_no|ingest_took)"\s*:\s*)-?\d+`), `${1}0`},
	{regexp.MustCompile(`("shard"\s*:\s*)"\d+"`), `${1}""`},
	{regexp.MustCompile(`(\[[^\[\]]*` + ownPrefix + `@side@[^\[\]]*\])\[\d+\]`), `${1}[]`},
	// An exception that comes from another node than the one that was asked is another one.
	{regexp.MustCompile(`("caused_by"\s*:\s*\{\s*"type"\s*:\s*)"[a-z_]+"`), `${1}""`},
	{regexp.MustCompile(`(current document has seqNo )\[\d+\]`), `${1}[]`},
	// Said of an update that changes nothing if another operation of its shard does.
	{regexp.MustCompile(`"forced_refresh"\s*:\s*true\s*,\s*`), ``},
	// What was for one shard: how many operations, or the only one.
	{regexp.MustCompile(`(containing )\[(?:\d+\] requests|(?:index|create|update|delete) \{)(?:\\.|[^"\\])*`), `${1}`},
	{regexp.MustCompile(`(on headers |allowed: )\[[A-Za-z, -]+\]`), `${1}[]`}, // which have no order
	{regexp.MustCompile(`(u006dine-)(?:` + directName + `|` + frontName + `)`), `${1}@side@`},
	{regexp.MustCompile(`(with id )'[A-Za-z0-9_-]{20}'`), `${1}''`},
	{regexp.MustCompile(`(\]/)\[[A-Za-z0-9_-]{20}\]`), `${1}[]`},
}

// placeless takes out of the answer to a bulk what depends on the shard.
func placeless(body []byte) []byte {
	for _, m := range placeMasks {
		body = m.what.ReplaceAll(body, []byte(m.with))
	}
	return body
}

// compareContents compares the documents of both sides.
func (s *stage) compareContents(ctx context.Context, r *bulkResult) error {
	if err := s.Cluster.Do(ctx, http.MethodPost, "/"+ownPrefix+"*/_refresh?expand_wildcards=open,hidden", nil, nil); err != nil {
		return err
	}
	for _, name := range append(bulkNames(), "out", "new-0", "new-1", "new-2") {
		if slices.Contains([]string{"shut", "alias", "lanes", "ghost", "new-*"}, name) {
			continue
		}
		want, err := s.documents(ctx, directName, name)
		if err != nil {
			return err
		}
		got, err := s.documents(ctx, frontName, name)
		if err != nil {
			return err
		}
		r.documents += len(want)
		if how := listsDiffer(want, got); how != "" {
			r.contents = append(r.contents, name+": "+how)
		}
	}
	return nil
}

// listsDiffer compares two sorted lists.
func listsDiffer(want, got []string) string {
	for i := range want {
		if i == len(got) || want[i] != got[i] {
			return fmt.Sprintf("%d documents, through sidestep %d; %.400s, through sidestep %.400s", len(want), len(got), want[i], append(got, "none")[min(i, len(got))])
		}
	}
	if len(got) > len(want) {
		return fmt.Sprintf("%d documents, through sidestep %d: %.400s", len(want), len(got), got[len(want)])
	}
	return ""
}

// minted matches an id that the engine gave, chosen one of the routings that sidestep gives.
var (
	minted = regexp.MustCompile(`^[A-Za-z0-9_-]{20}$`)
	chosen = regexp.MustCompile(`^\d{1,2}$`)
)

// documents returns all documents of an index of a side, sorted: their sources, ids and
// routings, but for what the engine or sidestep gave. None if there is no such index.
func (s *stage) documents(ctx context.Context, sideName, name string) ([]string, error) {
	var page struct {
		ScrollID string `json:"_scroll_id"`
		Hits     struct {
			Hits []struct {
				ID      string          `json:"_id"`
				Routing string          `json:"_routing"`
				Source  json.RawMessage `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	var all []string
	path, body := "/"+ownPrefix+sideName+"-"+name+"/_search?scroll=1m&ignore_unavailable=true", object{"size": 500, "sort": []string{"_doc"}}
	for {
		page.Hits.Hits = nil
		if err := s.Cluster.Do(ctx, http.MethodPost, path, body, &page); err != nil {
			return nil, err
		}
		if len(page.Hits.Hits) == 0 {
			break
		}
		for _, h := range page.Hits.Hits {
			if minted.MatchString(h.ID) {
				if h.ID = ""; chosen.MatchString(h.Routing) {
					h.Routing = ""
				}
			}
			all = append(all, fmt.Sprintf("%s %q %q", h.Source, h.ID, h.Routing))
		}
		path, body = "/_search/scroll", object{"scroll": "1m", "scroll_id": page.ScrollID}
	}
	slices.Sort(all)
	return all, ctx.Err()
}
