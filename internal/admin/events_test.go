package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

// reader is a client of /events; a stuck one reads nothing.
type reader struct {
	*httptest.ResponseRecorder
	stuck    bool
	mu       sync.Mutex
	deadline time.Time
}

// SetWriteDeadline is what http.ResponseController looks for.
func (r *reader) SetWriteDeadline(at time.Time) error {
	r.deadline = at
	return nil
}

func (r *reader) Write(p []byte) (int, error) {
	if r.stuck {
		time.Sleep(time.Until(r.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ResponseRecorder.Write(p)
}

// events returns the data of the events read so far.
func (r *reader) events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var data []string
	for _, event := range strings.SplitAfter(r.Body.String(), "\n\n") {
		if event != "" {
			data = append(data, strings.TrimSuffix(strings.TrimPrefix(event, "event: status\ndata: "), "\n\n"))
		}
	}
	return data
}

// listen opens n streams and returns them with what ends them.
func listen(h http.Handler, readers ...*reader) (leave func(), left *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(context.Background())
	left = new(sync.WaitGroup)
	for _, r := range readers {
		left.Go(func() {
			h.ServeHTTP(r, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/events", http.NoBody))
		})
	}
	return cancel, left
}

func newReaders(n int) []*reader {
	readers := make([]*reader, n)
	for i := range readers {
		readers[i] = &reader{ResponseRecorder: httptest.NewRecorder()}
	}
	return readers
}

func TestEventsAreMadeOnceForAllAndForNobodyNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &fake{mode: "route", nodes: []string{"<a>"}}
		h := newHandler(service)
		time.Sleep(time.Minute)
		require.Zero(t, service.asked.Load())

		readers := newReaders(20)
		leave, left := listen(h, readers[:10]...)
		time.Sleep(300 * time.Millisecond)
		leaveToo, leftToo := listen(h, readers[10:]...)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 11, service.asked.Load())
		for _, r := range readers {
			events := r.events()
			require.Len(t, events, 11)
			var status struct {
				At        time.Time        `json:"at"`
				Version   string           `json:"version"`
				Mode      string           `json:"mode"`
				Nodes     []string         `json:"nodes"`
				Decisions map[string]int64 `json:"decisions"`
				Ready     admin.Readiness  `json:"ready"`
			}
			require.NoError(t, json.Unmarshal([]byte(events[10]), &status), events[10])
			require.WithinDuration(t, time.Now(), status.At, time.Second)
			require.Equal(t, "1.2.3<b>", status.Version)
			require.Equal(t, "route", status.Mode)
			require.Equal(t, []string{"<a>"}, status.Nodes)
			require.Equal(t, map[string]int64{"<ranked>": 7}, status.Decisions)
			require.True(t, status.Ready.OK)
			require.Equal(t, "text/event-stream", r.Header().Get("Content-Type"))
			require.True(t, r.Flushed)
		}

		leave()
		leaveToo()
		left.Wait()
		leftToo.Wait()
		asked := service.asked.Load()
		time.Sleep(time.Minute)
		require.Equal(t, asked, service.asked.Load(), "nobody listens")
	})
}

func TestEventsListenersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(&fake{})
		leave, left := listen(h, newReaders(64)...)
		synctest.Wait()
		late := do(t, h, "GET /events", "")
		require.Equal(t, http.StatusServiceUnavailable, late.Code)
		require.Equal(t, "10", late.Header().Get("Retry-After"))
		leave()
		left.Wait()

		again := newReaders(1)
		leave, left = listen(h, again...)
		synctest.Wait()
		require.Len(t, again[0].events(), 1)
		leave()
		left.Wait()
	})
}

func TestEventsSlowListenerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(&fake{})
		slow, quick := newReaders(1)[0], newReaders(1)[0]
		slow.stuck = true
		began := time.Now()
		_, dropped := listen(h, slow)
		leave, left := listen(h, quick)
		dropped.Wait()
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		require.Greater(t, len(quick.events()), 4, "others do not wait")
		leave()
		left.Wait()
	})
}

func TestEventsEndWithTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quit := make(chan struct{})
		h := admin.New(admin.Options{
			Service: &fake{}, Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Quit: quit,
		})
		leave, left := listen(h, newReaders(3)...)
		defer leave()
		synctest.Wait()
		began := time.Now()
		close(quit)
		left.Wait()
		require.Zero(t, time.Since(began))
	})
}

// Whoever asks for the head alone is answered, and the connection is used again.
func TestTheHeadOfTheStreamEnds(t *testing.T) {
	quit := make(chan struct{})
	server := httptest.NewServer(admin.New(admin.Options{
		Service: &fake{}, Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Quit: quit,
	}))
	defer server.Close()
	defer close(quit)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, "HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	head, err := http.ReadResponse(answers, &http.Request{Method: http.MethodHead})
	require.NoError(t, err)
	require.Equal(t, "text/event-stream", head.Header.Get("Content-Type"))
	next, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.NoError(t, next.Body.Close())
	require.Equal(t, http.StatusOK, next.StatusCode)
}
