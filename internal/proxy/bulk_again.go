package proxy

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/bulk"
	"sidestep/internal/es"
)

// maxRestored bounds the answer to a bulk that is put in order after a repetition.
const maxRestored = 32 << 20

// repeatable is a bulk that may be sent again although it may have been stored: each of
// its documents has an id that was made here.
type repeatable struct {
	body    []byte // the client's
	key     bulk.Key
	minted  bulk.Minted
	create  bool   // it has been sent before: what is stored is not to be written once more
	renamed []bool // see bulk.Rewriter
}

// holdRepeatable reads a bulk so that it can be repeated. What is too large streams, or
// has operations with ids of the client's, goes on as any other.
func (x *exchange) holdRepeatable(limit int64) bool {
	b, start := x.bulk, time.Now()
	read, err := x.readBody(x.r.Body, limit)
	x.reading = time.Since(start)
	body := slices.Clone(read) // what follows may be read into the same memory
	source := io.Reader(bytes.NewReader(body))
	if errors.Is(err, errTooMuch) || errors.Is(err, errNoRoom) {
		b.rewriter = b.newRewriter(io.MultiReader(source, x.r.Body), nil)
		return x.holdFrom(b, bulkPrefix)
	}
	if err != nil { // as any other body that does not come
		return x.holdFrom(failingBody{err}, 1)
	}
	again := &repeatable{body: body, key: bulkKey(x.r, body)}
	if !b.enter(again.key) {
		x.clientGone = true
		panic(http.ErrAbortHandler)
	}
	minted, known := x.p.o.Bulk.Books.Ambiguous.Take(again.key, x.Began)
	if known {
		again.minted, again.create, b.routings = minted, true, minted.Routings
	} else {
		again.minted.Prefix = newPrefix()
	}
	out, ok := b.rewrite(again)
	if !ok { // the memo of routings holds
		b.rewriter = b.newRewriter(bytes.NewReader(body), nil)
		return x.holdFrom(b, x.p.o.MaxHeldBody)
	}
	x.p.metrics.bulk.repeats.with(repeatPrepared).Inc()
	if known {
		x.p.metrics.bulk.repeats.with(repeatMatched).Inc()
	}
	again.minted.Routings, b.again = b.routings, again
	x.body, x.RequestBytes = out, int64(len(body))
	return true
}

// enter waits until no equal bulk is under way. It reports whether the client still waits.
func (b *bulkWrite) enter(k bulk.Key) bool {
	ambiguous := &b.x.p.o.Bulk.Books.Ambiguous
	for wait := ambiguous.Enter(k); wait != nil; wait = ambiguous.Enter(k) {
		select {
		case <-wait:
		case <-b.x.r.Context().Done():
			return false
		}
	}
	b.entered = &k
	return true
}

// failingBody is a body whose reading has failed.
type failingBody struct{ err error }

// Read implements io.Reader.
func (f failingBody) Read([]byte) (int, error) { return 0, f.err }

// Close implements io.Closer.
func (failingBody) Close() error { return nil }

// rewrite returns the bulk as it is sent. It reports false if some operation keeps an id
// or a routing of the client's.
func (b *bulkWrite) rewrite(again *repeatable) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rewriter = b.newRewriter(bytes.NewReader(again.body), again)
	out, _ := io.ReadAll(b.rewriter) // from memory
	again.renamed = b.rewriter.Renamed()
	t := b.rewriter.Tally()
	return out, t.Planned > 0 && t.Planned == t.Operations
}

// bulkKey identifies a bulk: the same body from the same client to the same place.
func bulkKey(r *http.Request, body []byte) bulk.Key {
	h := sha256.New()
	for _, part := range []string{r.Method, r.RequestURI, strings.Join(r.Header["Authorization"], "\n"), r.Header.Get("Content-Type")} {
		_, _ = io.WriteString(h, strconv.Itoa(len(part))+":"+part)
	}
	if r.TLS != nil {
		for _, c := range r.TLS.PeerCertificates {
			_, _ = h.Write(c.Raw)
		}
	}
	_, _ = h.Write(body)
	return bulk.Key(h.Sum(nil))
}

