package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/bulk"
	"sidestep/internal/record"
)

// slowClient sends a byte of its body in each second, for as long as it may.
type slowClient struct {
	*httptest.ResponseRecorder
	deadline time.Time
	sent     int64
}

func (s *slowClient) SetReadDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *slowClient) EnableFullDuplex() error { return nil }

func (s *slowClient) Read(p []byte) (int, error) {
	if at := time.Now().Add(time.Second); !s.deadline.IsZero() && at.After(s.deadline) {
		time.Sleep(time.Until(s.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	if s.sent == 3600 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	s.sent++
	return copy(p, "x"), nil
}

func (s *slowClient) Close() error { return nil }

// A client that sends slowly does not hold a refusal up: what is left of its body is waited
// for in sum, not part by part. On HTTP/2 nothing has to be read.
func TestTheBodyOfARefusedRequestIsReadForALimitedTime(t *testing.T) {
	for _, one := range []struct {
		patience, takes time.Duration
		major           int
	}{{time.Minute, discardTime, 1}, {0, discardTime, 1}, {5 * time.Second, 5 * time.Second, 1}, {time.Minute, 0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			client := &slowClient{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/idx/_doc", nil)
			r.Body, r.ProtoMajor = client, one.major
			x := &exchange{p: &Proxy{o: Options{BodyTimeout: one.patience}}, w: client, r: r, view: &view{}}
			x.streamBody(client, nil)
			began := time.Now()
			x.discardBody()
			require.Equal(t, one.takes, time.Since(began))
			require.Equal(t, one.takes, x.reading, "it is no overhead")
			require.Equal(t, int64(one.takes/time.Second), x.discarded)
			require.Equal(t, one.major == 1, client.Header().Get("Connection") == "close")
			x.complete = true
			x.stream.finish(x)
			require.Equal(t, one.takes, time.Since(began))
			require.Zero(t, client.deadline, "it is not for the next request")
		})
	}
}

// All that came of a refused request counts: what was held, what was read of a bulk, and
// what was discarded.
func TestTheBytesOfARefusedRequestAreCounted(t *testing.T) {
	c := startWrites(t)
	c.proxy.o.MaxHeldBody = 2000
	l := &logged{}
	c.proxy.o.Records = record.NewRecorder()
	c.proxy.o.Records.Use(record.Rules{AccessLog: l.take, Share: 1})
	first, second := c.write("{}\n"), c.write("{}\n")
	c.proxy.o.Bulk = Bulk{Patterns: []string{"idx*"}, Books: &bulk.Books{}, Index: func(string) (bulk.Index, bool) { return bulk.Index{}, false }}
	for _, one := range []struct {
		path, body string
		chunked    bool
	}{
		{"/lone/_doc", strings.Repeat(" ", 1<<20), false},
		{"/lone/_doc", strings.Repeat(" ", 1<<20), true},
		{"/lone/_bulk", strings.Repeat(`{"index":{}}`+"\n{}\n", 1<<16), false},
		{"/lone/_bulk", strings.Repeat(`{"index":{}}`+"\n{}\n", 1<<16), true},
	} {
		var body io.Reader = strings.NewReader(one.body)
		if one.chunked {
			body = io.MultiReader(body)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.front.URL+one.path, body)
		require.NoError(t, err)
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.False(t, resp.Close)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, int64(len(one.body)), l.one(t).RequestBytes, "%s, chunked: %v", one.path, one.chunked)
	}
	c.let <- struct{}{}
	c.let <- struct{}{}
	<-first
	<-second
}

// What was read of it before it was refused counts, too.
func TestTheHeldBytesOfARefusedSearchAreCounted(t *testing.T) {
	c := startGated(t, 1, nil)
	c.proxy.o.MaxHeldBody = 2000
	c.useElasticsearch()
	first, second := c.search(), c.search()
	l := &logged{}
	c.proxy.o.Records = record.NewRecorder()
	c.proxy.o.Records.Use(record.Rules{AccessLog: l.take, Share: 1})
	body := `{"query":{"terms":{"a":["` + strings.Repeat("b", 100_000) + `"]}}}`
	refused := <-c.send(t.Context(), http.MethodPost, "/lone/_search", body)
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Equal(t, int64(len(body)), l.one(t).RequestBytes)
	c.let <- struct{}{}
	c.let <- struct{}{}
	<-first
	<-second
}

// On HTTP/2 the refusal comes while the client still sends, and ends nothing but its stream.
func TestARefusalOnHTTP2DoesNotWaitForTheBody(t *testing.T) {
	c := startWrites(t)
	first, second := c.write("{}\n"), c.write("{}\n")
	front := httptest.NewUnstartedServer(c.proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	defer front.Close()
	for range 2 {
		reader, writer := io.Pipe() // nothing comes
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/lone/_doc", reader)
		require.NoError(t, err)
		resp, err := front.Client().Do(req)
		require.NoError(t, err)
		require.Equal(t, []int{http.StatusTooManyRequests, 2}, []int{resp.StatusCode, resp.ProtoMajor})
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Contains(t, string(text), "rejected_execution_exception")
		require.NoError(t, resp.Body.Close())
		require.NoError(t, writer.Close())
	}
	c.let <- struct{}{}
	c.let <- struct{}{}
	<-first
	<-second
}
