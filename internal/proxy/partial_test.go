package proxy

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// The list of what failed may be longer than what is judged of an answer.
func TestAPartialAnswerWithALongListOfFailuresIsSeen(t *testing.T) {
	list := strings.Repeat(`{"shard":0,"index":"idx","node":"id-a","reason":{"type":"es_rejected_execution_exception","reason":"`+strings.Repeat("x", 500)+`"}},`, 200)
	h := start(t, 3, nil)
	h.slow(1)
	badOnce(h, respond(http.StatusOK, strings.Replace(partial(2, "id-a"), `"failures":[`, `"failures":[`+list, 1)))
	_, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, complete, body)
	require.Len(t, h.seen(), 2)
}

// encoders make bodies in the codings that the engines use for clients that accept gzip or deflate, as Apache's
// HttpClient, the official clients for JavaScript and .NET, Ruby's Net::HTTP and Python's requests do.
var encoders = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
}

// encoded makes an answer in a coding.
func encoded(coding, body string) func(string, http.ResponseWriter, *http.Request) {
	return func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", coding)
		z := encoders[coding](w)
		_, _ = io.WriteString(z, body)
		_ = z.Close()
	}
}

func TestACompressedPartialAnswerIsSeen(t *testing.T) {
	for coding := range encoders {
		for _, accepts := range []string{coding, "gzip, deflate", "gzip;q=1.0,deflate;q=0.6,identity;q=0.3", "gzip, compress, deflate, br"} {
			h := start(t, 3, nil)
			h.slow(1)
			badOnce(h, encoded(coding, partial(1, "id-a")))
			_, body := h.do("POST", "/idx/_search", `{}`, "Accept-Encoding", accepts)
			require.Equal(t, complete, body)
			seen := h.seen()
			require.Len(t, seen, 2)
			require.Contains(t, seen[0].uri, "preference=_only_nodes:", accepts)
		}
	}
}

// A gateway before the nodes may use a coding in which it cannot be seen whether shards are missing. The list may be why.
func TestAnAnswerInACodingThatCannotBeReadIsNotThatToAList(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, r.RequestURI)
	}
	_, body := h.do("POST", "/idx/_search", `{}`, "Accept-Encoding", "gzip, deflate, br")
	require.Equal(t, "/idx/_search", body)
	require.Len(t, h.seen(), 2)
	for _, accepts := range []string{"br", "gzip, deflate, br"} { // by now it is known
		_, body = h.do("POST", "/idx/_search", `{}`, "Accept-Encoding", accepts)
		require.Contains(t, body, "preference=_prefer_nodes:")
		require.Len(t, h.seen(), 1)
	}
	for _, offered := range []string{"gzip", "identity"} { // it is sent once: whatever is offered, the gateway uses its own
		_, body = h.do("POST", "/idx/_search", `{}`, "Accept-Encoding", offered)
		require.Contains(t, body, "preference=_only_nodes:")
		require.Len(t, h.seen(), 1)
	}
}

// A shard that cannot do what is asked of it, as a field has another type there, cannot on any copy. Many searches are of that
// kind, on patterns of indices with different mappings. The engine has asked all copies, but for those that a list left out.
func TestAPartialAnswerThatAllCopiesGiveIsFinal(t *testing.T) {
	answer := strings.Replace(partial(1, "id-a"), "node_disconnected_exception", "illegal_argument_exception", 1)
	for _, c := range []struct{ narrowed, attempts int }{{0, 1}, {2, 2}} {
		h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
		h.slow()
		for range c.narrowed {
			h.slow(1)
		}
		h.answer = respond(http.StatusOK, answer)
		for range 50 {
			_, body := h.do("POST", "/idx/_search", `{}`)
			require.Equal(t, answer, body)
			require.Len(t, h.seen(), c.attempts)
		}
		require.InDelta(t, 50, h.proxy.Totals().Outcomes["partial"], 0)
		require.Zero(t, h.proxy.Totals().Decisions[reasonFailing], "it tells nothing of other searches")
		for _, n := range h.proxy.Nodes() {
			require.Zero(t, n.Failures)
		}
	}
}

// So it is where all shards fail, although the engine answers 500, as it did not think of what is asked.
func TestAnErrorThatAllCopiesGiveIsFinal(t *testing.T) {
	const cause = `{"type":"null_pointer_exception","reason":"Cannot invoke \"Object.getClass()\" because \"value\" is null"}`
	const answer = `{"error":{"root_cause":[` + cause + `],"type":"search_phase_execution_exception","reason":"all shards failed","phase":"query","grouped":true,` +
		`"failed_shards":[{"shard":0,"index":"idx","node":"id-a","reason":` + cause + `}]},"status":500}`
	for _, c := range []struct{ narrowed, attempts int }{{0, 1}, {2, 2}} {
		h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
		h.slow()
		for range c.narrowed {
			h.slow(1)
		}
		h.answer = respond(http.StatusInternalServerError, answer)
		for range 50 {
			resp, body := h.do("POST", "/idx/_search", `{}`)
			require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
			require.Equal(t, answer, body)
			require.Len(t, h.seen(), c.attempts)
		}
		require.Zero(t, h.proxy.Totals().Decisions[reasonFailing], "it tells nothing of other searches")
	}
}

