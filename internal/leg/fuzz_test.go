package leg

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fuzzedHead bounds heads, so that small inputs exceed it.
const fuzzedHead = 6000

// script is what a node does: it answers each request with the same bytes, some at a
// time, and then closes the connection or leaves it open.
type script struct {
	answer []byte
	piece  int
	closes bool
}

// line is the only connection that a client under test may make.
type line struct {
	net.Conn
	mu     sync.Mutex
	unread int // bytes of the answer that the client has not taken
	closed bool
	dialed int
}

func (l *line) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return l.Conn.Close()
}

func (l *line) left(n int) {
	l.mu.Lock()
	l.unread = n
	l.mu.Unlock()
}

// dial connects to a node that follows s.
func (l *line) dial(s script) (net.Conn, error) {
	l.dialed++
	client, server := net.Pipe()
	l.Conn, l.closed = client, false
	go func() {
		defer server.Close()
		for readEmptyLine(server) {
			rest := s.answer
			for len(rest) > 0 {
				l.left(len(rest))
				n := min(s.piece, len(rest))
				if _, err := server.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
			l.left(0)
			if s.closes {
				return
			}
		}
	}()
	return l, nil
}

// readEmptyLine reads a request without a body; it is false if there is none.
func readEmptyLine(r io.Reader) bool {
	last, b := "", make([]byte, 1)
	for !strings.HasSuffix(last, "\r\n\r\n") {
		if _, err := r.Read(b); err != nil {
			return false
		}
		last = last[max(0, len(last)-3):] + string(b)
	}
	return true
}

// outcome is what a client makes of an answer.
type outcome struct {
	Failed   bool // without an answer
	Proto    string
	Status   string
	Code     int
	Header   http.Header
	Length   int64
	Coding   []string
	Close    bool
	Body     string
	BodyFail bool
	Trailer  http.Header
}

// outcomeOf reads an answer to its end.
func outcomeOf(resp *http.Response, err error) outcome {
	if err != nil {
		return outcome{Failed: true}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// net/http hands the connection on to who asked for it; nobody does here.
		_ = resp.Body.Close()
		return outcome{Failed: true}
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return outcome{
		Proto: resp.Proto, Status: resp.Status, Code: resp.StatusCode, Header: resp.Header, Length: resp.ContentLength,
		Coding: resp.TransferEncoding, Close: resp.Close, Body: string(b), BodyFail: err != nil, Trailer: resp.Trailer,
	}
}

// exchanges sends the same request twice and tells what came of it, and whether the
// connection was kept each time.
func exchanges(do func(ctx context.Context) (*http.Response, error), l *line, s script) (told []outcome, kept []bool) {
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		told = append(told, outcomeOf(do(ctx)))
		cancel()
		synctest.Wait()
		l.mu.Lock()
		kept = append(kept, !l.closed)
		// What lies unread on an idle connection net/http sees at once, and this package
		// when it takes the connection (TestStaleConnections). A pipe has no socket.
		again := !l.closed && !s.closes && l.unread == 0
		l.mu.Unlock()
		if !again {
			break
		}
	}
	return told, kept
}

// compare has net/http's transport and this package read what s sends.
func compare(t *testing.T, method string, s script) {
	theirs, ours := &line{}, &line{}
	transport := &http.Transport{
		DisableCompression: true, MaxResponseHeaderBytes: fuzzedHead,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return theirs.dial(s) },
	}
	defer transport.CloseIdleConnections()
	pool := New(Options{
		Address: "node:9200", MaxIdle: 1,
		Dial: func(context.Context, string, string) (net.Conn, error) { return ours.dial(s) },
	})
	pool.maxHead = fuzzedHead
	defer pool.Close()
	expected, theyKept := exchanges(func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, "http://node:9200/", http.NoBody)
		if err != nil {
			return nil, err
		}
		return transport.RoundTrip(r)
	}, theirs, s)
	head := []byte(method + " / HTTP/1.1\r\nHost: node:9200\r\n\r\n")
	got, weKept := exchanges(func(ctx context.Context) (*http.Response, error) {
		m := &Message{Method: method, Head: head, Repeatable: method != http.MethodPost}
		context.AfterFunc(ctx, m.Abort.Now)
		return pool.Do(m)
	}, ours, s)
	for i := range expected {
		if i == len(got) {
			return
		}
		require.Equal(t, expected[i], got[i], "exchange %d", i+1)
		if !s.closes && ours.unread == 0 && theirs.unread == 0 {
			require.Equal(t, theyKept[i], weKept[i], "kept after exchange %d", i+1)
		}
	}
	require.Equal(t, 1, ours.dialed)
}

