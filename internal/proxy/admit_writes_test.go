package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
	"sidestep/internal/cluster"
)

// startWrites starts one node with a limit of one task of its write pool, and room for one
// write that waits.
func startWrites(t *testing.T) *gatedNodes {
	c := startGated(t, 10, func(a *Admission) {
		a.Mode = admission.Off
		a.Writes = admission.Options{Mode: admission.Auto, Min: 1, Max: 1, Queue: admission.QueueOptions{Length: 1}}
	})
	c.polledWrites()
	return c
}

// polledWrites is a poll of all nodes that have written something.
func (c *gatedNodes) polledWrites() {
	for i := range c.nodes {
		for range 2 {
			c.proxy.UseStats(cluster.NodeStats{Node: id(i), At: time.Now(), State: cluster.PollOK, Threads: 1, WriteThreads: 1, Writes: 1})
		}
	}
}

// write sends a bulk, and returns once it is in flight or waits.
func (c *gatedNodes) write(body string) <-chan answered {
	c.t.Helper()
	a := c.proxy.writes
	under := func() int { return int(a.view(id(0), time.Now()).Admitted) + a.waiting() }
	before := under()
	out := c.send(c.t.Context(), http.MethodPost, "/lone/_bulk", body)
	require.Eventually(c.t, func() bool { return under() > before }, admitPatience, time.Millisecond)
	return out
}

// Writes wait by limits of their own: searches do not wait for them, and what cannot wait is
// refused in the engine's shape, also while its client still sends.
func TestWritesHaveLimitsOfTheirOwn(t *testing.T) {
	c := startWrites(t)
	const bulk = `{"index":{}}` + "\n{}\n"
	first, second := c.write(bulk), c.write(bulk)
	require.Equal(t, 1, c.proxy.writes.waiting())
	require.Equal(t, int64(1), c.proxy.Totals().Waiting)
	search := c.send(t.Context(), http.MethodGet, "/lone/_search", "")
	sent := 0
	require.Eventually(t, func() bool { sent += len(c.seen()); return sent == 2 }, admitPatience, time.Millisecond, "a search does not wait for writes")
	large := strings.Repeat(bulk, 1<<18)
	refused := <-c.send(t.Context(), http.MethodPost, "/lone/_bulk", large)
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Contains(t, refused.body, `"type":"rejected_execution_exception"`)
	for range 3 {
		c.let <- struct{}{}
	}
	for _, one := range []<-chan answered{first, second, search} {
		require.Equal(t, http.StatusOK, (<-one).status)
	}
	require.Len(t, c.seen(), 1)
	classes := c.proxy.AdmissionClasses()
	require.Equal(t, writesClass, classes[len(classes)-1].Class)
	require.Equal(t, []int64{2, 1}, []int64{classes[len(classes)-1].Admitted, classes[len(classes)-1].Refused})
	require.Equal(t, 1.0, *c.proxy.Nodes()[0].Writes.Limit)
	require.Nil(t, c.proxy.Nodes()[0].Load)
}

// A body that is sent piece by piece, whose client asked nothing, is read before the refusal.
func TestARefusedWriteIsReadToItsEnd(t *testing.T) {
	c := startWrites(t)
	first, second := c.write("{}\n"), c.write("{}\n")
	reader, writer := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.front.URL+"/lone/_doc", reader)
	require.NoError(t, err)
	go func() {
		for range 64 {
			_, _ = writer.Write(bytes.Repeat([]byte(" "), 64<<10))
		}
		_ = writer.Close()
	}()
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
}

// Writes follow the mode of routing, too.
func TestWritesPassWhileRoutingIsOff(t *testing.T) {
	c := startWrites(t)
	first, second := c.write("{}\n"), c.write("{}\n")
	require.NoError(t, c.proxy.SetMode(ModeOff))
	require.Equal(t, admission.Off, c.proxy.writes.inForce())
	require.Equal(t, admission.Off, c.proxy.AdmissionMode())
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
	require.Nil(t, c.proxy.Nodes()[0].Writes)
}