// A shard that had no copy to ask may have one in a moment, whatever another one cannot do.
func TestAPartialAnswerThatLacksAShardOnTopIsRepeated(t *testing.T) {
	h := start(t, 3, func(o *Options) { o.When = WhenOutlier })
	h.slow()
	refusal := strings.Replace(partial(1, "id-a"), "node_disconnected_exception", "illegal_argument_exception", 1)
	badOnce(h, respond(http.StatusOK, strings.Replace(refusal, `"successful":2`, `"successful":1`, 1)))
	_, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, complete, body)
	require.Len(t, h.seen(), 2)
}

// While searches fail everywhere one that is partial is no success: the next is not repeated for it.
func TestAPartialAnswerGivesNoCredit(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	h.answer = respond(http.StatusOK, partial(1, "id-a"))
	for range 40 {
		h.do("POST", "/idx/_search", "{}")
	}
	h.seen()
	for range 20 {
		h.do("POST", "/idx/_search", "{}")
	}
	require.Len(t, h.seen(), 20)
	require.Positive(t, testutil.ToFloat64(h.proxy.metrics.requests.WithLabelValues("search", reasonFailing, "partial")))
}

// A client that sends chunks that are none is told so, as by the engines.
func TestABodyThatIsNotInChunksIsAnswered(t *testing.T) {
	h := start(t, 2, nil)
	c := h.dial()
	_, err := io.WriteString(c, "POST /idx/_search HTTP/1.1\r\nHost: es\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.True(t, resp.Close)
	require.Empty(t, h.seen())
}

// A client that leaves before the last line of its chunks gets no answer, and is not told that they are none.
func TestAClientThatLeavesInTheMiddleOfItsChunksIsGone(t *testing.T) {
	h := start(t, 2, nil)
	c := h.dial()
	_, err := io.WriteString(c, "POST /idx/_search HTTP/1.1\r\nHost: es\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Empty(t, text)
	require.Empty(t, h.seen())
}

// An answer that breaks off in the list of what failed is that of a broken connection.
func TestAPartialAnswerThatBreaksOffIsABrokenConnection(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	badOnce(h, func(_ string, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, strings.TrimSuffix(partial(2, "id-a"), `]},"hits":{"hits":[]}}`))
		panic(http.ErrAbortHandler)
	})
	_, body := h.do("POST", "/idx/_search", `{}`)
	require.Equal(t, complete, body)
	require.Positive(t, testutil.ToFloat64(h.proxy.metrics.failovers.WithLabelValues("transport")))
}

// An error lists the root causes before the shards that failed and their nodes: those of many shards are longer than what is
// judged of an answer.
func TestNobodyIsBlamedForAnErrorWhoseShardsWereNotRead(t *testing.T) {
	const head, cause = `{"error":{"root_cause":[`, `{"type":"node_disconnected_exception","reason":"%s"}`
	for size, blamed := range map[int]uint64{10: 1, copyBuffer: 0} {
		h := start(t, 3, nil)
		h.slow(1)
		badOnce(h, respond(http.StatusServiceUnavailable, head+fmt.Sprintf(cause, strings.Repeat("x", size))+`],"failed_shards":[]},"status":503}`))
		_, body := h.do("POST", "/idx/_search", `{}`)
		require.Equal(t, complete, body)
		failures := uint64(0)
		for _, n := range h.proxy.Nodes() {
			failures += uint64(n.Failures)
		}
		require.Equal(t, blamed, failures)
	}
}

// What all copies refuse the engine words as the last copy tried did: with a list,
// that is another one.
func TestASearchThatCannotBeParsedIsRefusedInTheEnginesWords(t *testing.T) {
	const steered = `{"error":{"root_cause":[{"type":"query_shard_exception"}],"type":"search_phase_execution_exception"},"status":400}`
	const own = `{"error":{"root_cause":[{"type":"parse_exception"}],"type":"search_phase_execution_exception"},"status":400}`
	h := start(t, 3, nil)
	h.answer = func(node string, w http.ResponseWriter, r *http.Request) {
		body := own
		if strings.Contains(r.RequestURI, "preference") {
			body = steered
		}
		respond(http.StatusBadRequest, body)(node, w, r)
	}
	resp, body := h.do("POST", "/idx/_search?q=(", "", explainHeader, "1")
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Equal(t, own, body)
	require.Contains(t, resp.Header.Get(decisionHeader), "attempts=2")
}

// A client may have the list of failures left out of a partial result (filter_path). Which node failed is not known then: all that
// could have served it were held to have failed, and two such results had healthy nodes ejected.
func TestAPartialAnswerThatNamesNoNodeIsHeldAgainstNone(t *testing.T) {
	h := start(t, 3, nil)
	h.slow(1)
	for range 4 {
		badOnce(h, respond(http.StatusOK, `{"took":3,"_shards":{"total":3,"successful":2,"failed":1}}`))
		_, body := h.do("POST", "/idx/_search", `{}`)
		require.Equal(t, complete, body)
		require.Len(t, h.seen(), 2)
	}
	for _, n := range h.proxy.Nodes() {
		require.Zero(t, n.Failures, n.Name)
	}
}
