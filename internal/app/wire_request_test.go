package app_test

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What arrives is what was sent. Allowed by HTTP/1.1 and made use of by net/http:
// Host, hop-by-hop headers, the order and case of header names, how chunks are cut.
func TestRequestHeadsArriveAsSent(t *testing.T) {
	plain := "\r\nHost: es\r\n\r\n"
	arriveAsSent(t, map[string]string{
		"semicolons":              "GET /idx/_search?q=a;size=1&from=2 HTTP/1.1" + plain,
		"double percent":          "GET /idx/_search?q=%%41&x=%zz HTTP/1.1" + plain,
		"escaped slash":           "GET /idx%2Fa/_doc/%2F%2f HTTP/1.1" + plain,
		"escaped as not needed":   "GET /%69dx/_%73earch?%71=a HTTP/1.1" + plain,
		"double slash":            "GET /idx//_search HTTP/1.1" + plain,
		"leading double slash":    "GET //idx/_search HTTP/1.1" + plain,
		"leading slash, escaped":  "GET //idx%2Fa/_search?a=%2F HTTP/1.1" + plain,
		"three slashes":           "GET ///idx?x HTTP/1.1" + plain,
		"dot segments":            "GET /a/../idx/./_search/.. HTTP/1.1" + plain,
		"empty parameters":        "GET /idx/_search?&a=&=b&&c HTTP/1.1" + plain,
		"question mark alone":     "GET /idx/_search? HTTP/1.1" + plain,
		"two question marks":      "GET /idx/_search??a=? HTTP/1.1" + plain,
		"double slash, ? alone":   "GET //idx? HTTP/1.1" + plain,
		"plus and spaces":         "GET /a+b%20c/_search?q=a+b%20c HTTP/1.1" + plain,
		"date math":               "GET /%3Clogs-%7Bnow%2Fd%7D%3E/_search HTTP/1.1" + plain,
		"unescaped":               "GET /<logs-{now}>,a|b^c/_search?q={\"a\":[1]}|^` HTTP/1.1" + plain,
		"hash":                    "GET /idx#a/_search?q=#b HTTP/1.1" + plain,
		"line of 4096":            "GET /" + strings.Repeat("a", 4096-len("GET / HTTP/1.1")) + " HTTP/1.1" + plain,
		"line of 4097":            "GET /" + strings.Repeat("a", 4097-len("GET / HTTP/1.1")) + " HTTP/1.1" + plain,
		"line of 64 KiB":          "GET /_search?q=" + strings.Repeat("a", 64<<10) + " HTTP/1.1" + plain,
		"asterisk":                "OPTIONS * HTTP/1.1" + plain,
		"root":                    "GET / HTTP/1.1" + plain,
		"options":                 "OPTIONS /idx HTTP/1.1" + plain,
		"method of its own":       "purge /idx HTTP/1.1" + plain,
		"head":                    "HEAD /idx HTTP/1.1" + plain,
		"empty header":            "GET / HTTP/1.1\r\nHost: es\r\nX-Empty:\r\nAccept: \r\n\r\n",
		"repeated headers":        "GET / HTTP/1.1\r\nHost: es\r\nX-A: 2\r\nx-b: y\r\nX-A: 1\r\nX-A:\r\nWarning: 299 a\r\nWarning: 299 b\r\n\r\n",
		"headers of ours, theirs": "GET / HTTP/1.1\r\nHost: es\r\nX-Opaque-Id: a b\r\ntraceparent: 00-a-b-01\r\ntracestate: x=1\r\nX-elastic-client-meta: es=8\r\nAuthorization: ApiKey x\r\nCookie: a=1; b=2\r\n\r\n",
		"forwarded":               "GET / HTTP/1.1\r\nHost: es\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 10.0.0.2\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a\r\nForwarded: for=a\r\nVia: 1.1 x\r\n\r\n",
		"bytes beyond ASCII":      "GET / HTTP/1.1\r\nHost: es\r\nX-A: \xc3\xa4\xff\r\n\r\n",
		"encodings":               "GET / HTTP/1.1\r\nHost: es\r\nAccept-Encoding: gzip;q=1.0,deflate, zstd\r\nAccept: application/vnd.elasticsearch+json;compatible-with=8\r\n\r\n",
		"empty User-Agent":        "GET / HTTP/1.1\r\nHost: es\r\nUser-Agent:\r\n\r\n",
		"double slash, odd bytes": "GET //a%2Fb|\xff?a|b HTTP/1.1" + plain,
		"GET of length 0":         "GET /idx HTTP/1.1\r\nHost: es\r\nContent-Length: 0\r\n\r\n",
		"hop by hop":              "GET / HTTP/1.1\r\nHost: es\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-End: 2\r\n\r\n",
	})
}

