package app_test

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// The client gets what the upstream sent. Allowed by HTTP/1.1 and made use of by
// net/http: hop-by-hop headers, the order and case of header names, how chunks are
// cut.
func TestAnswersArriveAsSent(t *testing.T) {
	w := startWire(t, nil)
	json := "Content-Type: application/json; charset=UTF-8\r\n"
	sized := func(status, body string, headers ...string) string {
		return "HTTP/1.1 " + status + "\r\n" + strings.Join(headers, "") + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	for name, c := range map[string]struct{ method, answer string }{
		"plain":                {"GET", sized("200 OK", `{"a":1}`, json)},
		"created":              {"PUT", sized("201 Created", `{}`, json, "Location: /idx/_doc/1%2F\r\n")},
		"no headers":           {"GET", sized("200 OK", "no type, no date")},
		"empty":                {"GET", sized("200 OK", "")},
		"engine's headers":     {"GET", sized("200 OK", "{}", "X-elastic-product: Elasticsearch\r\nWarning: 299 Elasticsearch-8.19.4 \"a\"\r\nWarning: 299 b\r\nX-Opaque-Id: a b\r\ncontent-type: application/vnd.elasticsearch+json;compatible-with=8\r\n")},
		"empty header":         {"GET", sized("200 OK", "{}", "X-Empty:\r\n", "Content-Type:\r\n")},
		"repeated headers":     {"GET", sized("200 OK", "{}", "X-A: 2\r\nX-B: 0\r\nX-A: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n")},
		"date of its own":      {"GET", sized("200 OK", "{}", "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: x\r\n")},
		"bytes beyond ASCII":   {"GET", sized("200 OK", "\xc3\xa4\xff", "X-A: \xc3\xa4\xff\r\n")},
		"gzip":                 {"GET", sized("200 OK", "\x1f\x8b\x08\x00\x00", json, "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n")},
		"deflate":              {"GET", sized("200 OK", "\x78\x9c", json, "Content-Encoding: deflate\r\n")},
		"zstd":                 {"GET", sized("200 OK", "\x28\xb5\x2f\xfd", json, "Content-Encoding: zstd\r\n")},
		"cbor":                 {"GET", sized("200 OK", "\xbf\xff", "Content-Type: application/cbor\r\n")},
		"not found":            {"GET", sized("404 Not Found", `{"found":false}`, json)},
		"bad request":          {"POST", sized("400 Bad Request", `{"error":{}}`, json)},
		"unauthorized":         {"GET", sized("401 Unauthorized", `{}`, json, "WWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: ApiKey\r\n")},
		"too many requests":    {"POST", sized("429 Too Many Requests", `{}`, json, "Retry-After: 1\r\n")},
		"unavailable":          {"POST", sized("503 Service Unavailable", `{}`, json)},
		"redirect":             {"GET", sized("302 Found", "", "Location: http://elsewhere/\r\n")},
		"chunked":              {"GET", "HTTP/1.1 200 OK\r\n" + json + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"},
		"empty chunked":        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"trailers":             {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"},
		"trailers, no body":    {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n0\r\nX-Sum: 1\r\n\r\n"},
		"trailers by surprise": {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"},
		"HEAD":                 {"HEAD", "HTTP/1.1 200 OK\r\n" + json + "Content-Length: 4711\r\n\r\n"},
		"HEAD of length 0":     {"HEAD", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"},
		"no content":           {"GET", "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"},
		"not modified":         {"GET", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"},
		"large":                {"GET", sized("200 OK", strings.Repeat("0123456789abcdef", 1<<17), json)},
		"hop by hop":           {"GET", sized("200 OK", "{}", "Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-End: 2\r\n")},
	} {
		for _, path := range []string{"/idx/_doc/1", "/idx/_search"} {
			t.Run(name+path, func(t *testing.T) {
				w.upstreamDoes(c.answer, nil, nil)
				_, got := w.exchange(c.method + " " + path + " HTTP/1.1\r\nHost: es\r\n\r\n")
				want, arrived := parse(t, c.answer), parse(t, got)
				if name == "empty chunked" && arrived.framing == "length 0" {
					arrived.framing = want.framing // whether it is flushed before its end is a matter of chance
				}
				require.Equal(t, want, arrived)
			})
		}
	}
}

// Where net/http does not let through exactly what came.
func TestAnswersThatChange(t *testing.T) {
	w := startWire(t, nil)
	for _, c := range []struct{ name, method, answer, want string }{
		{"until the end of the connection", "GET", "HTTP/1.1 200 OK\r\n\r\nabc", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 Fine\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"reason of its own", "GET", "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nok", okAnswer},
		{"not modified, sized", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n"},
		{"no content, sized", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"both framings", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.upstreamDoes("", nil, func(conn net.Conn) { _, _ = io.WriteString(conn, c.answer) })
			_, got := w.exchange(c.method + " /idx HTTP/1.1\r\nHost: es\r\n\r\n")
			require.Equal(t, parse(t, c.want), parse(t, got))
		})
	}
}

// An answer that is cut off upstream is cut off for the client.
func TestAnswersCutOff(t *testing.T) {
	w := startWire(t, nil)
	for name, answer := range map[string]string{
		"sized":          "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
		"sized, no body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
		"sized, large":   "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 999999),
		"chunked":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
		"within a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123",
		"in trailers":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\nX-A: 1\r\n",
		"bad chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\nzz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w.upstreamDoes("", nil, func(conn net.Conn) { _, _ = io.WriteString(conn, answer) })
			c := w.dial()
			c.send("POST /idx/_doc HTTP/1.1\r\nHost: es\r\nContent-Length: 0\r\n\r\n")
			got, err := c.read("POST")
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, got)
			require.NotContains(t, got, "\r\n0\r\n\r\n")
			<-w.requests
		})
	}
}

// interim reads answers up to the first that is not 1xx.
func (c *wireClient) interim(method string) (interim []string, last string) {
	c.t.Helper()
	for {
		raw, err := c.read(method)
		require.NoError(c.t, err, raw)
		if !strings.HasPrefix(raw, "HTTP/1.1 1") {
			return interim, raw
		}
		interim = append(interim, raw)
	}
}

func TestInterimAnswersPass(t *testing.T) {
	w := startWire(t, nil)
	early := "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n"
	w.upstreamDoes("HTTP/1.1 102 Processing\r\n\r\n"+early+okAnswer, nil, nil)
	c := w.dial()
	c.send("GET /idx HTTP/1.1\r\nHost: es\r\n\r\n")
	interim, last := c.interim("GET")
	require.Equal(t, []string{"HTTP/1.1 102 Processing\r\n\r\n", early}, interim)
	require.Equal(t, okAnswer, last, "no header is added after interim answers")
}

// A client that asks before it sends a body is answered by the upstream, unless the body is held.
func TestExpectContinue(t *testing.T) {
	for path, size := range map[string]int{"/_bulk": 2, "/idx/_search": 2 << 20} {
		body := strings.Repeat("{}", size/2)
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: es\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, size)
		t.Run("wanted"+path, func(t *testing.T) {
			w := startWire(t, nil)
			w.upstreamDoes(okAnswer, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n") }, nil)
			c := w.dial()
			c.send(head)
			got, err := c.read("POST")
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 100 Continue\r\n\r\n", got)
			c.send(body)
			interim, last := c.interim("POST")
			require.Empty(t, interim)
			require.Equal(t, okAnswer, last)
			require.Equal(t, parse(t, head+body), parse(t, <-w.requests))
		})
		t.Run("refused"+path, func(t *testing.T) {
			w := startWire(t, nil)
			refusal := "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 0\r\n\r\n"
			w.upstreamDoes("", func(c net.Conn) {
				_, _ = io.WriteString(c, refusal)
				_ = c.(*net.TCPConn).CloseWrite()
			}, nil)
			c := w.dial()
			c.send(head)
			got, err := c.read("POST")
			require.NoError(t, err)
			require.Equal(t, parse(t, refusal), parse(t, got))
		})
	}
}

// A client that was not told to send its body does not wait for the end of a refusal of which the length is not known.
func TestARefusalInChunksEndsThoughTheBodyIsNotSent(t *testing.T) {
	const refusal = "HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"
	for _, framing := range []string{"Content-Length: 2\r\n", "Transfer-Encoding: chunked\r\n"} {
		w := startWire(t, nil)
		w.upstreamDoes("", func(c net.Conn) { _, _ = io.WriteString(c, refusal) }, nil)
		c := w.dial()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		c.send("POST /_bulk HTTP/1.1\r\nHost: es\r\nExpect: 100-continue\r\n" + framing + "\r\n")
		got, err := c.read("POST")
		require.NoError(t, err)
		require.Equal(t, parse(t, refusal), parse(t, got))
	}
}

// The body of a search is held, whoever asks before sending it.
func TestExpectContinueOfAHeldBody(t *testing.T) {
	for _, framing := range [][2]string{{"Content-Length: 2\r\n", "{}"}, {"Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"}} {
		for _, te := range []string{"", "TE: trailers\r\nConnection: TE\r\n"} {
			w := startWire(t, nil)
			w.upstreamDoes(okAnswer, nil, nil)
			c := w.dial()
			c.send("POST /idx/_search HTTP/1.1\r\nHost: es\r\nExpect: 100-continue\r\n" + te + framing[0] + "\r\n")
			got, err := c.read("POST")
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 100 Continue\r\n\r\n", got)
			c.send(framing[1])
			interim, last := c.interim("POST")
			require.Empty(t, interim)
			require.Equal(t, okAnswer, last)
			sent := <-w.requests
			require.NotContains(t, sent, "Expect")
			require.Contains(t, sent, "Content-Length: 2\r\n")
			require.True(t, strings.HasSuffix(sent, "\r\n\r\n{}"), sent)
		}
	}
}

// A node that says something else first, or says late that it wants the body, hangs no
// request.
func TestExpectContinueThatIsNotAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	const early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
	for name, c := range map[string]struct {
		greet func(c net.Conn)
		want  []string
	}{
		"103": {func(c net.Conn) { _, _ = io.WriteString(c, early) }, []string{early, "HTTP/1.1 100 Continue\r\n\r\n"}},
		"late 100": {func(c net.Conn) {
			time.Sleep(1200 * time.Millisecond) // sidestep waits for a second
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}, []string{"HTTP/1.1 100 Continue\r\n\r\n"}},
		"nothing": {func(net.Conn) {}, []string{"HTTP/1.1 100 Continue\r\n\r\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWire(t, nil)
			w.upstreamDoes(okAnswer, c.greet, nil)
			client := w.dial()
			client.send("POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
			for _, want := range c.want {
				got, err := client.read("POST")
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			client.send("{}")
			interim, last := client.interim("POST")
			require.Empty(t, interim)
			require.Equal(t, okAnswer, last)
		})
	}
}

// Parts of an answer reach the client as they come, whatever its framing.
func TestAnswersStream(t *testing.T) {
	for name, head := range map[string]string{
		"sized":   "Content-Length: 2\r\n\r\n",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := startWire(t, nil)
			more := make(chan string)
			w.upstreamDoes("", nil, func(c net.Conn) {
				for part := range more {
					_, _ = io.WriteString(c, part)
				}
			})
			c := w.dial()
			c.send("GET /idx HTTP/1.1\r\nHost: es\r\n\r\n")
			parts := []string{"HTTP/1.1 200 OK\r\n" + head, "a", "b"}
			if name == "chunked" {
				parts = []string{parts[0], "1\r\na\r\n", "1\r\nb\r\n", "0\r\n\r\n"}
			}
			for _, part := range parts {
				more <- part
				got := make([]byte, len(part))
				_, err := io.ReadFull(c, got)
				require.NoError(t, err)
				require.Equal(t, part, string(got))
			}
			close(more)
		})
	}
}

// An upstream may answer before it has the whole body.
func TestEarlyAnswer(t *testing.T) {
	w := startWire(t, nil)
	w.upstreamDoes("", func(c net.Conn) { _, _ = io.WriteString(c, okAnswer) }, nil)
	c := w.dial()
	request := "POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 10\r\n\r\n12345"
	c.send(request)
	got, err := c.read("POST")
	require.NoError(t, err)
	require.Equal(t, okAnswer, got)
	_ = c.Close() // the rest never comes, so the upstream never sees a whole body
	require.Equal(t, parse(t, request), parse(t, <-w.requests))
}

// If the rest of the body does not come, it is not taken for the next request when it comes late.
func TestEarlyAnswerToABodyThatDoesNotCome(t *testing.T) {
	w := startWire(t, func(c *config.Config) { c.Limits.BodyTimeout = 50 * time.Millisecond })
	w.upstreamDoes("", func(c net.Conn) { _, _ = io.WriteString(c, okAnswer) }, nil)
	c := w.dial()
	c.send("POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 10\r\n\r\n12345")
	got, err := c.read("POST")
	require.NoError(t, err)
	require.Equal(t, okAnswer, got)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = c.r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// A client that is sending its body sees at once that its answer is cut off.
func TestCutOffWhileSending(t *testing.T) {
	w := startWire(t, nil)
	w.upstreamDoes("", func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
		_ = c.Close()
	}, nil)
	c := w.dial()
	c.send("POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 10\r\n\r\n12345")
	_, err := c.read("POST")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
