package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
)

// hangUp closes the connection without an answer, once it has the whole request.
func hangUp(_ string, w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// long is a bulk that is too long to be held where 32 KiB may be.
var long = strings.Repeat(five, 2000)

// A bulk that no node has got goes to another one.
func TestABulkThatWasNotSentGoesToAnotherNode(t *testing.T) {
	for name, body := range map[string]string{"held": five, "streamed": long} {
		t.Run(name, func(t *testing.T) {
			b := startBulks(t, 3, func(o *Options) { o.MaxHeldBody, o.Bulk.Avoid = 32<<10, false })
			b.end(1)
			elsewhere := 0
			for range 20 {
				resp, _ := b.do("POST", "/idx/_bulk", body)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				seen := b.seen()
				require.Len(t, seen, 1)
				if b.shardOf(body, seen[0]) == 1 {
					require.NotEqual(t, "b", seen[0].node)
					elsewhere++
				}
			}
			require.Positive(t, elsewhere)
			require.Equal(t, 1, tallied(b.proxy.metrics.failovers, "unreachable"), "then the node is known to be gone")
			require.EqualValues(t, 20*strings.Count(body, "\n")/2, b.documents())
		})
	}
}

// A bulk that may have been applied is not sent again: its documents would be there
// twice.
func TestABulkIsNeverRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(string, http.ResponseWriter, *http.Request)
		status int
	}{
		"the node hangs up":     {hangUp, http.StatusBadGateway},
		"the node is too busy":  {respond(http.StatusTooManyRequests, `{"status":429}`), http.StatusTooManyRequests},
		"the node is not ready": {respond(http.StatusServiceUnavailable, `{"status":503}`), http.StatusServiceUnavailable},
		"an error":              {respond(http.StatusInternalServerError, `{"status":500}`), http.StatusInternalServerError},
		"items are rejected":    {respond(http.StatusOK, itemsOf(5, 429)), http.StatusOK},
	} {
		for how, body := range map[string]string{"held": five, "streamed": long} {
			t.Run(name+", "+how, func(t *testing.T) {
				b := startBulks(t, 3, func(o *Options) { o.MaxHeldBody = 32 << 10 })
				b.answer = c.answer
				resp, _ := b.do("POST", "/idx/_bulk", body)
				require.Equal(t, c.status, resp.StatusCode)
				require.Len(t, b.seen(), 1)
				require.Zero(t, b.documents())
			})
		}
	}
}

// breaking writes nothing.
type breaking struct{ *httptest.ResponseRecorder }

func (breaking) WriteHeader(int) { panic(errors.New("on purpose")) }

// startTight starts nodes for bulks of which long ones are not held.
func startTight(t *testing.T) *bulks {
	t.Helper()
	return startBulks(t, 3, func(o *Options) { o.MaxHeldBody = 32 << 10 })
}

// However a bulk ends, its accounts are closed: documents looks for that.
func TestAccountsAreClosedWhereClientLeavesBeforeItsBody(t *testing.T) {
	for _, sent := range []string{five, long} {
		b := startTight(t)
		reader, writer := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.front.URL+"/idx/_bulk", reader)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-ndjson")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if resp, err := http.DefaultTransport.RoundTrip(r); err == nil {
				_ = resp.Body.Close()
			}
		}()
		_, err = io.WriteString(writer, sent)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return b.outstanding() == 1 }, patience, time.Millisecond, "the shard was not chosen")
		_ = writer.CloseWithError(io.ErrUnexpectedEOF) // the connection is closed
		<-ended
		require.Zero(t, b.documents())
	}
}

func TestAccountsAreClosedWhereClientLeavesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	b := startTight(t)
	arrived, leave := make(chan struct{}), make(chan struct{})
	b.answer = func(_ string, _ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-leave
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.front.URL+"/idx/_bulk", strings.NewReader(five))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	go func() {
		<-arrived
		cancel()
	}()
	_, err = http.DefaultTransport.RoundTrip(r)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, b.documents())
	close(leave)
}

func TestAccountsAreClosedWhereAnswerBreaksOff(t *testing.T) {
	b := startTight(t)
	b.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, itemsOf(2, 201))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.front.URL+"/idx/_bulk", strings.NewReader(five))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
	_ = resp.Body.Close()
	require.Zero(t, b.documents())
}

