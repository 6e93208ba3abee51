package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/es"
)

const (
	// firstRetry is about how long rejected operations wait before they are repeated. The
	// wait doubles each time.
	firstRetry = 50 * time.Millisecond
	// maxResult bounds the answer to a bulk that is parsed.
	maxResult = 32 << 20
)

// resolveBulk notes whether operations failed, where that matters. It makes the answer to a
// bulk that can be repeated tell the result of each operation. Operations that the engine
// rejected are repeated for bulk.retry_rejected since the request arrived, and results of
// repetitions are merged. It returns false if the result of some operation is unknown: then
// the client is to repeat the bulk.
func (x *exchange) resolveBulk(t *try) bool {
	b := x.bulk
	if b == nil || t == nil || t.resp == nil {
		return true
	}
	defer func() { b.answered(t, time.Now()) }()
	if t.resp.StatusCode != http.StatusOK || !b.timed && !b.repeats() {
		return true
	}
	failed, known := t.someFailed()
	b.failed = failed || !known
	if !b.repeats() || !b.again.create && (x.p.o.Bulk.RetryRejected <= 0 || known && !failed) {
		return true // it passes unchanged
	}
	// It is held as it came and as items, and so is the answer to what is sent again.
	result, ok := readResult(t, t.beyondRoom(4, 0))
	if !ok {
		return !b.again.create
	}
	changed := x.p.o.Bulk.RetryRejected > 0 && x.retryRejected(result, t.body)
	if b.again.create {
		if changed = b.again.restore(result); !changed {
			return false
		}
	}
	if changed {
		t.begin = result.encode()
		t.resp.ContentLength = int64(len(t.begin))
		t.resp.Header.Set("Content-Length", strconv.Itoa(len(t.begin)))
		t.resp.Header.Del("Content-Encoding")
		t.resp.Header.Del("ETag")
	}
	return true
}

// someFailed reports whether the answer to a bulk says at its beginning that some operation
// failed. Most say that none did, and are not parsed. known is false if it says neither.
func (t *try) someFailed() (failed, known bool) {
	began := time.Now()
	t.readHead(headLimit, func(prefix []byte, _ bool) bool {
		failed, known = es.BulkErrors(prefix)
		return known
	})
	t.x.Upstream += time.Since(began)
	return failed, known
}

// retryRejected repeats operations that the engine rejected (429), and replaces their
// items in the result. It reports whether it did.
func (x *exchange) retryRejected(result *bulkResult, sent []byte) (changed bool) {
	operations, ok := splitOperations(sent)
	if !ok || len(operations) != len(result.items) {
		return false
	}
	deadline := x.Began.Add(x.p.o.Bulk.RetryRejected)
	for wait := firstRetry; ; wait *= 2 {
		rejected, body := result.rejected(operations)
		jittered := wait/2 + rand.N(wait)
		if len(rejected) == 0 || time.Now().Add(jittered).After(deadline) || !x.p.otherBudget.Allows() || !x.waitsFor(jittered) {
			return changed
		}
		x.p.metrics.bulk.retried.Add(float64(len(rejected)))
		answered, broken := x.sendRejected(body, len(rejected))
		if broken && !x.bulk.again.create { // from now on operations do not overwrite what is stored
			x.bulk.again.create = true
			again, _ := x.bulk.rewrite()
			operations, _ = splitOperations(again)
		}
		accepted := false
		for i, at := range rejected {
			if answered != nil {
				result.items[at], changed = answered.items[i], true
				_, one := itemOf(answered.items[i])
				accepted = accepted || !one.rejected()
			}
		}
		if !accepted {
			x.p.otherBudget.Failed()
		}
	}
}

// sendRejected repeats operations and returns their result; nil if it is unknown. broken
// says that they may have been received nevertheless.
func (x *exchange) sendRejected(body []byte, operations int) (result *bulkResult, broken bool) {
	t, now := newTry(x), time.Now()
	t.query, t.body = x.query, body
	if t.upstream = x.p.pick(x.view, x.near, nil, nil, now); t.upstream == nil {
		t.release()
		return nil, false
	}
	x.sendTo(t, now)
	defer t.discard() // of what is read the items are kept
	switch {
	case t.err != nil:
		return nil, t.cause != attempt.Unreachable
	case t.resp.StatusCode != http.StatusOK:
		return nil, t.resp.StatusCode != http.StatusTooManyRequests
	}
	result, ok := readResult(t, nil)
	if !ok || len(result.items) != operations {
		return nil, true
	}
	return result, false
}

