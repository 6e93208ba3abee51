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

	"sidestep/internal/es"
	"sidestep/internal/leg"
)

const (
	// firstRetry is how long rejected operations wait before they are sent again, about;
	// each further time they wait twice as long.
	firstRetry = 50 * time.Millisecond
	// maxRetried bounds the answer to one round of them.
	maxRetried = maxRestored
)

// bulkResult is the answer to a bulk, its items as they came.
type bulkResult struct {
	Took   json.RawMessage   `json:"took"`
	Errors bool              `json:"errors"`
	Items  []json.RawMessage `json:"items"`
}

// statusOf returns the status of an item, 0 if it has none.
func statusOf(raw json.RawMessage) int {
	var verbs map[string]struct{ Status int }
	if json.Unmarshal(raw, &verbs) != nil || len(verbs) != 1 {
		return 0
	}
	for _, result := range verbs {
		return result.Status
	}
	return 0
}

// retryRejected sends operations again that the engine rejected as a queue was full
// (429), until bulk.retry_rejected has passed since the request came. The client gets one
// answer, with an item for each operation in the order that it sent them.
func (x *exchange) retryRejected(t *try) {
	resp, deadline := t.resp, x.Began.Add(x.p.o.Bulk.RetryRejected)
	if resp.StatusCode != http.StatusOK || !es.AcceptsJSON(resp.Header.Get("Content-Type")) || resp.Header.Get("Content-Encoding") != "" {
		return
	}
	body := t.readHead(maxRetried+1, nil)
	if !errors.Is(t.readErr, io.EOF) || len(body) > maxRetried || !bytes.Contains(body, []byte("429")) {
		return
	}
	var result bulkResult
	operations, ok := splitOperations(t.body)
	if json.Unmarshal(body, &result) != nil || !ok || len(result.Items) != len(operations) {
		return
	}
	changed := false
	for wait := firstRetry; ; wait *= 2 {
		rejected, out := rejectedOf(result.Items, operations)
		jittered := wait/2 + rand.N(wait)
		if len(rejected) == 0 || time.Now().Add(jittered).After(deadline) || !x.p.otherBudget.Allows() || !x.sleep(jittered) {
			break
		}
		x.p.metrics.bulk.retried.Add(float64(len(rejected)))
		items := x.sendRejected(out, len(rejected))
		if items == nil {
			break
		}
		for i, at := range rejected {
			result.Items[at], changed = items[i], true
		}
	}
	if changed {
		t.begin = result.encode()
		resp.ContentLength = int64(len(t.begin))
		resp.Header.Set("Content-Length", strconv.Itoa(len(t.begin)))
	}
}

// encode returns the result as an answer.
func (r *bulkResult) encode() []byte {
	failed := false
	for _, raw := range r.Items {
		failed = failed || statusOf(raw) >= http.StatusMultipleChoices
	}
	var b bytes.Buffer
	b.WriteString(`{"took":` + string(r.Took) + `,"errors":` + strconv.FormatBool(failed) + `,"items":[`)
	b.Write(bytes.Join(asBytes(r.Items), []byte{','}))
	b.WriteString("]}")
	return b.Bytes()
}

func asBytes(raws []json.RawMessage) [][]byte {
	all := make([][]byte, len(raws))
	for i, raw := range raws {
		all[i] = raw
	}
	return all
}

// splitOperations returns the lines of each operation of a bulk.
func splitOperations(body []byte) (operations [][]byte, ok bool) {
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
		operations, body = append(operations, body[:end]), body[end:]
	}
	return operations, true
}

// rejectedOf returns the numbers of the operations that were rejected, and a bulk of them.
func rejectedOf(items []json.RawMessage, operations [][]byte) (rejected []int, body []byte) {
	for i, raw := range items {
		if statusOf(raw) == http.StatusTooManyRequests {
			rejected, body = append(rejected, i), append(body, operations[i]...)
		}
	}
	return rejected, body
}

// sendRejected sends operations again and returns their items; nil if they were not sent,
// or refused as a whole. If nobody knows whether they were stored, the items say so.
func (x *exchange) sendRejected(body []byte, operations int) []json.RawMessage {
	t := newTry(x)
	defer t.release()
	t.query, t.body = x.r.URL.RawQuery, body
	if t.upstream = x.p.pick(x.view, x.bulk.wants(), nil, time.Now()); t.upstream == nil {
		return nil
	}
	began := time.Now()
	t.resp, t.err = x.sendHeld(t) //nolint:bodyclose // release closes it
	x.Upstream += time.Since(began)
	switch {
	case leg.NotSent(t.err):
		return nil
	case t.err != nil:
		x.p.otherBudget.Failed()
		return unknownItems(body)
	case t.resp.StatusCode != http.StatusOK:
		return nil
	}
	var result bulkResult
	answer := t.readHead(maxRetried+1, nil)
	if !errors.Is(t.readErr, io.EOF) || json.Unmarshal(answer, &result) != nil || len(result.Items) != operations {
		return unknownItems(body)
	}
	return result.Items
}

// unknownItems returns items for operations of which nobody knows whether they were
// stored: what a client is told whose connection broke.
func unknownItems(body []byte) []json.RawMessage {
	operations, _ := splitOperations(body)
	items := make([]json.RawMessage, len(operations))
	for i, operation := range operations {
		line, _, _ := bytes.Cut(operation, []byte{'\n'})
		action, _ := es.ReadBulkAction(line)
		items[i] = json.RawMessage(`{"` + string(action.Verb) + `":{"status":502,"error":{"type":"upstream_connection_exception","reason":"sidestep: the connection to the cluster broke before an answer came"}}}`)
	}
	return items
}

// sleep waits, and reports false if the client leaves meanwhile.
func (x *exchange) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}
