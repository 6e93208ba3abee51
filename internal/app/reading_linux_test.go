package app_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	simcluster "sidestep/internal/sim/cluster"
)

// repeating is a sidestep that gives documents ids, and a way to connect to it.
type repeating struct {
	*sidestep
	secure *tls.Config // nil: without TLS
	sent   uint64      // bulks
}

func startRepeating(t *testing.T, secure bool) *repeating {
	t.Helper()
	c, err := simcluster.Start(simcluster.Options{
		Nodes: 3, ServiceTime: time.Millisecond,
		Indices: []simcluster.IndexSpec{{Name: "logs", Shards: 3, Replicas: 1}},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	r := &repeating{}
	r.sidestep = inFrontOf(t, c, func(cfg *config.Config) {
		cfg.Bulk.Idempotent, cfg.Bulk.SingleShard = true, []config.SingleShard{{Index: "logs"}}
		if secure {
			trusted := newAuthority(t)
			cfg.ListenTLS.CertFile, cfg.ListenTLS.KeyFile = trusted.files(t.TempDir(), "data")
			r.secure = &tls.Config{RootCAs: trusted.pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
		}
	})
	require.Eventually(t, func() bool { // the first ones pass
		r.dial().bulk("warm-up")
		return r.counted("prepared") > 0
	}, patience, time.Millisecond)
	return r
}

// counted returns to how many bulks something happened.
func (r *repeating) counted(event string) int {
	r.t.Helper()
	return int(r.counter("sidestep_bulk_repeats_total", event))
}

// ended returns how many bulks have ended.
func (r *repeating) ended() (n uint64) {
	r.t.Helper()
	families, err := r.registry.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		if f.GetName() == "sidestep_bulk_documents" {
			n = f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return n
}

// kept is a connection that is kept alive.
type kept struct {
	net.Conn
	to     *repeating
	reader *bufio.Reader
}

func (r *repeating) dial() *kept {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.DataAddr().String()) //nolint:noctx // to itself
	require.NoError(r.t, err)
	if r.secure != nil {
		conn = tls.Client(conn, r.secure)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return &kept{conn, r, bufio.NewReader(conn)}
}

// send sends a bulk of a document and does not wait for the answer.
func (k *kept) send(document string) {
	k.to.t.Helper()
	body := strings.Repeat("{\"index\":{}}\n{\"a\":\""+document+"\"}\n", 20)
	_, err := fmt.Fprintf(k, "POST /logs/_bulk HTTP/1.1\r\nHost: sidestep\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(k.to.t, err)
	k.to.sent++
}

// bulk sends a bulk of a document and reads the answer.
func (k *kept) bulk(document string) {
	k.to.t.Helper()
	k.send(document)
	response, err := http.ReadResponse(k.reader, nil)
	require.NoError(k.to.t, err)
	require.Equal(k.to.t, http.StatusOK, response.StatusCode)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(k.to.t, err)
	require.NoError(k.to.t, response.Body.Close())
}

// leave sends a bulk of a document, and closes the connection when the answer is there,
// which it does not read. A bulk is counted as ended after it was answered, so it waits for all that were
// sent: an earlier one may still be missing.
func (k *kept) leave(document string) {
	k.to.t.Helper()
	k.send(document)
	require.Eventually(k.to.t, func() bool { return k.to.ended() == k.to.sent }, patience, 5*time.Millisecond)
	require.NoError(k.to.t, k.Close())
}

// eachWay runs a test without and with TLS.
func eachWay(t *testing.T, test func(*testing.T, *repeating)) {
	t.Helper()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) { test(t, startRepeating(t, secure)) })
	}
}

// To close a connection whose answer was not read resets it.
func TestABulkWhoseAnswerIsNotReadIsMatched(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, r *repeating) {
		for i := range 20 {
			document := fmt.Sprint("document ", i)
			before := r.counted("remembered")
			r.dial().leave(document)
			if i%2 == 0 { // else it may still be unknown, and is looked at
				require.Eventually(t, func() bool { return r.counted("remembered") > before }, patience, 5*time.Millisecond)
			}
			again := r.dial()
			again.bulk(document)
			require.Equal(t, i+1, r.counted("matched"))
			again.bulk(document)
			require.Equal(t, i+1, r.counted("matched"), "once")
		}
	})
}

func TestBulksWhoseAnswersAreReadAreNotMatched(t *testing.T) {
	t.Parallel()
	for how, another := range map[string]func(*repeating, *kept) *kept{
		"on the same connection": func(_ *repeating, k *kept) *kept { return k },
		"on another one":         func(r *repeating, _ *kept) *kept { return r.dial() },
		"after it was closed":    func(r *repeating, k *kept) *kept { _ = k.Close(); return r.dial() },
		"a while after it was":   func(r *repeating, k *kept) *kept { _ = k.Close(); _ = r.counted("matched"); return r.dial() },
		"after another bulk, whose answer is not": func(r *repeating, k *kept) *kept {
			k.leave(fmt.Sprint("another ", r.counted("prepared")))
			return r.dial()
		},
	} {
		t.Run(how, func(t *testing.T) {
			eachWay(t, func(t *testing.T, r *repeating) {
				for i := range 30 {
					one := r.dial()
					document := fmt.Sprint("document ", i)
					one.bulk(document)
					another(r, one).bulk(document)
				}
				require.Zero(t, r.counted("matched"))
			})
		})
	}
}
