package preflight_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/preflight"
	simcluster "sidestep/internal/sim/cluster"
)

// A node that is too busy answers nothing in time, which is one finding and not one of each kind.
func TestABusyNodeIsOneFinding(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2}).discover()
	s.options.Static = true
	s.instead = func(path string) (int, string) {
		if path == "/" {
			return 0, ""
		}
		return http.StatusTooManyRequests, `{"error":{"type":"circuit_breaking_exception"},"status":429}`
	}
	report := s.run()
	f := s.finding(report, `^requests of the kinds members, \w+, \w+, \w+, \w+ and 7 more were not answered as expected: status 429 Too Many Requests$`)
	require.Equal(t, preflight.Note, f.Level)
	require.Equal(t, 1, strings.Count(strings.Join(lines(report), "\n"), "not answered as expected"))
}

// A replica that is to be assigned is not missing for want of index.number_of_replicas.
func TestReplicasThatAreNotAssigned(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 1, Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 2, Replicas: 1}, {Name: "lone", Shards: 2}}}).discover()
	report := s.run()
	require.Equal(t, preflight.Note, s.finding(report, `^2 indices, 4 shards, of which 2 \(50 %\) have replicas and only one copy that serves`).Level)
	require.Equal(t, preflight.Note, s.finding(report, `^2 indices, 4 shards, of which 2 \(50 %\) have one copy only$`).Level)
}

// An address of https may lead to what speaks something else.
func TestWhatSpeaksNoTLS(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2})
	s.options.Seeds[0].Scheme = "https"
	s.finding(s.run(), `^no address of upstream\.urls answers: https://\S+ \(it speaks no TLS: the address must begin with http://, or is another one\)$`)

	greets, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer greets.Close()
	go func() {
		for {
			conn, err := greets.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "220 ready\r\n")
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	s.options.Seeds[0].Host = greets.Addr().String()
	s.finding(s.run(), `\(it speaks no TLS: `)
}

// What a gateway says that reaches no engine is no answer of one.
func TestAGatewayWithoutAnEngine(t *testing.T) {
	s := newStage(t, simcluster.Options{Nodes: 2}).discover()
	s.options.Static = true
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer gateway.Close()
	first, err := url.Parse(gateway.URL)
	require.NoError(t, err)
	s.options.Seeds = append([]*url.URL{first}, s.options.Seeds...)
	report := s.run()
	s.finding(report, `^1 of the 2 addresses of upstream\.urls do not answer: \S+ \(status 502 Bad Gateway\)$`)
	s.finding(report, `^all \d+ kinds of requests that sidestep makes are answered$`)
	s.options.Seeds = s.options.Seeds[:1]
	s.finding(s.run(), `^no address of upstream\.urls answers: \S+ \(status 502 Bad Gateway\)$`)
}
