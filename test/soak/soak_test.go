package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestForwarderRestarts(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }))
	defer node.Close()
	identity, authority, err := newIdentity()
	require.NoError(t, err)
	f, err := forward(t.Context(), node.Listener.Addr().String(), identity)
	require.NoError(t, err)
	defer f.stop()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	ask := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+f.address(), http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.Equal(t, "fine", string(body))
		return err
	}
	require.NoError(t, ask())
	require.Equal(t, 2, f.connections())

	f.down.Store(true)
	f.closeAll(false)
	require.Eventually(t, func() bool { return f.connections() == 0 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { // the connection that is kept is found to be closed first
		err := ask()
		return err != nil && strings.Contains(err.Error(), "tls: internal error")
	}, time.Minute, time.Millisecond)
	f.down.Store(false)
	require.NoError(t, ask())
}

func TestClientsTellWhatWentWrong(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"_shards":{"total":2,"successful":2,"skipped":0,"failed":0}}`)
		},
		"partial": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"responses":[{"_shards":{"total":2,"successful":2,"skipped":0,"failed":0}},{"_shards":{"total":2,"successful":1,"skipped":0,"failed":0}}]}`)
		},
		"status 503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"no answer":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"broken answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "cut")
		},
	}
	for kind, answer := range answers {
		t.Run(kind, func(t *testing.T) {
			s := httptest.NewServer(answer)
			defer s.Close()
			l := newLoad(s.URL, nil, options{})
			defer l.close()
			err := l.complete(t.Context(), search(wide, 1, 0))
			if kind == "" {
				require.NoError(t, err)
				return
			}
			var f failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, kind, f.kind)
			l.fail(t.Context(), err)
			require.Equal(t, kind+" × 1", l.failures())
		})
	}
}

func TestFewRequestsMayFail(t *testing.T) {
	l := newLoad("http://127.0.0.1:1", nil, options{})
	require.ErrorContains(t, l.check(), "no request succeeded")
	l.ok.Store(19_980)
	l.failed["status 502"], l.failed["no answer"] = 15, 5
	require.NoError(t, l.check())
	l.failed["partial"] = 1
	require.EqualError(t, l.check(), "21 of 20001 requests failed, allowed are 0.1 %")
}

func TestRequestsAreWhole(t *testing.T) {
	l := newLoad("http://127.0.0.1:1", nil, options{})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		r := draw(rng)
		require.Contains(t, string(l.wire(r, len(r.body))), "\r\n\r\n"+string(r.body))
	}
	require.Len(t, search(wide, 1, 5000).body, 5000)
	require.Greater(t, len(search(wide, 1, 0).body), 10)
}

// memory is one sample a second.
func memory(seconds int, of func(second int) float64) []sample {
	var out []sample
	for i := range seconds {
		out = append(out, sample{at: time.Duration(i) * time.Second, resident: of(i)})
	}
	return out
}

func TestMemoryIsJudgedByItsLows(t *testing.T) {
	bursts := func(i int) float64 { return 100<<20 + float64(i%7)*(20<<20) }
	require.NoError(t, checkMemory(memory(600, bursts)))
	rise, _ := growth(memory(600, func(i int) float64 { return bursts(i) + float64(i)*(1<<20) }))
	require.InDelta(t, 300<<20, rise, 20<<20)
	require.ErrorContains(t, checkMemory(memory(600, func(i int) float64 { return bursts(i) + float64(i)*(1<<20) })), "resident memory")
	require.NoError(t, checkMemory(memory(30, func(i int) float64 { return float64(i) * (1 << 30) })), "too short to be judged")
	require.NoError(t, checkMemory(nil))
}

func TestLeftovers(t *testing.T) {
	before := state{goroutines: 40, descriptors: 20, connections: 10}
	require.Empty(t, state{goroutines: 40 + slack, descriptors: 20, connections: 0}.exceeds(before))
	require.Len(t, state{goroutines: 41 + slack, descriptors: 21 + slack, connections: 11 + slack}.exceeds(before), 3)
}