const (
	ok      = "HTTP/1.1 200 OK\r\n"
	chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
)

// fuzzedAnswers are answers to begin with.
var fuzzedAnswers = []string{
	hello,
	"",
	"H",
	"\r\n" + hello,
	ok,
	ok + "\r\n",
	ok + "\r\nuntil the end",
	ok + "Content-Length: 10\r\n\r\nhello",
	ok + "Content-Length: 0\r\n\r\n",
	hello + hello,
	hello + "H",
	ok + "Content-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000) + "HTTP/1.1 408 Request Timeout\r\n\r\n",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: a\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 100 Continue\r\n\r\n" + hello,
	"HTTP/1.1 102 Processing\r\nA: b\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + hello,
	"HTTP/1.1 102 Processing\r\nContent-Length: 3\r\n\r\nabc" + hello,
	strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 300) + hello,
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello",
	"HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 999 High\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 20 OK\r\n\r\n",
	"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
	"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	ok + "Connection: close\r\nContent-Length: 5\r\n\r\nhello",
	ok + "Connection: a, Close\r\nContent-Length: 5\r\n\r\nhello",
	chunked + "0\r\n\r\n",
	chunked + "5\r\nhello\r\n0\r\n\r\n",
	chunked + "2;a=b\r\nhe\r\n3 ; c\r\nllo\r\n0;d\r\n\r\n",
	chunked + "5\r\nhello\r\n0\r\n\r\nH",
	chunked + "5\r\nhello\r\n0\r\n",
	chunked + "5\r\nhello\r\n",
	chunked + "5\r\nhelloworld\r\n0\r\n\r\n",
	chunked + "z\r\nhello\r\n0\r\n\r\n",
	chunked + "ffffffffffffffff\r\nhello",
	chunked + "5\nhello\n0\n\n",
	chunked + "5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n",
	ok + "Transfer-Encoding: chunked\r\nTrailer: A, C\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
	ok + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n",
	ok + "Trailer: A\r\nContent-Length: 5\r\n\r\nhello",
	chunked + "0\r\nA: " + strings.Repeat("b", 5000) + "\r\n\r\n",
	ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	ok + "Content-Length: 5, 5\r\n\r\nhello",
	ok + "Content-Length: -5\r\n\r\nhello",
	ok + "Content-Length: +5\r\n\r\nhello",
	ok + "Content-Length: \r\n\r\nhello",
	ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\n\r\n",
	ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	ok + "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
	ok + "A: b\r\n c\r\n\td\r\nContent-Length: 5\r\n\r\nhello",
	ok + " A: b\r\nContent-Length: 5\r\n\r\nhello",
	ok + "A : b\r\nContent-Length: 5\r\n\r\nhello",
	ok + "no colon\r\nContent-Length: 5\r\n\r\nhello",
	ok + "a-b: c\r\nA-B: d\r\nPragma: no-cache\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\nContent-Length: 5\nA: b\n\nhello",
	ok + "A: " + strings.Repeat("b", fuzzedHead) + "\r\n\r\n",
	ok + strings.Repeat("A: b\r\n", 1000) + "\r\n",
	ok + "A: " + strings.Repeat("b", fuzzedHead-60) + "\r\nContent-Length: 5\r\n\r\nhello",
}

func FuzzAgainstTransport(f *testing.F) {
	for _, answer := range fuzzedAnswers {
		for method := range byte(3) {
			for _, piece := range []uint16{0, 1, 7} {
				f.Add([]byte(answer), method, piece, false)
				f.Add([]byte(answer), method, piece, true)
			}
		}
	}
	// net/http logs what it did not ask for.
	before := slog.Default()
	f.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, answer []byte, method byte, piece uint16, closes bool) {
		s := script{answer: answer, piece: int(piece), closes: closes}
		if s.piece == 0 {
			s.piece = max(1, len(answer))
		}
		synctest.Test(t, func(t *testing.T) {
			compare(t, []string{http.MethodGet, http.MethodHead, http.MethodPost}[method%3], s)
		})
	})
}
