package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A search whose answer breaks off before it can be judged has no answer.
func TestASearchIsSentAgainIfItsAnswerBreaksOffAtOnce(t *testing.T) {
	h := start(t, 3, nil)
	first := true
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		if !first {
			_, _ = io.WriteString(w, complete)
			return
		}
		first = false
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, `{"took":`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	resp, body := h.do("GET", "/idx/_search", "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, complete, body)
	require.Len(t, h.seen(), 2)
}

// A node may take any time between two chunks: what has come is not kept until the next one.
func TestAChunkIsPassedOnBeforeTheNextOneBegins(t *testing.T) {
	h := start(t, 3, nil)
	more := make(chan struct{})
	part := complete + strings.Repeat(" ", 20_000)
	h.answer = func(_ string, w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, part)
		_ = http.NewResponseController(w).Flush()
		<-more
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.front.URL+"/idx/_search", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	late := time.AfterFunc(time.Minute, func() { close(more) })
	_, err = io.ReadFull(resp.Body, make([]byte, len(part)))
	require.NoError(t, err)
	require.True(t, late.Stop(), "the part came with the next one")
	close(more)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
}

// A client of HTTP/2 has not stalled while its node takes nothing of the body.
func TestANodeThatTakesNothingEndsNoUploadOnHTTP2(t *testing.T) {
	t.Parallel()
	h := start(t, 3, func(o *Options) { o.BodyTimeout = 1500 * time.Millisecond })
	h.answer = func(_ string, w http.ResponseWriter, r *http.Request) {
		time.Sleep(4 * time.Second)
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	}
	front := httptest.NewUnstartedServer(h.proxy)
	front.EnableHTTP2 = true
	front.StartTLS()
	defer front.Close()
	const length = 32 << 20 // more than the sockets on the way hold
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, front.URL+"/lone/_doc/1", strings.NewReader(strings.Repeat("x", length)))
	require.NoError(t, err)
	req.Header.Set("X-Stream", "1")
	resp, err := front.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 2, resp.ProtoMajor)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(length), string(body))
}