func TestRequestBodiesArriveAsSent(t *testing.T) {
	sized := func(body string, more ...string) string {
		return "\r\nHost: es\r\n" + strings.Join(more, "") + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	chunked := "\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\n\r\n"
	ndjson := "Content-Type: application/x-ndjson\r\n"
	arriveAsSent(t, map[string]string{
		"GET with body":         "GET /idx/_doc/1 HTTP/1.1" + sized(`{"a":1}`),
		"HEAD with body":        "HEAD /idx HTTP/1.1" + sized(`{"a":1}`),
		"DELETE with body":      "DELETE /_search/scroll HTTP/1.1" + sized(`{"scroll_id":"x"}`),
		"OPTIONS with body":     "OPTIONS /idx HTTP/1.1" + sized("x"),
		"GET search with body":  "GET /idx/_search HTTP/1.1" + sized(`{"size": 0 }`, "Content-Type: application/json\r\n"),
		"search without a type": "POST /idx/_search HTTP/1.1" + sized(`{"size":0}`),
		"empty POST":            "POST /idx/_refresh HTTP/1.1" + sized(""),
		"empty PUT":             "PUT /idx HTTP/1.1" + sized(""),
		"empty DELETE":          "DELETE /idx HTTP/1.1" + sized(""),
		"DELETE without body":   "DELETE /idx HTTP/1.1\r\nHost: es\r\n\r\n",
		"bulk":                  "POST /_bulk HTTP/1.1" + sized("{\"index\":{}}\n{}\n", ndjson),
		"cbor":                  "POST /idx/_search HTTP/1.1" + sized("\xbf\xff", "Content-Type: application/cbor\r\n"),
		"smile":                 "POST /idx/_doc HTTP/1.1" + sized(":)\n\x00\xfa\xfb", "Content-Type: application/smile\r\n"),
		"yaml":                  "POST /idx/_search HTTP/1.1" + sized("---\nsize: 0\n", "Content-Type: application/yaml\r\n"),
		"gzip":                  "POST /_bulk HTTP/1.1" + sized("\x1f\x8b\x08\x00", ndjson, "Content-Encoding: gzip\r\n"),
		"vendor type":           "POST /idx/_search HTTP/1.1" + sized("{}", "Content-Type: application/vnd.elasticsearch+json; compatible-with=8\r\n"),
		"chunked bulk":          "POST /_bulk HTTP/1.1" + chunked,
		"chunked GET":           "GET /idx HTTP/1.1" + chunked,
		"chunked DELETE":        "DELETE /idx/_doc/1 HTTP/1.1" + chunked,
		"empty chunked":         "POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"trailers":              "POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
		"trailers unannounced":  "POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n",
		"trailers of a search":  "POST /idx/_search HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n",
		"large":                 "POST /_bulk HTTP/1.1" + sized(strings.Repeat("x", 3<<20), ndjson),
		"odd bytes":             "POST //a%2Fb|\xff?a|b HTTP/1.1" + sized("{}", "User-Agent:\r\n"),
		"large search":          "POST /idx/_search HTTP/1.1" + sized(`{"q":"`+strings.Repeat("x", 2<<20)+`"}`),
	})
}

func arriveAsSent(t *testing.T, requests map[string]string) {
	t.Helper()
	w := startWire(t, nil)
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			got, _ := w.exchange(request)
			require.Equal(t, parse(t, request), parse(t, got))
		})
	}
}

// That a client takes trailers is told to the node. Other codings concern its connection alone.
func TestThatTrailersAreTakenIsPassedOn(t *testing.T) {
	w := startWire(t, nil)
	for te, passed := range map[string]bool{"trailers": true, "gzip, trailers;q=0.5": true, "gzip": false} {
		for _, request := range []string{
			"GET /idx HTTP/1.1\r\nHost: es\r\nTE: " + te + "\r\nConnection: TE\r\n\r\n",
			"POST /_bulk HTTP/1.1\r\nHost: es\r\nTE: " + te + "\r\nConnection: TE\r\nContent-Length: 2\r\n\r\n{}",
		} {
			got, _ := w.exchange(request)
			require.Equal(t, passed, strings.Contains(got, "\r\nTe: "+te+"\r\n"), got)
		}
	}
}

// Where net/http does not let through exactly what came.
func TestRequestsThatChange(t *testing.T) {
	w := startWire(t, nil)
	for _, c := range []struct{ name, request, want string }{
		{"absolute form", "GET http://es:9200/a%2Fb/./x|y?a=;b HTTP/1.1\r\nHost: es\r\n\r\n", "GET /a%2Fb/./x|y?a=;b HTTP/1.1\r\nHost: es\r\n\r\n"},
		{"absolute form, no path", "GET http://es:9200 HTTP/1.1\r\nHost: es\r\n\r\n", "GET / HTTP/1.1\r\nHost: es\r\n\r\n"},
		{"absolute form, ? alone", "GET http://es:9200/? HTTP/1.1\r\nHost: es\r\n\r\n", "GET /? HTTP/1.1\r\nHost: es\r\n\r\n"},
		{"HTTP/1.0", "GET /idx HTTP/1.0\r\n\r\n", "GET /idx HTTP/1.1\r\nHost: es\r\n\r\n"},
		{"POST without length", "POST /idx/_refresh HTTP/1.1\r\nHost: es\r\n\r\n", "POST /idx/_refresh HTTP/1.1\r\nHost: es\r\nContent-Length: 0\r\n\r\n"},
		{
			"chunked search", "POST /idx/_search HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
			"POST /idx/_search HTTP/1.1\r\nHost: es\r\nContent-Length: 2\r\n\r\n{}",
		},
		{"explain", "GET /idx HTTP/1.1\r\nHost: es\r\nX-Sidestep-Explain: 1\r\n\r\n", "GET /idx HTTP/1.1\r\nHost: es\r\n\r\n"},
		{
			"both framings", "POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
			"POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		},
		{
			"same length twice", "POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
			"POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 1\r\n\r\na",
		},
		{"folded header", "GET /idx HTTP/1.1\r\nHost: es\r\nX-A: 1\r\n  2\r\n\r\n", "GET /idx HTTP/1.1\r\nHost: es\r\nX-A: 1 2\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := w.exchange(c.request)
			require.Equal(t, parse(t, c.want), parse(t, got))
		})
	}
}

