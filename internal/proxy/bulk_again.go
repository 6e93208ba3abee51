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

// repeatable is a bulk that may be repeated even if it may have been stored: sidestep
// gave each of its documents an id.
type repeatable struct {
	body   []byte // the client's
	key    bulk.Key
	minted bulk.Minted
	create bool // it has been sent before: documents that are stored must not be written again
}

// mayRepeat reports whether the bulk is to be one that can be repeated. If the answer to a repetition cannot be decoded, it
// cannot be merged either.
func (b *bulkWrite) mayRepeat() bool {
	return b != nil && b.x.p.o.Bulk.Idempotent && b.mode == ModeRoute && !b.line.Filtered && es.AcceptsJSON(joined(b.x.r.Header["Accept"]))
}

// holdRepeatable reads a bulk so that it can be repeated. A bulk that is too large
// streams. One with ids of the client's is handled like any other.
func (x *exchange) holdRepeatable(limit int64) bool {
	b, start := x.bulk, time.Now()
	read, err := x.readBody(x.r.Body, limit)
	x.reading += time.Since(start)
	switch {
	case errors.Is(err, errTooMuch), errors.Is(err, errNoRoom): // it streams. Its beginning says through which node
		if len(read) <= heldScratch {
			read = bytes.Clone(read) // it is in the scratch
		}
		b.rewriter = b.newRewriter(io.MultiReader(bytes.NewReader(read), x.r.Body))
		return x.holdFrom(b, bulkPrefix)
	case err != nil:
		return x.hasRead(x.r.Body, nil, err)
	}
	again := &repeatable{body: read, key: bulkKey(x.r, read)}
	if !b.enter(again.key) {
		panic(http.ErrAbortHandler)
	}
	b.again = again
	switch {
	case x.assignIDs():
		return true
	case again.create: // as a new bulk it would be stored a second time
		x.answerUnresolved()
		return false
	}
	b.again = nil
	x.p.o.Bulk.Books.Ambiguous.Leave(again.key) // equal bulks need not wait for it
	// An index that has been given a shard for this bulk keeps it.
	b.rewriter = b.newRewriter(bytes.NewReader(read))
	x.body, _ = io.ReadAll(b) // from memory
	x.RequestBytes = int64(len(read))
	return true
}

// assignIDs gives the documents of a bulk ids: the same as before, if its client has sent it before. It returns false
// if it cannot be repeated, or there is no memory for that: it is held as it arrived and as it is sent, the latter twice
// if it is repeated.
func (x *exchange) assignIDs() bool {
	b, again := x.bulk, x.bulk.again
	again.minted, again.create = x.p.o.Bulk.Books.Ambiguous.Take(again.key, x.Began)
	if b.chosen = again.minted.Places; !again.create {
		again.minted.Prefix = newPrefix()
	}
	size := int64(len(again.body))
	fits := func(bytes int64) bool { return size <= heldScratch || x.reserve(bytes) }
	if !fits(2 * size) {
		return false
	}
	out, ok := b.rewrite()
	if again.create && !ok && len(again.minted.Places) == 1 { // the index is another one by now, which takes no ids: what was stored went with the former
		again.create, b.chosen = false, nil
	}
	if !ok || !fits(2*(int64(len(out))-size)) {
		return false
	}
	again.minted.Places = b.chosen
	x.body, x.RequestBytes = out, size
	x.p.metrics.bulk.repeats.WithLabelValues(repeatPrepared).Inc()
	if again.create {
		x.p.metrics.bulk.repeats.WithLabelValues(repeatMatched).Inc()
	}
	return true
}

// enter waits until no equal bulk is in flight. It reports whether the client still
// waits.
func (b *bulkWrite) enter(k bulk.Key) bool {
	ambiguous, began := &b.x.p.o.Bulk.Books.Ambiguous, time.Now()
	defer func() { b.x.reading += time.Since(began) }()
	for wait := ambiguous.Enter(k); wait != nil; wait = ambiguous.Enter(k) {
		select {
		case <-wait:
		case <-b.x.r.Context().Done():
			return false
		}
	}
	return true
}

// maxRepeated is how many operations a bulk may have that can be repeated: the answer to it is parsed. An item of it that
// tells of an error may take 2 KiB.
const maxRepeated = maxResult / 2048

// rewrite returns the bulk as it is sent; false if some operation has an id or a routing
// of the client's, or its index refuses ids, or if the items of its answer could not be matched with
// its operations.
func (b *bulkWrite) rewrite() ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rewriter = b.newRewriter(bytes.NewReader(b.again.body))
	out, _ := io.ReadAll(b.rewriter) // from memory
	t := b.rewriter.Tally()
	refuses := slices.ContainsFunc(t.Placed, func(p bulk.Placed) bool {
		index, _ := b.x.p.o.Bulk.Index(p.Index)
		return index.AppendOnly
	})
	return out, t.Planned > 0 && t.Planned == t.Operations && t.Planned <= maxRepeated && !t.Open && !refuses
}

