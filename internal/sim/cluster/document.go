package simcluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/twmb/murmur3"
)

// documentRef is a document that is read by id. Its routing is nil if none is given:
// an empty one is something else.
type documentRef struct {
	index, id string
	routing   *string
}

// read answers reads of one document: _doc, _source, _explain, _termvectors.
func (n *Node) read(r *request) (reply, *apiError) {
	if err := r.allow("preference", "routing", "realtime", "refresh", "stored_fields", "version", "version_type", "_source",
		"_source_includes", "_source_excludes", "q", "df", "fields", "term_statistics", "field_statistics"); err != nil {
		return reply{}, err
	}
	doc := documentRef{index: r.at(0), id: r.at(2), routing: r.given("routing")}
	index, found, err := n.readDocument(r.ctx, doc, r.params.Get("preference"))
	if err != nil {
		return reply{}, err
	}
	out := map[string]any{"_index": index, "_id": doc.id}
	status := http.StatusOK
	if !found {
		status = http.StatusNotFound
	}
	switch kind := r.at(1); {
	case kind == "_source" && !found:
		reason := fmt.Sprintf("Document not found [%s]/[%s]", index, doc.id)
		return reply{}, &apiError{Status: status, Type: "resource_not_found_exception", Reason: reason}
	case kind == "_source":
		return answer(source(doc.id)), nil
	case kind == "_explain":
		out["matched"] = found
	case kind == "_termvectors":
		status = http.StatusOK
		out["found"], out["took"], out["term_vectors"], out["_version"] = found, 0, map[string]any{}, 1
	default:
		describeDocument(out, doc.id, found)
	}
	rep := answer(out)
	rep.status = status
	return rep, nil
}

func source(id string) map[string]any {
	number, _ := strconv.Atoi(id) // it was found, so it is a number
	return map[string]any{"n": number}
}

func describeDocument(out map[string]any, id string, found bool) {
	out["found"] = found
	if found {
		out["_version"], out["_seq_no"], out["_primary_term"], out["_source"] = 1, 0, 1, source(id)
	}
}

// given returns a parameter, nil if it is absent.
func (r *request) given(name string) *string {
	if !r.params.Has(name) {
		return nil
	}
	value := r.params.Get(name)
	return &value
}