// newPrefix returns what the ids of one bulk begin with: as many random bits as the
// engines' own have.
func newPrefix() string {
	var random [15]byte
	_, _ = rand.Read(random[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// repeats reports whether the bulk can be sent again although it may have been stored.
func (b *bulkWrite) repeats() bool { return b != nil && b.again != nil }

// bodyToSend returns the body of the next attempt: from the second one that may have
// been received on, what is stored is left alone.
func (x *exchange) bodyToSend() []byte {
	if x.bulk.repeats() && !x.bulk.again.create && x.received() {
		x.bulk.again.create = true
		x.body, _ = x.bulk.rewrite(x.bulk.again)
		x.p.metrics.bulk.repeats.with(repeatSent).Inc()
	}
	return x.body
}

// received reports whether a node may have received the request.
func (x *exchange) received() bool {
	for _, t := range x.tries {
		if t.cause != attempt.Unreachable {
			return true
		}
	}
	return false
}

// remember notes that nobody knows whether the bulk was stored, unless the client does.
func (b *bulkWrite) remember(now time.Time) {
	x := b.x
	if b.entered != nil {
		defer x.p.o.Bulk.Books.Ambiguous.Leave(*b.entered)
	}
	if !b.repeats() || x.complete && x.Answered >= 0 || !b.again.create && !x.received() {
		return
	}
	x.p.o.Bulk.Books.Ambiguous.Remember(b.again.key, b.again.minted, now)
	x.p.metrics.bulk.repeats.with(repeatRemembered).Inc()
}

// restoreItems puts the answer to a repetition in order: an id that is taken is one that
// this bulk took before, and operations have the names that the client gave them.
func (x *exchange) restoreItems(t *try) {
	resp := t.resp
	if resp.StatusCode != http.StatusOK || !es.AcceptsJSON(resp.Header.Get("Content-Type")) {
		return
	}
	body := t.readHead(maxRestored+1, nil)
	if !errors.Is(t.readErr, io.EOF) || len(body) > maxRestored {
		return
	}
	if restored, ok := restoreItems(body, x.bulk.again.renamed); ok {
		t.begin, resp.ContentLength = restored, int64(len(restored))
		resp.Header.Set("Content-Length", strconv.Itoa(len(restored)))
	}
}

// item is the result of one operation of a bulk, as far as it matters.
type item struct {
	Index  string          `json:"_index"`
	ID     string          `json:"_id"`
	Status int             `json:"status"`
	Error  json.RawMessage `json:"error"`
}

func restoreItems(body []byte, renamed []bool) ([]byte, bool) {
	var answer struct {
		Took  json.RawMessage              `json:"took"`
		Items []map[string]json.RawMessage `json:"items"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Items) != len(renamed) || len(answer.Took) == 0 {
		return nil, false
	}
	var items bytes.Buffer
	failed := false
	for i, verbs := range answer.Items {
		raw, verb := verbs["create"], "create"
		var result item
		if len(verbs) != 1 || json.Unmarshal(raw, &result) != nil {
			return nil, false
		}
		if renamed[i] {
			verb = "index"
		}
		switch {
		case result.Status == http.StatusConflict:
			name, _ := json.Marshal(result.Index) //nolint:errchkjson // a string always marshals
			id, _ := json.Marshal(result.ID)      //nolint:errchkjson // as above
			raw = []byte(`{"_index":` + string(name) + `,"_id":` + string(id) + `,"_version":1,"result":"created","status":201}`)
		case result.Status >= http.StatusMultipleChoices:
			failed = true
		}
		if i > 0 {
			items.WriteByte(',')
		}
		items.WriteString(`{"` + verb + `":`)
		items.Write(raw)
		items.WriteByte('}')
	}
	return []byte(`{"took":` + string(answer.Took) + `,"errors":` + strconv.FormatBool(failed) + `,"items":[` + items.String() + `]}`), true
}