func TestAccountsAreClosedWhereHandlerPanics(t *testing.T) {
	b := startTight(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/idx/_bulk", strings.NewReader(five))
	r.Header.Set("Content-Type", "application/x-ndjson")
	require.Panics(t, func() { b.proxy.ServeHTTP(breaking{httptest.NewRecorder()}, r) })
	require.Zero(t, b.documents())
}

func TestAccountsAreClosedWhereNoNodeCanBeReached(t *testing.T) {
	b := startTight(t)
	b.end(0, 1, 2)
	for _, body := range []string{five, long} {
		resp, _ := b.do("POST", "/idx/_bulk", body)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	}
	require.Zero(t, b.documents())
}

func TestAccountsAreClosedWhereManyEndAtOnce(t *testing.T) {
	b := startTight(t)
	var n atomic.Int64
	b.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			hangUp(node, w, r)
		case 1:
			respond(http.StatusServiceUnavailable, "{}")(node, w, r)
		default:
			stored(node, w, r)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 25 {
				body := five
				if i%5 == 0 {
					body = long
				}
				resp, err := http.Post(b.front.URL+"/idx/_bulk", "application/x-ndjson", strings.NewReader(body)) //nolint:noctx // a test
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
		})
	}
	wg.Wait()
	require.Positive(t, b.documents())
}

// outstanding returns how many bulks are on their way by the books.
func (b *bulks) outstanding() (sum int) {
	standings, _ := b.books.Look(b.index, 1, 1.5).Preview(nil)
	for _, s := range standings {
		sum += s.Outstanding
	}
	return sum
}

// longBulk is a bulk of so many operations that is never in memory. Half way it waits.
type longBulk struct {
	left, half int
	at         []byte
	arrived    *sync.WaitGroup
	goOn       <-chan struct{}
}

func (e *longBulk) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(e.at) == 0 {
			if e.left == e.half && n == 0 {
				e.arrived.Done()
				<-e.goOn
			} else if e.left == e.half {
				return n, nil
			}
			if e.left == 0 {
				return n, io.EOF
			}
			e.left--
			e.at = oneDocument
		}
		moved := copy(p[n:], e.at)
		e.at = e.at[moved:]
		n += moved
	}
	return n, nil
}

var oneDocument = []byte("{\"index\":{}}\n{\"text\":\"" + strings.Repeat("x", 970) + "\"}\n")

// What is on its way is not kept: large bulks cost what they take on their way through.
func TestLargeBulksTakeLittleMemory(t *testing.T) {
	const (
		bulks      = 10
		operations = 80 << 20 / 1000 // 80 MB
		limit      = 20 << 20
	)
	b := startBulks(t, 3, nil)
	var got atomic.Int64
	b.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Add(n)
		_, _ = io.WriteString(w, itemsOf(1, 201))
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var arrived, ended sync.WaitGroup
	goOn := make(chan struct{})
	arrived.Add(bulks)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for range bulks {
		ended.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.front.URL+"/idx/_bulk",
				&longBulk{left: operations, half: operations / 2, arrived: &arrived, goOn: goOn})
			if err != nil {
				panic(err)
			}
			r.ContentLength = int64(operations * len(oneDocument))
			r.Header.Set("Content-Type", "application/x-ndjson")
			r.Header.Set("X-Stream", "1")
			resp, err := transport.RoundTrip(r)
			if err != nil {
				panic(err)
			}
			_ = resp.Body.Close()
		})
	}
	arrived.Wait()
	half := heap()
	close(goOn)
	ended.Wait()
	require.Less(t, half, before+limit, "live in the middle of %d bulks", bulks)
	require.EqualValues(t, bulks*operations, b.documents())
	inserted := len(fmt.Sprintf(`"routing":"%s"`, b.index.Values[0]))
	require.EqualValues(t, bulks*operations*(len(oneDocument)+inserted), got.Load())
}

// A bulk that would become longer than the nodes take goes on as it came: it would be refused as a whole.
func TestABulkDoesNotBecomeTooLong(t *testing.T) {
	b := startBulks(t, 3, nil)
	body := strings.Repeat(five, 20)
	s := b.snapshot()
	for i, n := range s.Nodes {
		n.MaxBody = int64(len(body) + 1000*i)
	}
	b.proxy.UseSnapshot(s)
	b.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		got := len(b.requests[len(b.requests)-1].body)
		b.mu.Unlock()
		if got > len(body) {
			respond(http.StatusRequestEntityTooLarge, "")(node, w, r)
			return
		}
		stored(node, w, r)
	}
	resp, _ := b.do("POST", "/idx/_bulk", body)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, body, b.seen()[0].body)
	require.Equal(t, 100, tallied(b.proxy.metrics.bulk.operations, string(bulk.ReasonTooLong)))
	resp, _ = b.do("POST", "/idx/_bulk", five)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	b.shardOf(five, b.seen()[0])
}