// What could be understood in two ways is refused, or never completed upstream.
func TestRequestsThatAreRefused(t *testing.T) {
	w := startWire(t, nil)
	for name, request := range map[string]string{
		"two lengths":               "POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"signed length":             "POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: +1\r\n\r\na",
		"list of lengths":           "POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 1, 1\r\n\r\na",
		"other transfer encoding":   "POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"transfer encoding twice":   "POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"space before colon":        "POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length : 1\r\n\r\na",
		"control byte in value":     "GET / HTTP/1.1\r\nHost: es\r\nX-A: a\x00b\r\n\r\n",
		"no host":                   "GET / HTTP/1.1\r\n\r\n",
		"two hosts":                 "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"bad escape in path":        "GET /%zz HTTP/1.1\r\nHost: es\r\n\r\n",
		"space in path":             "GET /a b HTTP/1.1\r\nHost: es\r\n\r\n",
		"expectation of its own":    "GET / HTTP/1.1\r\nHost: es\r\nExpect: 200-ok\r\n\r\n",
		"bad chunk of a bulk":       "POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
		"bad chunk of a search":     "POST /idx/_search HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
		"bare line feeds in chunks": "POST /_bulk HTTP/1.1\r\nHost: es\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := w.dial()
			c.send(request)
			answer, err := c.read("POST")
			if err == nil {
				require.Regexp(t, `^HTTP/1\.1 (400|417|501) `, answer)
				_, err = c.read("POST")
			}
			require.Error(t, err, "the connection is closed")
		})
	}
	// The next complete request that the upstream gets is this one.
	got, _ := w.exchange("GET /next HTTP/1.1\r\nHost: es\r\n\r\n")
	for !strings.HasPrefix(got, "GET /next ") {
		require.NotRegexp(t, `\r\n0\r\n\r\n$`, got, "a bad request was completed")
		got = <-w.requests
	}
}

// An engine that refuses a head for its length leaves the connection open and reads nothing more of it. No other
// client's request is sent there.
func TestAHeadThatIsRefusedHoldsUpNoOtherClient(t *testing.T) {
	const refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno"
	long := "X-A: " + strings.Repeat("a", 16<<10) + "\r\n"
	for name, request := range map[string]string{
		"no body":             "GET /idx HTTP/1.1\r\nHost: es\r\n" + long + "\r\n",
		"a body that streams": "POST /_bulk HTTP/1.1\r\nHost: es\r\n" + long + "Content-Length: 4\r\n\r\nbody",
	} {
		t.Run(name, func(t *testing.T) {
			w := startWire(t, nil)
			w.upstreamDoes("", nil, func(c net.Conn) {
				_, _ = io.WriteString(c, refusal)
				_, _ = io.Copy(io.Discard, c)
			})
			_, answer := w.exchange(request)
			require.Equal(t, refusal, answer)
			w.upstreamDoes(okAnswer, nil, nil)
			for range 2 {
				_, answer = w.exchange("POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Length: 4\r\n\r\nbody")
				require.Equal(t, okAnswer, answer)
				_, answer = w.exchange("GET /idx HTTP/1.1\r\nHost: es\r\n\r\n")
				require.Equal(t, okAnswer, answer)
			}
		})
	}
}

// Heads are held while bodies come, so they have a limit. It is far above that of the engines.
func TestHeadsHaveALimit(t *testing.T) {
	w := startWire(t, nil)
	with := func(length int) string {
		return "POST /idx/_doc HTTP/1.1\r\nHost: es\r\nX-A: " + strings.Repeat("a", length) + "\r\nContent-Length: 2\r\n\r\n{}"
	}
	_, answer := w.exchange(with(64 << 10))
	require.Equal(t, okAnswer, answer)
	c := w.dial()
	c.send(with(256 << 10)[:200<<10])
	answer, err := c.read("POST")
	require.NoError(t, err)
	require.Regexp(t, `^HTTP/1\.1 431 `, answer)
}