// bulkKey identifies a bulk: the same body from the same client to the same URL.
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

// newPrefix returns the first part of the ids of one bulk. It has as many random bits as
// the engines' own ids.
func newPrefix() string {
	var random [15]byte
	_, _ = rand.Read(random[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// repeats reports whether the bulk can be repeated even if it may have been stored.
func (b *bulkWrite) repeats() bool { return b != nil && b.again != nil }

// bodyToSend returns the body of the next attempt. Once an attempt may have been
// received, the operations no longer overwrite what is stored.
func (x *exchange) bodyToSend() []byte {
	if x.bulk.repeats() && !x.bulk.again.create && x.received() {
		x.bulk.again.create = true
		x.body, _ = x.bulk.rewrite()
		x.p.metrics.bulk.repeats.WithLabelValues(repeatSent).Inc()
	}
	return x.body
}

// received reports whether a node may have received the request.
func (x *exchange) received() bool {
	return slices.ContainsFunc(x.tries, func(t *try) bool { return t.cause != attempt.Unreachable })
}

// remember records that it is unknown whether the bulk was stored, unless the client
// knows.
func (b *bulkWrite) remember(now time.Time) {
	if !b.repeats() {
		return
	}
	x, ambiguous := b.x, &b.x.p.o.Bulk.Books.Ambiguous
	defer ambiguous.Leave(b.again.key)
	if !b.again.create && !x.received() {
		return
	}
	// An error for the whole bulk does not tell what earlier attempts did. Neither does
	// an error that a balancer in front of the nodes may have made.
	told := x.Status == http.StatusOK || !b.again.create && x.Status < http.StatusInternalServerError
	if x.complete && x.Answered >= 0 && !b.left && told {
		b.awaitReading(now)
		return
	}
	ambiguous.Remember(b.again.key, b.again.minted, now)
	x.p.metrics.bulk.repeats.WithLabelValues(repeatRemembered).Inc()
}

// restore corrects the result of a repetition. An id that is taken was taken by this bulk
// before, and operations get back the names that the client gave them. It returns false
// if the result cannot be read, or some operation may have been stored before and was
// rejected now: then it is unknown what was stored. An internal error is about the document
// if it is there again when the client has sent the bulk once more: it would come for ever.
func (a *repeatable) restore(r *bulkResult) bool {
	operations, _ := splitOperations(a.body)
	if len(r.items) != len(operations) {
		return false
	}
	for i, raw := range r.items {
		verb, one := itemOf(raw)
		named := operations[i].verb
		switch {
		case verb == "":
			return false
		case one.Status == http.StatusInternalServerError && !a.minted.Crashed:
			a.minted.Crashed = true // remembered with the bulk
			return false
		case one.Status == http.StatusTooManyRequests, one.Status > http.StatusInternalServerError:
			return false
		case one.Status == http.StatusConflict:
			raw = one.created(named)
		case verb != string(named): // the first match is the verb
			raw = bytes.Replace(raw, []byte(strconv.Quote(verb)), []byte(strconv.Quote(string(named))), 1)
		}
		r.items[i] = raw
	}
	return true
}

// created returns the item of an operation of which the document is stored. Engines that have types
// tell them, and their clients need them. A filter_path leaves the status alone.
func (i *item) created(verb es.BulkVerb) json.RawMessage {
	type stored struct {
		Index   string `json:"_index,omitempty"`
		Type    string `json:"_type,omitempty"`
		ID      string `json:"_id,omitempty"`
		Version int    `json:"_version,omitempty"`
		Result  string `json:"result,omitempty"`
		Status  int    `json:"status"`
	}
	s := stored{Index: i.Index, Type: i.Type, ID: i.ID, Status: http.StatusCreated}
	if i.Index != "" {
		s.Version, s.Result = 1, "created"
	}
	raw, _ := json.Marshal(map[es.BulkVerb]stored{verb: s}) //nolint:errchkjson // strings and numbers always marshal
	return raw
}

// answerUnresolved answers a bulk of which it is unknown what was stored. If the client
// sends the same bulk again, it is recognised.
func (x *exchange) answerUnresolved() {
	x.Outcome = string(outcomeUnreachable)
	x.answerOwn(http.StatusServiceUnavailable, "upstream_connection_exception", "a connection broke, and the cluster refuses what was sent again; send the same bulk again")
}