// operation is one of a bulk, with its lines.
type operation struct {
	verb  es.BulkVerb
	lines []byte
}

// splitOperations returns the operations of a bulk.
func splitOperations(body []byte) (operations []operation, ok bool) {
	for len(body) > 0 {
		line, _, found := bytes.Cut(body, []byte{'\n'})
		if !found {
			return nil, false
		}
		if len(bytes.TrimSpace(line)) == 0 {
			body = body[len(line)+1:]
			continue
		}
		action, ok := es.ReadBulkAction(line)
		if !ok {
			return nil, false
		}
		end := len(line) + 1
		if action.Verb != es.BulkDelete {
			source := bytes.IndexByte(body[end:], '\n')
			if source < 0 {
				return nil, false
			}
			end += source + 1
		}
		operations, body = append(operations, operation{action.Verb, body[:end]}), body[end:]
	}
	return operations, true
}

// bulkResult is the answer to a bulk. Its members are unchanged, except the items.
type bulkResult struct {
	names  []string // of the members, in their order
	values map[string]json.RawMessage
	items  []json.RawMessage
}

// readResult reads the whole answer to a bulk, unless stop says otherwise.
func readResult(t *try, stop func([]byte, bool) bool) (*bulkResult, bool) {
	if !es.AcceptsJSON(t.resp.Header.Get("Content-Type")) {
		return nil, false
	}
	began := time.Now()
	body := t.readHead(maxResult+1, stop)
	t.x.Upstream += time.Since(began)
	if !errors.Is(t.readErr, io.EOF) || len(body) > maxResult {
		return nil, false
	}
	return parseResult(body)
}

func parseResult(body []byte) (*bulkResult, bool) {
	r := &bulkResult{values: map[string]json.RawMessage{}}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if name == "items" {
			err = decoder.Decode(&r.items)
		} else {
			err = decoder.Decode(&value)
		}
		if err != nil {
			return nil, false
		}
		r.names = append(r.names, name.(string)) // a key is
		r.values[name.(string)] = value
	}
	return r, r.items != nil
}

// encode returns the result as an answer.
func (r *bulkResult) encode() []byte {
	failed := false
	raws := make([][]byte, len(r.items))
	for i, raw := range r.items {
		_, one := itemOf(raw)
		failed, raws[i] = failed || one.Status >= http.StatusBadRequest, raw
	}
	r.values["errors"] = json.RawMessage(strconv.FormatBool(failed))
	r.values["items"] = append(append(json.RawMessage{'['}, bytes.Join(raws, []byte{','})...), ']')
	b := []byte{'{'}
	for i, name := range r.names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, name), ':')
		b = append(b, r.values[name]...)
	}
	return append(b, '}')
}

// item is the result of one operation, as far as it is needed.
type item struct {
	Index  string          `json:"_index"`
	Type   string          `json:"_type"`
	ID     string          `json:"_id"`
	Status int             `json:"status"`
	Error  json.RawMessage `json:"error"`
}

// blocked is the type, as it is in JSON, of the error of an operation that is rejected (429) for as long as a block is on its index, as that of a
// node of which the disk is full. It is no load that passes.
const blocked = `"cluster_block_exception"`

// rejected reports whether the operation may be accepted a moment later.
func (i *item) rejected() bool {
	return i.Status == http.StatusTooManyRequests && !bytes.Contains(i.Error, []byte(blocked))
}

// itemOf returns the verb and the result of an item; "" if it is no item.
func itemOf(raw json.RawMessage) (string, item) {
	var verbs map[string]item
	if json.Unmarshal(raw, &verbs) != nil || len(verbs) != 1 {
		return "", item{}
	}
	for verb, one := range verbs {
		return verb, one
	}
	return "", item{}
}

// rejected returns the numbers of the rejected operations, and a bulk of them.
func (r *bulkResult) rejected(operations []operation) (numbers []int, body []byte) {
	for i, raw := range r.items {
		if _, one := itemOf(raw); one.rejected() {
			numbers, body = append(numbers, i), append(body, operations[i].lines...)
		}
	}
	return numbers, body
}