// multiGet answers _mget. What goes wrong with a document is part of the answer.
func (n *Node) multiGet(r *request) (reply, *apiError) {
	if err := r.allow("preference", "routing", "realtime", "refresh", "stored_fields", "_source", "_source_includes",
		"_source_excludes"); err != nil {
		return reply{}, err
	}
	var body struct {
		IDs  []any `json:"ids"`
		Docs []struct {
			Index   string  `json:"_index"`
			ID      any     `json:"_id"`
			Routing *string `json:"routing"`
		} `json:"docs"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return reply{}, parseError(err)
	}
	base := documentRef{routing: r.given("routing")}
	if len(r.parts) > 1 {
		base.index = r.at(0)
	}
	var docs []documentRef
	for _, id := range body.IDs {
		docs = append(docs, documentRef{base.index, fmt.Sprint(id), base.routing})
	}
	for _, item := range body.Docs {
		doc := documentRef{cmp.Or(item.Index, base.index), fmt.Sprint(item.ID), item.Routing}
		if doc.routing == nil {
			doc.routing = base.routing
		}
		docs = append(docs, doc)
	}
	out := make([]map[string]any, len(docs))
	var wg sync.WaitGroup
	for i, doc := range docs {
		wg.Go(func() {
			index, found, err := n.readDocument(r.ctx, doc, r.params.Get("preference"))
			out[i] = map[string]any{"_index": index, "_id": doc.id}
			if err != nil {
				out[i]["error"] = err.object()
				return
			}
			describeDocument(out[i], doc.id, found)
		})
	}
	wg.Wait()
	return answer(map[string]any{"docs": out}), nil
}

// readDocument reads a document with this node as coordinating node: from the copies
// of its shard, in turn until one answers. Documents have the numbers below Docs as
// ids. index is the concrete one.
func (n *Node) readDocument(ctx context.Context, doc documentRef, preference string) (index string, found bool, err *apiError) {
	s := n.cluster.state.Load()
	names := s.Aliases[doc.index]
	if s.index(doc.index) != nil {
		names = []string{doc.index}
	}
	switch {
	case len(names) == 0:
		return doc.index, false, noSuchIndex(doc.index)
	case len(names) > 1:
		reason := fmt.Sprintf("alias [%s] has more than one index associated with it [%s], can't execute a single index op",
			doc.index, strings.Join(names, ", "))
		return doc.index, false, illegalArgument(reason)
	}
	spec := s.index(names[0]).Spec
	ref := shardRef{spec.Name, spec.shardOf(doc.id, doc.routing)}
	copies, err := n.readOrder(s, ref, preference)
	if err != nil {
		return spec.Name, false, err
	}
	err = &apiError{Status: http.StatusServiceUnavailable, Type: noShardAvailable, Reason: "No shard available for [" + ref.String() + "]"}
	for _, cp := range copies {
		if cp.State == initializing {
			continue
		}
		if err = n.cluster.byID[cp.Node].get(ctx, n); err == nil {
			number, bad := strconv.Atoi(doc.id)
			return spec.Name, bad == nil && number >= 0 && number < spec.Docs, nil
		}
	}
	return spec.Name, false, err
}

// readOrder is the order in which a coordinating node tries the copies of a document:
// adaptive selection has no say, and without a preference only the primary is read
// where replicas lag behind.
func (n *Node) readOrder(s *state, ref shardRef, preference string) ([]shardCopy, *apiError) {
	o := n.orderer(s)
	o.rank = nil
	copies, err := o.order(ref, preference)
	if err == nil && preference == "" && s.index(ref.Index).Spec.SegmentReplication {
		copies = keep(copies, func(c shardCopy) bool { return c.Kind == 'p' })
	}
	return copies, err
}

// getShare is the part of the time of a shard query that reading a document takes.
const getShare = 8

// get reads a document on this data node for the coordinating node from. It needs no
// search thread.
func (n *Node) get(ctx context.Context, from *Node) *apiError {
	return n.during(ctx, func(ctx context.Context, life *life) error {
		begin := time.Now()
		if err := n.travel(ctx, from); err != nil {
			return err
		}
		if n.fault().Partial {
			return errBroken
		}
		if err := sleep(ctx, time.Duration(float64(n.cluster.serviceTime())*n.fault().factor()/getShare)); err != nil {
			return err
		}
		life.counts.got(time.Since(begin))
		n.gets.Add(1)
		return nil
	})
}

// shardOf is the engines' rule for the shard of a document.
func (s IndexSpec) shardOf(id string, routing *string) int {
	effective := id
	if routing != nil {
		effective = *routing
	}
	hash := routingHash(effective)
	if s.RoutingPartitionSize > 1 {
		hash += int32(modulo(routingHash(id), s.RoutingPartitionSize)) //nolint:gosec // a remainder is small
	}
	return modulo(hash, s.RoutingNumShards) / (s.RoutingNumShards / s.Shards)
}

// routingHash is murmur3 of a string as Java holds it.
func routingHash(s string) int32 {
	var bytes []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		bytes = append(bytes, byte(unit), byte(unit>>8))
	}
	return int32(murmur3.Sum32(bytes)) //nolint:gosec // the engines take the bits for a signed number
}

func modulo(a int32, m int) int { return (int(a)%m + m) % m }

// routedShards returns the shards that a search with comma separated routing values
// touches, nil for all.
func (s IndexSpec) routedShards(routing string) []int {
	if routing == "" {
		return nil
	}
	var shards []int
	for value := range strings.SplitSeq(routing, ",") {
		for part := range max(1, s.RoutingPartitionSize) {
			hash := routingHash(value) + int32(part) //nolint:gosec // a few parts
			shards = append(shards, modulo(hash, s.RoutingNumShards)/(s.RoutingNumShards/s.Shards))
		}
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}
