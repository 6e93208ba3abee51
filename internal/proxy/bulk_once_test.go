package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unreliable is an index behind nodes that do all that nodes may do with a bulk.
type unreliable struct {
	mu     sync.Mutex
	rng    *rand.Rand
	stored map[string]map[string]int // by document and id: how often it was written
	leave  context.CancelFunc        // the client of the bulk in flight leaves
}

// item stores a document, or does not, and returns what is said of it.
func (u *unreliable) item(verb, id, document string) string {
	status := 201
	_, there := u.stored[document][id]
	switch chance := u.rng.IntN(20); {
	case strings.Contains(document, `"bad"`):
		status = 400
	case strings.Contains(document, `"crash"`):
		status = 500
	case chance < 2:
		status = 429
	case chance < 3:
		status = 503
	case there && verb == "create":
		status = 409
	default:
		if u.stored[document] == nil {
			u.stored[document] = map[string]int{}
		}
		u.stored[document][id]++
	}
	if status == 201 {
		return fmt.Sprintf(`{%q:{"_index":"idx","_id":%q,"_version":1,"result":"created","status":201}}`, verb, id)
	}
	return fmt.Sprintf(`{%q:{"_index":"idx","_id":%q,"status":%d,"error":{"type":"some"}}}`, verb, id, status)
}

func (u *unreliable) answer(h *harness, w http.ResponseWriter, r *http.Request, body string) {
	u.mu.Lock()
	chance := u.rng.IntN(20)
	if chance == 0 {
		u.mu.Unlock()
		breakConnection(w)
		return
	}
	if chance == 1 {
		u.mu.Unlock()
		respond(http.StatusTooManyRequests, `{"error":{"type":"es_rejected_execution_exception"},"status":429}`)("", w, r)
		return
	}
	var items []string
	for _, o := range operationsOf(body) {
		items = append(items, u.item(o.verb, o.id, o.document))
	}
	all := strings.Join(items, ",")
	text := fmt.Sprintf(`{"took":1,"errors":%t,"items":[%s]}`, strings.Contains(all, `"error":`), all)
	leave := u.leave
	u.mu.Unlock()
	switch {
	case chance < 5:
		breakConnection(w)
	case chance == 5:
		http.Error(w, "upstream timed out", http.StatusGatewayTimeout)
	case chance == 6: // cut off
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = io.WriteString(w, text[:len(text)/2])
		panic(http.ErrAbortHandler)
	case chance == 7:
		leave()
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		if chance%2 == 0 {
			_ = http.NewResponseController(w).Flush() // chunks
		}
		_, _ = io.WriteString(w, text)
	}
}

// send sends a bulk until it is answered with 200, and returns the items' statuses.
func (u *unreliable) send(t *testing.T, h *harness, body string) []int {
	for range 200 {
		ctx, leave := context.WithCancel(t.Context())
		u.mu.Lock()
		u.leave = leave
		u.mu.Unlock()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.front.URL+"/idx/_bulk", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-ndjson")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			leave()
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		leave()
		if err != nil || resp.StatusCode != http.StatusOK {
			continue
		}
		var answer struct {
			Errors bool
			Items  []map[string]struct {
				ID     string `json:"_id"`
				Status int
			}
		}
		require.NoError(t, json.Unmarshal(text, &answer), string(text))
		var statuses []int
		failed := false
		for i, item := range answer.Items {
			for verb, one := range item {
				require.True(t, strings.HasPrefix(strings.Split(body, "\n")[2*i], `{"`+verb+`"`), string(text))
				statuses = append(statuses, one.Status)
				failed = failed || one.Status >= 400
			}
		}
		require.Equal(t, failed, answer.Errors)
		return statuses
	}
	t.Fatal("it is never answered")
	return nil
}

// Whatever nodes do and clients repeat, what they are told was stored is there once, and nothing else.
func TestWhateverHappensDocumentsAreStoredOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			u := &unreliable{rng: rand.New(rand.NewPCG(seed, 3)), stored: map[string]map[string]int{}}
			h, _ := startStore(t, func(b *Bulk) {
				b.Idempotent = true
				b.RetryRejected = time.Duration(seed%2) * 200 * time.Millisecond
			})
			h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
				h.mu.Lock()
				body := h.requests[len(h.requests)-1].body
				h.mu.Unlock()
				u.answer(h, w, r, body)
			}
			n := 0
			for range 30 {
				var body strings.Builder
				var documents []string
				for range 1 + n%4 {
					n++
					kind := []string{"good", "good", "good", "good", "bad", "crash"}[n*7%6]
					document := fmt.Sprintf(`{"n":%d,"kind":%q}`, n, kind)
					documents = append(documents, document)
					fmt.Fprintf(&body, "{%q:{}}\n%s\n", []string{"index", "create"}[n%2], document)
				}
				for times := 1; times <= 2; times++ { // an equal bulk after one that was answered is another one
					statuses := u.send(t, h, body.String())
					require.Len(t, statuses, len(documents))
					u.mu.Lock()
					for i, document := range documents {
						for _, written := range u.stored[document] {
							require.Equal(t, 1, written, document)
						}
						if statuses[i] == 201 {
							require.Len(t, u.stored[document], 1, document)
						} else {
							require.Empty(t, u.stored[document], "%s %d", document, statuses[i])
						}
						delete(u.stored, document)
					}
					u.mu.Unlock()
				}
			}
		})
	}
}
