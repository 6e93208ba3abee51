package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection on which the rest of a body does not come after an early answer carries no other request.
func TestAConnectionEndsWithABodyThatDoesNotCome(t *testing.T) {
	for _, framing := range []string{"Content-Length: 1000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
		h := start(t, 1, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
		h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			w.Header().Set("Content-Length", "3")
			_, _ = io.WriteString(w, "big")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.Copy(io.Discard, r.Body)
		}
		c := h.dial()
		_, err := io.WriteString(c, "POST /_bulk HTTP/1.1\r\nHost: es\r\nX-Stream: 1\r\n"+framing)
		require.NoError(t, err)
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "big", string(body))
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, err = r.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	}
}

// toldLate is a body of which the reader is told late that nothing came of it.
type toldLate struct {
	io.ReadCloser
	tell <-chan struct{}
}

func (b toldLate) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		<-b.tell
	}
	return n, err
}

// net/http ends the context of a request of which the body does not come. That is not taken for a client that has left, although
// the attempt, which is aborted for it, may end before the reader of the body is told: the connection was closed without an answer.
func TestABodyThatDoesNotComeIsNoClientThatLeaves(t *testing.T) {
	h := start(t, 2, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	tell := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = toldLate{r.Body, tell}
		h.proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	defer close(tell)
	h.front.URL = front.URL
	resp, err := http.ReadResponse(bufio.NewReader(h.open("/idx/_search", 2<<20)), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
}

// A client that asks before it sends its body does not wait for the answer to that for ever. One that sends in the end
// reads why it is refused.
func TestAClientThatIsTiredOfWaitingReadsItsRefusal(t *testing.T) {
	c := startWrites(t)
	first, second := c.write("{}\n"), c.write("{}\n")
	conn := c.dial()
	const length = 16 << 20 // more than the sockets on the way hold
	_, err := fmt.Fprintf(conn, "POST /lone/_bulk HTTP/1.1\r\nHost: es\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", length)
	require.NoError(t, err)
	_, err = conn.Write(make([]byte, length))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	c.let <- struct{}{}
	c.let <- struct{}{}
	<-first
	<-second
}

// A stream of HTTP/2 on which the body does not come ends alone: others share its connection.
func TestAStalledStreamLeavesItsConnection(t *testing.T) {
	h := start(t, 1, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	front := httptest.NewUnstartedServer(h.proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	defer front.Close()
	reused := false
	for range 3 {
		reader, writer := io.Pipe() // nothing comes
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL+"/idx/_search", reader)
		require.NoError(t, err)
		resp, err := front.Client().Do(req)
		require.NoError(t, err)
		require.Equal(t, []int{http.StatusRequestTimeout, 2}, []int{resp.StatusCode, resp.ProtoMajor})
		require.NoError(t, resp.Body.Close())
		require.NoError(t, writer.Close())
		time.Sleep(100 * time.Millisecond) // for what would end the connection
	}
	require.True(t, reused)
}

// slowReader reads a KiB in each second.
type slowReader struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *slowReader) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *slowReader) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(len(p)>>10) * time.Second)
	if time.Now().After(s.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return s.ResponseRecorder.Write(p)
}

// A client that reads all the time is not cut off, however much of its answer has been held back.
func TestAClientHasTimeForEachPartOfItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &slowReader{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_msearch", http.NoBody)
		x := &exchange{p: &Proxy{o: Options{WriteTimeout: time.Minute}}, w: client, r: r}
		a := &try{answer: answer{begin: make([]byte, 1<<20), resp: &http.Response{Body: io.NopCloser(&bytes.Buffer{})}}} // the end comes by itself
		require.NoError(t, x.copyBody(a))
		require.Equal(t, 1<<20, client.Body.Len())
		require.False(t, client.deadline.IsZero(), "what ends the answer is still to be written")
	})
}

// A client from which the body does not come reads why it is refused.
func TestARefusalIsReadAlthoughTheBodyDoesNotCome(t *testing.T) {
	c := startWrites(t)
	c.proxy.o.BodyTimeout = 50 * time.Millisecond
	first, second := c.write("{}\n"), c.write("{}\n")
	resp, err := http.ReadResponse(bufio.NewReader(c.open("/lone/_bulk", 1000)), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.True(t, resp.Close)
	require.NoError(t, resp.Body.Close())
	c.let <- struct{}{}
	c.let <- struct{}{}
	<-first
	<-second
}

// Engines refuse an expectation that they do not know, and take the body that comes all the same for further requests. The
// answers to these would be those of other clients.
func TestOnlyTheExpectationThatEnginesKnowIsPassedOn(t *testing.T) {
	for lines, passed := range map[string][]string{
		"Expect:\r\n":                               nil,
		"Expect: x,100-Continue\r\n":                {"100-continue"},
		"Expect:\r\nExpect: 100-continue\r\n":       nil,
		"Expect: 100-Continue\r\n":                  {"100-continue"},
		"Expect: 100-continue\r\nExpect: again\r\n": {"100-continue"},
	} {
		h := start(t, 1, nil)
		for _, length := range []string{"Content-Length: 3\r\n\r\n{}\n", "Transfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n"} {
			raw(t, h.front.URL, "POST /idx/_bulk HTTP/1.1\r\nHost: es\r\nConnection: close\r\n"+lines+length)
			seen := h.seen()
			require.Len(t, seen, 1, lines)
			require.Equal(t, "{}\n", seen[0].body, lines)
			require.Equal(t, passed, seen[0].header["Expect"], lines)
		}
	}
}

// unread is a body that nobody is to read any more.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("it is read, as for a node")
	return 0, io.EOF
}

func (unread) Close() error { return nil }

// What a client still sends after an early answer is read as it comes. What makes of it what a node gets may be at work for one
// still, on a goroutine of its own, and does not work for two.
func TestTheRestOfABodyIsNotReadAsForANode(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_msearch", strings.NewReader("rest"))
	x := &exchange{p: &Proxy{}, w: httptest.NewRecorder(), r: r}
	x.complete = true
	b := &clientBody{body: unread{t}, deadline: newReadDeadline(x)}
	b.finish(x)
	rest, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Empty(t, rest)
}
